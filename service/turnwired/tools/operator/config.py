"""What a deployment lets its operators' tools reach. Pure data; everything is off until it is named here."""

from __future__ import annotations

import fnmatch
import ipaddress
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

_NAME: Final = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$"
_HOST: Final = re.compile(r"^(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?$")
_PORT_END: Final = re.compile(r"^(?P<host>.+?)(?::(?P<port>\d{1,5}))?$")

FILE_TOOLS: Final = ("read_file", "write_file", "apply_patch", "list_dir", "grep_files", "tail_file")
_CHANGING: Final = frozenset({"write_file", "apply_patch"})
FETCH_TOOLS: Final = ("http_fetch",)
INSPECTOR_TOOLS: Final = ("inspector_attach", "evaluate", "set_breakpoint", "set_logpoint", "profile_cpu")

MIB: Final = 1024 * 1024


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FileRoot(_Section):
    """A directory that file tools see, as the first part of their paths. ``name``: by default the directory's own.

    ``exclude``: names, or paths below the root where there is a slash in them, that are as if they were not there, with
    all that is below them; ``*`` and ``?`` as in a shell, but a star also stands for slashes.
    """

    path: Path
    name: Annotated[str, Field(pattern=_NAME)] = ""
    writable: bool = False
    exclude: tuple[Annotated[str, Field(min_length=1, max_length=500)], ...] = ()

    @model_validator(mode="after")
    def _is_a_place(self) -> Self:
        if not self.path.is_absolute():
            raise ValueError("path must be absolute: what it means must not depend on where the server is started")
        if not self.name and not re.match(_NAME, self.path.name):
            raise ValueError("needs a name of letters, digits, dots, dashes and underscores")
        return self

    @property
    def root_name(self) -> str:
        """What paths begin with."""
        return self.name or self.path.name

    def excludes(self, names: Sequence[str]) -> bool:
        """Whether the last of the names below the root is excluded; those before it have been looked at."""
        below = "/".join(names)
        return any(fnmatch.fnmatchcase(below if "/" in each else names[-1], each) for each in self.exclude)


class FilesConfig(_Section):
    """File tools. Sizes are in bytes, times in seconds.

    ``max_read_bytes`` is what one call shows of a file, ``max_write_bytes`` the largest file that is written or
    patched, ``max_search_bytes`` and ``max_search_seconds`` what one search reads.
    """

    roots: tuple[FileRoot, ...] = Field(min_length=1)
    max_read_bytes: Annotated[int, Field(ge=1024, le=64 * MIB)] = 48 * 1024
    max_write_bytes: Annotated[int, Field(ge=1024, le=64 * MIB)] = 4 * MIB
    max_entries: Annotated[int, Field(ge=1, le=100_000)] = 1000
    max_matches: Annotated[int, Field(ge=1, le=100_000)] = 200
    max_search_bytes: Annotated[int, Field(ge=1024, le=16 * 1024 * MIB)] = 256 * MIB
    max_search_seconds: Annotated[float, Field(gt=0, le=600)] = 10.0

    @property
    def writable(self) -> bool:
        """Whether there is a root to write in."""
        return any(root.writable for root in self.roots)

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [root.root_name for root in self.roots]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f'two roots are called "{name}"; give one of them another name')
        return self


class FetchConfig(_Section):
    """``http_fetch``. Sizes are in bytes, times in seconds.

    ``allow_hosts``: when there are any, only these. ``deny_hosts``: never these, whatever else says. Both take
    ``*.example.com`` for what is below a domain. ``private_hosts``, as ``name`` or ``name:port``, may lead to addresses
    of this machine and of private networks; no pattern can. ``ports`` are those of all other hosts. A redirect to
    another host is followed only with ``follow_to_other_hosts``: else the model is told where it leads, and may ask.
    ``ca_file`` has the certificates that are trusted instead of the system's.
    """

    allow_hosts: tuple[str, ...] = ()
    deny_hosts: tuple[str, ...] = ()
    private_hosts: tuple[str, ...] = ()
    ports: tuple[Annotated[int, Field(ge=1, le=65535)], ...] = (80, 443)
    follow_to_other_hosts: bool = False
    max_redirects: Annotated[int, Field(ge=0, le=20)] = 5
    max_bytes: Annotated[int, Field(ge=1024, le=64 * MIB)] = MIB
    max_seconds: Annotated[float, Field(gt=0, le=300)] = 10.0
    user_agent: Annotated[str, Field(pattern=r"^[\x21-\x7e][\x20-\x7e]{0,255}$")] = "turnwire"
    ca_file: Path | None = None

    @field_validator("allow_hosts", "deny_hosts")
    @classmethod
    def _are_hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_host(each, "*.") for each in value)

    @field_validator("private_hosts")
    @classmethod
    def _are_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            host, port = host_and_port(each)
            if port is not None and not 0 < port < 65536:
                raise ValueError(f'"{each}" has no such port')
            _host(host, "")
        return tuple(each.lower() for each in value)


class InspectorTarget(_Section):
    """A Node process that was started with ``--inspect``: ``host:port`` of its inspector."""

    address: str
    remote: bool = False

    @model_validator(mode="after")
    def _is_local(self) -> Self:
        host, port = host_and_port(self.address)
        if port is None or not 0 < port < 65536:
            raise ValueError('takes "host:port", such as "127.0.0.1:9229"')
        if not self.remote and not is_loopback(host):
            raise ValueError(f"{self.address} is not of this machine; whoever reaches it needs remote = true")
        return self


class InspectorConfig(_Section):
    """Tools that look into Node processes. Times are in seconds, sizes in bytes.

    ``max_pause_seconds``: for how long a breakpoint may hold the process. ``idle_seconds``: after so long without a
    call a session ends by itself.
    """

    targets: tuple[InspectorTarget, ...] = Field(min_length=1)
    max_sessions: Annotated[int, Field(ge=1, le=64)] = 4
    idle_seconds: Annotated[float, Field(gt=0, le=86_400)] = 300.0
    max_wait_seconds: Annotated[float, Field(gt=0, le=300)] = 30.0
    max_pause_seconds: Annotated[float, Field(gt=0, le=60)] = 2.0
    max_message_bytes: Annotated[int, Field(ge=4096, le=256 * MIB)] = 32 * MIB


class OperatorConfig(_Section):
    """All operator tools. A section that is not there has none.

    ``always_ask`` names tools of which a person is asked each time, whatever rules and ``auto_approve`` say.
    """

    files: FilesConfig | None = None
    fetch: FetchConfig | None = None
    inspector: InspectorConfig | None = None
    always_ask: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _asks_about_tools(self) -> Self:
        there = self.names
        for name in self.always_ask:
            if name not in there:
                known = ", ".join(there) or "none"
                raise ValueError(f'always_ask names "{name[:64]}", which is not on; operator tools that are: {known}')
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The tools that are on."""
        files = self.files
        return (
            *(name for name in FILE_TOOLS if files is not None and (files.writable or name not in _CHANGING)),
            *(FETCH_TOOLS if self.fetch is not None else ()),
            *(INSPECTOR_TOOLS if self.inspector is not None else ()),
        )


def host_and_port(text: str) -> tuple[str, int | None]:
    """``host``, ``host:port``, ``[::1]:port`` or ``::1`` taken apart; the host without brackets, in lower case."""
    lowered = text.lower()
    if lowered.startswith("["):
        host, _, rest = lowered[1:].partition("]")
        return host, int(rest[1:]) if rest[1:].isdigit() else None
    if lowered.count(":") > 1:
        return lowered, None
    found = _PORT_END.match(lowered)
    if found is None:
        return lowered, None
    return found["host"], None if found["port"] is None else int(found["port"])


def is_loopback(host: str) -> bool:
    """Whether a host can only be this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host(text: str, wildcard: str) -> str:
    lowered = text.lower()
    if not wildcard and lowered.startswith("*"):
        raise ValueError(f'"{text}" is a pattern; private hosts are named one by one')
    try:
        return str(ipaddress.ip_address(lowered.strip("[]")))
    except ValueError:
        pass
    if not lowered.isascii() or not _HOST.match(lowered):
        raise ValueError(f'"{text}" is no host; write "example.com" or "*.example.com", in ASCII')
    return lowered
