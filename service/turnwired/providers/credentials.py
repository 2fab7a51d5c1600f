"""Where keys come from: an environment variable or a file, read anew for every call. Keys are never stored or shown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from turnwired.domain.failure import Reason
from turnwired.providers.errors import provider_failure
from turnwired.providers.profiles import Profile

MAX_KEY_BYTES = 64 * 1024


class KeySource(Protocol):
    """Gives the key of one provider."""

    def key(self) -> str:
        """The key now; empty when there is none. Raises ProviderError when it cannot be read."""
        ...

    @property
    def hint(self) -> str:
        """Where a person puts the key, as a phrase: ``the environment variable OPENAI_API_KEY``."""
        ...


class EnvironmentKey:
    """A key in an environment variable."""

    __slots__ = ("_environ", "_variable")

    def __init__(self, variable: str, environ: Mapping[str, str]) -> None:
        self._variable = variable
        self._environ = environ

    def key(self) -> str:
        """The variable's value."""
        return self._environ.get(self._variable, "").strip()

    @property
    def hint(self) -> str:
        """Where to put it."""
        return f"the environment variable {self._variable}"


class FileKey:
    """A key in a file, such as a mounted secret. Read again only when the file has changed."""

    __slots__ = ("_cached", "_path", "_stamp")

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._stamp: tuple[int, int, int] | None = None
        self._cached = ""

    def key(self) -> str:
        """The file's content without surrounding white space."""
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if stamp != self._stamp:
                with self._path.open(encoding="utf-8") as file:
                    self._cached = file.read(MAX_KEY_BYTES).strip()
                self._stamp = stamp
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise provider_failure(
                Reason.PROVIDER_NOT_CONFIGURED, f"The key file {self._path} cannot be read: {type(error).__name__}."
            ) from None
        return self._cached

    @property
    def hint(self) -> str:
        """Where to put it."""
        return f"the file {self._path}"


class NoKey:
    """For servers that need no key."""

    __slots__ = ()

    def key(self) -> str:
        """Nothing."""
        return ""

    @property
    def hint(self) -> str:
        """Where to put one after all."""
        return "the profile's key_env or key_file"


def key_source(profile: Profile, environ: Mapping[str, str] = os.environ) -> KeySource:
    """The source that a profile names; a file wins over a variable."""
    if profile.key_file:
        return FileKey(profile.key_file)
    return EnvironmentKey(profile.key_env, environ) if profile.key_env else NoKey()
