"""Where keys come from: an environment variable or a file, read anew for every call. Keys are never stored or shown.

Clouds sign in by themselves: ``turnwired.providers.cloud``. Knows no wire and sends nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Reason
from turnwired.providers.errors import provider_failure
from turnwired.providers.profiles import Profile, SignIn

MAX_KEY_BYTES = 64 * 1024


class KeySource(Protocol):
    """Gives the key of one provider. Reading it is cheap enough for every call."""

    def key(self) -> str:
        """The key now; empty when there is none. Raises ProviderError when it cannot be read."""
        ...

    @property
    def hint(self) -> str:
        """Where a person puts the key, as a phrase: ``the environment variable OPENAI_API_KEY``."""
        ...


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request that is to be authorised, as it will be sent: some sign-ins sign all of it."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Authorization:
    """Headers to add to a request. ``secret`` is what must never be shown of them."""

    headers: Mapping[str, str] = field(repr=False)
    secret: str = field(default="", repr=False)


class Credentials(Protocol):
    """Authorises the calls to one provider: by a key, or by signing in to a cloud."""

    @property
    def hint(self) -> str:
        """Where a person puts what is needed, as a phrase."""
        ...

    @property
    def lack(self) -> str:
        """What to say when nothing is ready, after the provider's name: what is missing and what to do."""
        ...

    def ready(self) -> bool:
        """Whether there is something to sign in with. No network. Raises nothing."""
        ...

    async def authorize(self, outgoing: Outgoing) -> Authorization:
        """Headers that authorise this request. Raises ProviderError."""
        ...

    async def renew(self) -> None:
        """The provider rejected what was given last: read or fetch it anew for the next request."""
        ...

    async def aclose(self) -> None:
        """Close what it holds. Bounded."""
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
        self._stamp: tuple[int, int, int, int] | None = None
        self._cached = ""

    def key(self) -> str:
        """The file's content without surrounding white space."""
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
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

    def forget(self) -> None:
        """Read the file again next time, whatever its stamp says."""
        self._stamp = None

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


class KeyCredentials:
    """A key in a header, read from its source for every request: there is nothing to renew but what a source caches."""

    __slots__ = ("_header", "_scheme", "_source")

    def __init__(self, source: KeySource, header: str = "Authorization", scheme: str = "Bearer") -> None:
        """The key is sent as ``<header>: <scheme> <key>``, without a scheme as ``<header>: <key>``."""
        self._source = source
        self._header = header
        self._scheme = scheme

    @property
    def hint(self) -> str:
        """Where to put the key."""
        return self._source.hint

    @property
    def lack(self) -> str:
        """What to say without a key."""
        return f"has no key: put it into {self._source.hint}"

    def ready(self) -> bool:
        """Whether there is a key. One that cannot be read is an error of the call, which says why."""
        try:
            return bool(self._source.key())
        except ProviderError:
            return True

    async def authorize(self, outgoing: Outgoing) -> Authorization:  # noqa: ARG002 - the port's
        """The key's header; none without a key."""
        key = self._source.key()
        if not key:
            return _NOTHING
        if not _SENDABLE.fullmatch(key):
            raise provider_failure(
                Reason.PROVIDER_NOT_CONFIGURED,
                f"The key in {self._source.hint} cannot be sent: a key is one line of printable ASCII characters.",
            )
        return Authorization({self._header: f"{self._scheme} {key}" if self._scheme else key}, key)

    async def renew(self) -> None:
        """Read the key anew, also where its source looks unchanged."""
        if isinstance(self._source, FileKey):
            self._source.forget()

    async def aclose(self) -> None:
        """Nothing to close."""


_NOTHING = Authorization({})
_SENDABLE = re.compile(r"[\x20-\x7e]+")


def key_source(profile: Profile, environ: Mapping[str, str] = os.environ) -> KeySource:
    """The source that a profile names; a file wins over a variable."""
    if profile.key_file:
        return FileKey(profile.key_file)
    return EnvironmentKey(profile.key_env, environ) if profile.key_env else NoKey()


def credentials_of(profile: Profile, environ: Mapping[str, str] = os.environ) -> Credentials:
    """What authorises calls to a profile's server."""
    match profile.sign_in:
        case SignIn.KEY:
            return KeyCredentials(key_source(profile, environ), profile.auth_header, profile.auth_scheme)
        case SignIn.AZURE:
            from turnwired.providers.cloud.azure import azure_credentials

            return azure_credentials(profile, environ)
        case SignIn.AWS:
            from turnwired.providers.cloud.aws import AwsCredentials

            return AwsCredentials(profile, environ)
        case SignIn.GOOGLE:
            from turnwired.providers.cloud.google import google_credentials

            return google_credentials(profile, environ)
