"""Apps that serve tools: what they say of their tools and give for calls, and where a host stands."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from turnwired.domain.failure import Failure
from turnwired.domain.message import Part
from turnwired.domain.run import Caller
from turnwired.domain.tool import Tool


@dataclass(frozen=True, slots=True)
class HostedTool:
    """A tool of an app. ``deduplicated``: the app does nothing for an idempotency key that it knows."""

    tool: Tool
    deduplicated: bool = False

    @property
    def repeatable(self) -> bool:
        """Whether a second call with the same key does no more than the first."""
        hints = self.tool.annotations
        return bool(self.deduplicated or hints.idempotent or hints.read_only)


@dataclass(frozen=True, slots=True)
class HostedPage:
    """A page of an app's tools. ``unchanged``: they are those of the version that was asked with. ``cut``: how many
    more there were, beyond what is read.
    """

    tools: tuple[HostedTool, ...]
    version: str = ""
    unchanged: bool = False
    next_page_token: str = ""
    cut: int = 0


@dataclass(frozen=True, slots=True)
class HostedCall:
    """A call as it is sent. ``idempotency_key`` is the same for every attempt of one call."""

    name: str
    arguments_json: str
    idempotency_key: str
    run_id: str
    call_id: str
    caller: Caller
    session_id: str | None = None
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class HostedProgress:
    """How far a call is, in units of the tool."""

    done: float
    total: float | None
    message: str


@dataclass(frozen=True, slots=True)
class HostedResult:
    """What a call gave, as the app typed it."""

    content: tuple[Part, ...]
    structured_json: str | None = None
    is_error: bool = False


class ToolHostState(StrEnum):
    """Whether an app that serves tools can be called."""

    CONNECTING = "CONNECTING"
    READY = "READY"
    NOT_SERVING = "NOT_SERVING"
    UNAVAILABLE = "UNAVAILABLE"


@dataclass(frozen=True, slots=True)
class ToolHost:
    """A host as callers see it. ``lease_expire_ns``: Unix time at which its registration ends, 0 for one of the
    configuration.
    """

    host_id: str
    address: str
    state: ToolHostState
    tool_count: int = 0
    version: str = ""
    lease_expire_ns: int = 0
    failure: Failure | None = None
