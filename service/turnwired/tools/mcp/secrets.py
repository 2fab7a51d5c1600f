"""Values that are written elsewhere: ``${NAME}`` of the environment, ``${file:/PATH}``; read anew each time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from turnwired.domain.errors import ConfigError
from turnwired.domain.run import Caller

MAX_SECRET_BYTES: Final = 64 * 1024
_REFERENCE: Final = re.compile(
    r"\$(?P<plain>\$\{)|\$\{file:(?P<file>(?:[^{}]|\{[a-z]+\})+)\}|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}"
)
_NAMES_A_SECRET: Final = re.compile(r"(?i)key|token|secret|passw|credential")
_CALLER: Final = re.compile(r"\{(tenant|principal)\}")
_SAFE_NAME: Final = re.compile(r"^[A-Za-z0-9@_+-][A-Za-z0-9@._+-]{0,127}$")


def refers(value: str) -> bool:
    """Whether the value refers to something."""
    return any(match["plain"] is None for match in _REFERENCE.finditer(value))


def names_caller(value: str) -> bool:
    """Whether a file in it depends on the caller."""
    return any(_CALLER.search(match["file"] or "") for match in _REFERENCE.finditer(value))


def referred(value: str, environ: Mapping[str, str], caller: Caller | None = None) -> Iterator[str]:
    """What each reference in the value leads to now; one that leads nowhere is passed over."""
    for match in _REFERENCE.finditer(value):
        if match["plain"] is None:
            with suppress(ConfigError):
                yield expanded(match[0], "", environ, caller)


def is_secret(name: str) -> bool:
    """Whether what is called so is a credential by its name."""
    return _NAMES_A_SECRET.search(name) is not None


def literal(value: str) -> str:
    """The value as one that refers to nothing."""
    return value.replace("${", "$${")


def file_in(path: str) -> str:
    """A value that is a file's content."""
    return f"${{file:{path}}}"


def expanded(value: str, where: str, environ: Mapping[str, str], caller: Caller | None = None) -> str:
    """The value with what it refers to; a file without the white space around it. Raises ConfigError."""

    def replacement(match: re.Match[str]) -> str:
        if match["plain"] is not None:
            return "${"
        if match["file"] is not None:
            return _read(_path_for(match["file"], where, caller), where)
        found = environ.get(match["name"])
        if found is None:
            raise ConfigError(f"environment variable {match['name']} is not set, but {where} needs it")
        return found

    return _REFERENCE.sub(replacement, value)


def _path_for(template: str, where: str, caller: Caller | None) -> str:
    def name(match: re.Match[str]) -> str:
        # The name becomes part of a path: whatever could lead out of its directory is refused, not repaired.
        value = "" if caller is None else caller.tenant if match[1] == "tenant" else caller.principal
        if not _SAFE_NAME.fullmatch(value):
            raise ConfigError(f"{where} needs a {match[1]} whose name can be a file's")
        return value

    return _CALLER.sub(name, template)


def _read(path: str, where: str) -> str:
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(MAX_SECRET_BYTES).strip()
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"the file of {where} cannot be read") from None
    if not text:
        raise ConfigError(f"the file of {where} is empty")
    return text
