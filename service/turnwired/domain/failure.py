"""What went wrong, where. Names follow the enums ``Reason`` and ``FailurePhase`` of the contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class FailurePhase(StrEnum):
    """Stages of a run in which it can fail."""

    PREPARATION = "PREPARATION"
    ROUTING = "ROUTING"
    TRANSPORT = "TRANSPORT"
    TOOL = "TOOL"
    MODEL = "MODEL"
    SYNTHESIS = "SYNTHESIS"
    SETTLEMENT = "SETTLEMENT"


class Reason(StrEnum):
    """Machine-readable causes, in band and in ``google.rpc.ErrorInfo.reason``. Values are only ever added."""

    INVALID_REQUEST = "INVALID_REQUEST"
    AGENT_NOT_FOUND = "AGENT_NOT_FOUND"
    SESSION_NOT_FOUND = "SESSION_NOT_FOUND"
    SESSION_BUSY = "SESSION_BUSY"
    RUN_NOT_FOUND = "RUN_NOT_FOUND"
    RUN_SETTLED = "RUN_SETTLED"
    EVENTS_EXPIRED = "EVENTS_EXPIRED"
    REQUEST_ID_REUSED = "REQUEST_ID_REUSED"
    ETAG_MISMATCH = "ETAG_MISMATCH"
    APPROVAL_NOT_FOUND = "APPROVAL_NOT_FOUND"
    APPROVAL_ALREADY_RESOLVED = "APPROVAL_ALREADY_RESOLVED"
    OVERLOADED = "OVERLOADED"
    SHUTTING_DOWN = "SHUTTING_DOWN"
    OPTION_NOT_SUPPORTED = "OPTION_NOT_SUPPORTED"
    STORE_UNAVAILABLE = "STORE_UNAVAILABLE"

    TOOL_NOT_FOUND = "TOOL_NOT_FOUND"
    TOOL_NAME_COLLISION = "TOOL_NAME_COLLISION"
    TOOL_ARGUMENTS_INVALID = "TOOL_ARGUMENTS_INVALID"
    TOOL_DENIED = "TOOL_DENIED"
    TOOL_REJECTED = "TOOL_REJECTED"
    TOOL_FAILED = "TOOL_FAILED"
    TOOL_TIMEOUT = "TOOL_TIMEOUT"
    TOOL_INTERRUPTED = "TOOL_INTERRUPTED"
    TOOL_RESULT_TRUNCATED = "TOOL_RESULT_TRUNCATED"
    TOOL_LOOP_DETECTED = "TOOL_LOOP_DETECTED"
    TOOL_NOT_EXECUTED = "TOOL_NOT_EXECUTED"
    TOOL_OUTCOME_UNKNOWN = "TOOL_OUTCOME_UNKNOWN"

    MCP_UNAVAILABLE = "MCP_UNAVAILABLE"
    MCP_DISCOVERY_FAILED = "MCP_DISCOVERY_FAILED"
    MCP_SESSION_LOST = "MCP_SESSION_LOST"

    PROVIDER_RATE_LIMITED = "PROVIDER_RATE_LIMITED"
    PROVIDER_QUOTA_EXHAUSTED = "PROVIDER_QUOTA_EXHAUSTED"
    PROVIDER_UNAVAILABLE = "PROVIDER_UNAVAILABLE"
    PROVIDER_AUTH_FAILED = "PROVIDER_AUTH_FAILED"
    PROVIDER_FORBIDDEN = "PROVIDER_FORBIDDEN"
    PROVIDER_REJECTED = "PROVIDER_REJECTED"
    PROVIDER_NETWORK = "PROVIDER_NETWORK"
    PROVIDER_PROTOCOL_ERROR = "PROVIDER_PROTOCOL_ERROR"
    PROVIDER_TIMEOUT = "PROVIDER_TIMEOUT"
    PROVIDER_CONTENT_FILTERED = "PROVIDER_CONTENT_FILTERED"
    PROVIDER_MODEL_FAULT = "PROVIDER_MODEL_FAULT"
    PROVIDER_NOT_CONFIGURED = "PROVIDER_NOT_CONFIGURED"
    MODEL_NOT_FOUND = "MODEL_NOT_FOUND"
    MODEL_REFUSED = "MODEL_REFUSED"
    CONTEXT_OVERFLOW = "CONTEXT_OVERFLOW"
    USAGE_UNREPORTED = "USAGE_UNREPORTED"
    STRUCTURED_OUTPUT_INVALID = "STRUCTURED_OUTPUT_INVALID"

    ATTACHMENT_FAILED = "ATTACHMENT_FAILED"
    CANCELLED = "CANCELLED"
    CALLER_DISCONNECTED = "CALLER_DISCONNECTED"
    WAIT_EXPIRED = "WAIT_EXPIRED"
    LIMIT_REACHED = "LIMIT_REACHED"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    SERVER_RESTARTED = "SERVER_RESTARTED"
    INTERNAL = "INTERNAL"


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure.

    ``message`` is for developers: it says what happened and what to do, and holds no secrets and no prompt text.
    ``retry_after`` is in seconds, where the other side told it. ``origin`` names the provider, server or tool;
    ``origin_code`` is its own code, such as ``529`` or ``-32602``. ``iteration`` is 0 when none had begun.
    """

    phase: FailurePhase
    reason: Reason
    message: str
    retryable: bool = False
    retry_after: float | None = None
    iteration: int = 0
    call_id: str | None = None
    origin: str = ""
    origin_code: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
