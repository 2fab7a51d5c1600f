"""Questions that a person must answer before a tool is called."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from turnwired.domain.message import ToolCall


class ApprovalKind(StrEnum):
    """Why the question is asked: a rule says so, the tool is destructive, the model repeats itself, a tool asks."""

    RULE = "RULE"
    DESTRUCTIVE = "DESTRUCTIVE"
    LOOP_DETECTED = "LOOP_DETECTED"
    INPUT = "INPUT"


class ApprovalState(StrEnum):
    """Where a question stands. WITHDRAWN: the run ended before an answer."""

    PENDING = "PENDING"
    RESOLVED = "RESOLVED"
    EXPIRED = "EXPIRED"
    WITHDRAWN = "WITHDRAWN"


class ApprovalDecision(StrEnum):
    """The answer: this call; this call and from now on what ``always_patterns`` say; or no."""

    ONCE = "ONCE"
    ALWAYS = "ALWAYS"
    REJECT = "REJECT"


BY_TIMEOUT = "timeout"
BY_CASCADE = "cascade"
BY_TOOL = "tool"
INPUT = "input"
"""The permission of questions that tools ask while they run. It has no patterns, and no rule answers them."""


@dataclass(frozen=True, slots=True)
class Approval:
    """A question and, later, its answer. Times are Unix nanoseconds, 0 when not reached or never.

    ``permission`` and ``patterns`` say what is asked for, in the words of a PermissionRule; ``always_patterns`` what an
    answer of ALWAYS allows from then on. ``call_digest`` binds an answer to this call (``digest_of_call``).
    ``resolved_by``: a principal, "timeout", "cascade" when another answer settled this one too, or "tool" when the tool
    that asked ended without the answer. ``input_schema_json``: what a tool asks for, None when it asks for consent.
    """

    approval_id: str
    kind: ApprovalKind
    call: ToolCall
    permission: str
    patterns: tuple[str, ...]
    always_patterns: tuple[str, ...]
    title: str
    run_id: str
    call_digest: str
    create_time_ns: int = 0
    expire_time_ns: int = 0
    state: ApprovalState = ApprovalState.PENDING
    decision: ApprovalDecision | None = None
    resolved_by: str = ""
    resolve_time_ns: int = 0
    input_schema_json: str | None = None


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """What a call asks for, where its tool says it finer than by its name. ``title``: for people, without arguments.

    ``always_patterns`` are what an answer of ALWAYS would allow; without any, it allows this call alone.
    ``always_ask``: the deployment wants a person to be asked each time, whatever rules allow.
    """

    permission: str
    patterns: tuple[str, ...]
    always_patterns: tuple[str, ...] = ()
    title: str = ""
    always_ask: bool = False


def digest_of_call(routed_name: str, arguments_json: str) -> str:
    """SHA-256 of routed name, a zero byte and arguments, in lower-case hex."""
    return hashlib.sha256(f"{routed_name}\0{arguments_json}".encode("utf-8", "surrogatepass")).hexdigest()
