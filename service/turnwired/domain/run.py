"""A run as callers ask for it, read and listed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from turnwired.domain.attachment import Attachment
from turnwired.domain.event import RunWaiting
from turnwired.domain.message import Message
from turnwired.domain.model import ModelSelection, OutputFormat, TraceContext
from turnwired.domain.outcome import Outcome
from turnwired.domain.policy import Policy
from turnwired.domain.tool import ToolSelection
from turnwired.domain.usage import Cost, Usage

DEFAULT_TENANT = "default"
"""The tenant of callers that no configuration gives another; keys carry it from the first schema on."""
ANONYMOUS = "anonymous"
"""The principal of callers that show no credential."""
OPERATOR_ROLE = "operator"
"""The role of those who run the deployment: they change what others use, and alone may have operator tools."""

TOOL_HOST_ROLE = "tool_host"
"""The role of apps that may register as hosts of tools."""


class RunState(StrEnum):
    """Where a run stands."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    WAITING = "WAITING"
    SETTLED = "SETTLED"


class OnDisconnect(StrEnum):
    """What a run does when the stream that started it is cut."""

    CANCEL = "CANCEL"
    CONTINUE = "CONTINUE"


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose behalf: ``tenant`` scopes sessions, runs and agents, ``principal`` idempotency keys, and ``roles`` say
    which tools it may see and call.
    """

    tenant: str = DEFAULT_TENANT
    principal: str = ANONYMOUS
    roles: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TurnSpec:
    """What a caller asks for, checked and translated. ``request_id`` empty: not idempotent.

    ``caller_timeout``: seconds after which the caller gives up and the run ends with its call; None: it does not.
    """

    caller: Caller
    input: tuple[Message, ...]
    request_id: str = ""
    agent_id: str = ""
    session_id: str | None = None
    policy: Policy = field(default_factory=Policy)
    tools: ToolSelection = field(default_factory=ToolSelection)
    model: ModelSelection | None = None
    output_format: OutputFormat | None = None
    include_trace: bool = False
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    parent_run_id: str | None = None
    on_disconnect: OnDisconnect | None = None
    caller_timeout: float | None = None
    attachments: tuple[Attachment, ...] = ()
    """Files of the input, as they stood when the turn came; those that were there are in it as bytes."""
    attachment_places: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """By attachment_id: which message of the input, and which part of it, the file is."""
    digest: bytes = b""  # of the request's content: tells a repeated request_id from a reused one


@dataclass(frozen=True, slots=True)
class Cursor:
    """A reader's place in a run's log. Each takeover of a run raises the epoch, from 1; sequence 0 is the start."""

    epoch: int = 0
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """State of one turn. Times are Unix nanoseconds, 0 when not reached; usage and cost are those so far.

    ``waiting``: what for, while the state is WAITING.
    """

    run_id: str
    agent_id: str
    state: RunState
    create_time_ns: int
    session_id: str | None = None
    parent_run_id: str | None = None
    outcome: Outcome | None = None
    waiting: RunWaiting | None = None
    message: Message | None = None
    structured_output_json: str | None = None
    epoch: int = 1
    last_sequence: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: Cost | None = None
    settle_time_ns: int = 0
    trace_context: TraceContext = field(default_factory=TraceContext)
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    model: ModelSelection | None = None
    start_time_ns: int = 0
    agent_revision: int = 0


@dataclass(frozen=True, slots=True)
class Agent:
    """A named configuration. ``instructions`` are system blocks, kept apart for prompt caching.

    ``revision`` counts changes from 1. Times are Unix nanoseconds, 0 for an agent of the configuration. ``agents`` are
    ids of those that it may call as tools. ``run_as``: the principal whose identity its tool calls carry; empty: the
    caller's.
    """

    agent_id: str
    instructions: tuple[str, ...] = ()
    model: ModelSelection | None = None
    policy: Policy = field(default_factory=Policy)
    tools: ToolSelection = field(default_factory=ToolSelection)
    description: str = ""
    agents: tuple[str, ...] = ()
    run_as: str = ""
    revision: int = 1
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    create_time_ns: int = 0
    update_time_ns: int = 0
