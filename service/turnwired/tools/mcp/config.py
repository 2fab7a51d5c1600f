"""How a deployment names an MCP server that runs as a child process and speaks over stdio."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

from turnwired.domain.errors import ConfigError

SAFE_ENVIRONMENT: Final = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *("SYSTEMROOT", "TEMP", "USERPROFILE"),
)
"""What a child inherits of our environment. Everything else, our own keys first of all, stays here unless named."""

_VARIABLE: Final = re.compile(r"\$(\$\{)|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

_Seconds = Annotated[float, Field(gt=0, le=3600)]
_Pattern = Annotated[str, Field(min_length=1)]


class StdioServer(BaseModel):
    """One server. Times are in seconds.

    ``env`` adds to the safe base; ``${NAME}`` in a value is the variable of that name in our own environment, ``$${``
    is a plain ``${``. ``include`` and ``exclude`` are patterns (``*``) of the server's own tool names. ``namespace``
    goes in front of them, as ``{namespace}__{tool}``; the server's id by default. Without a ``required`` server no run
    starts. ``call_timeout`` holds beside the policy's. ``trust_annotations``: a call that was lost is made once more if
    the server calls the tool idempotent or read-only.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: Annotated[str, Field(min_length=1)]
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    cwd: str | None = None
    namespace: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,32}$")] | None = None
    include: tuple[_Pattern, ...] = ()
    exclude: tuple[_Pattern, ...] = ()
    required: bool = False
    trust_annotations: bool = False
    connect_timeout: _Seconds = 20.0
    call_timeout: _Seconds | None = None
    close_timeout: _Seconds = 2.0
    max_message_bytes: Annotated[int, Field(ge=64 * 1024, le=256 * 1024 * 1024)] = 16 * 1024 * 1024

    @field_validator("command", "cwd")
    @classmethod
    def _no_nul(cls, value: str | None) -> str | None:
        if value is not None and "\0" in value:
            raise ValueError("may not hold a NUL character")
        return value

    def environment(self, ours: Mapping[str, str] | None = None) -> dict[str, str]:
        """The child's environment. Raises ConfigError for a variable that is named and not set."""
        source = os.environ if ours is None else ours
        environment = {name: source[name] for name in SAFE_ENVIRONMENT if name in source}
        for name, value in self.env.items():
            environment[name] = _expand(name, value, source)
        return environment


def _expand(name: str, value: str, source: Mapping[str, str]) -> str:
    def replacement(match: re.Match[str]) -> str:
        if match[1] is not None:
            return "${"
        found = source.get(match[2])
        if found is None:
            raise ConfigError(f"environment variable {match[2]} is not set, but env.{name} needs it")
        return found

    return _VARIABLE.sub(replacement, value)
