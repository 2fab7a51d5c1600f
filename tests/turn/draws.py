"""What the driver of the property tests draws from: items of a provider, faults, bounds. Simple things come first.

Hypothesis prefers what stands first, so the first choices are those that let a run go on.
"""

from __future__ import annotations

from hypothesis import strategies as st
from turn.callerbook import ALLOW, ASK, DENY, People
from turn.machinekit import CANCELLED, RUN_ID, failure
from turn.shadow import WELL_ENDED

from turnwired.domain.approval import ApprovalDecision
from turnwired.domain.attachment import Attachment, AttachmentState
from turnwired.domain.failure import Failure, Reason
from turnwired.domain.generation import (
    FinishReason,
    MediaProduced,
    ModelItem,
    NativeItem,
    ReasoningChunk,
    RefusalChunk,
    ResponseIdentified,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallClosed,
    ToolCallOpened,
    UsageReported,
)
from turnwired.domain.message import Blob, Message, Part, Role, ToolResultStatus
from turnwired.domain.model import CheckedOutput, OutputProblem
from turnwired.domain.outcome import LimitTrip
from turnwired.domain.policy import (
    CompletionMode,
    HistoryOverflowMode,
    MissingAttachmentMode,
    PermissionAction,
    ToolErrorMode,
    ToolExecutionMode,
    WaitExpiryMode,
)
from turnwired.domain.usage import Usage
from turnwired.turn.facts import CancelRequested, DeadlineReached, DriverFailed, Fact

INDEX = st.integers(0, 3)
TEXT = st.sampled_from(["", " ", "\n", "a", "word ", " é"])
NAME = st.sampled_from(["look", "write", "slow", "nonsense", ""])
FRAGMENT = st.sampled_from(["", " ", "{}", '{"a":', "1}", '{"b":2}', "["])
PROVIDER_ID = st.sampled_from(["", "p", "q"])
ITEMS: st.SearchStrategy[ModelItem] = st.one_of(
    st.builds(TextChunk, INDEX, TEXT),
    st.builds(ReasoningChunk, INDEX, TEXT, st.sampled_from([b"", b"", b"sig"]), st.sampled_from([False, False, True])),
    st.builds(RefusalChunk, INDEX, TEXT),
    st.builds(ToolCallOpened, INDEX, PROVIDER_ID, NAME),
    st.builds(ToolArgumentsChunk, INDEX, FRAGMENT),
    st.builds(ToolCallClosed, INDEX),
    st.builds(MediaProduced, INDEX, st.just("image/png"), st.just(b"png")),
    st.builds(NativeItem, INDEX, st.just("native"), st.just("{}")),
    st.builds(UsageReported, st.builds(Usage, st.integers(0, 9), st.integers(0, 9))),
    st.builds(ResponseIdentified, st.just("r"), st.just("m")),
)
WELL = sorted(WELL_ENDED)
FINISH = st.one_of(*[st.sampled_from(WELL)] * 4, st.sampled_from(sorted(FinishReason)))
TOOL = st.sampled_from(["look", "look", "write", "slow", "nonsense"])
STATUSES = st.sampled_from(
    [ToolResultStatus.OK, ToolResultStatus.OK, ToolResultStatus.ERROR, ToolResultStatus.OUTCOME_UNKNOWN]
)
FAULTS: st.SearchStrategy[Failure] = st.builds(
    lambda reason, retryable, retry_after: failure(reason, retryable=retryable, retry_after=retry_after),
    st.sampled_from(
        [
            Reason.PROVIDER_UNAVAILABLE,
            Reason.PROVIDER_RATE_LIMITED,
            Reason.CONTEXT_OVERFLOW,
            Reason.PROVIDER_AUTH_FAILED,
        ]
    ),
    st.sampled_from([True, True, True, False]),
    st.sampled_from([None, None, None, 3.0, 120.0, 121.0]),
)
REMAINING = st.sampled_from([None, None, 10**12, 10**9, -(10**9)])
"""Nanoseconds that the run has left when an attempt fails."""
PROBLEMS = st.sampled_from([None, None, None, Reason.TOOL_ARGUMENTS_INVALID, Reason.TOOL_DENIED])
REPAIRS = st.sampled_from([(), (), ("/a: text became an integer",)])
STOPS: st.SearchStrategy[Fact] = st.sampled_from(
    [
        CancelRequested(CANCELLED),
        DeadlineReached("timeout.run", 5.0),
        DriverFailed(failure(Reason.INTERNAL)),
    ]
)
BUDGET = LimitTrip("budget.max_total_tokens", "100", "117", estimated=True)
"""What a driver says of a budget that does not last."""
PATIENCE = st.sampled_from([60, 20, 8, 0])
"""Facts before somebody stops the run, or the provider fails for good or breaks off."""
FILES: st.SearchStrategy[tuple[str, ...]] = st.sampled_from([(), (), (), ("a",), ("a", "b")])
"""Names of the files that a run waits for."""
STRUCTURED = st.sampled_from([False, False, True])


def file(name: str, state: AttachmentState = AttachmentState.PENDING) -> Attachment:
    """A file of that name."""
    return Attachment(name, f"{name}.pdf", "application/pdf", state)


def brought(number: int) -> Message:
    """The message in which a file comes, the nth of its run."""
    part = Part(f"in_{number}", Blob("application/pdf", b"%PDF"))
    return Message(Role.USER, (part,), f"msg_in_{number}", RUN_ID)


def begins_with_a(text: str) -> CheckedOutput:
    """What is taken for structured output: text that begins with an a."""
    if text.startswith("a"):
        return CheckedOutput(text)
    return CheckedOutput(None, (OutputProblem("it does not begin with an a", "pattern"),))


CONFIGURATIONS = st.fixed_dictionaries(
    {
        "max_steps": st.sampled_from([3, 2, 4, 1]),
        "max_tool_calls": st.sampled_from([12, 9, 5, 3, 1]),
        "max_tool_calls_per_tool": st.sampled_from([{}, {"look": 2, "*": 1}, {"*": 3, "look": None}]),
        "repeated_call_threshold": st.sampled_from([0, 1, 3, 1]),
        "max_parallel_calls": st.sampled_from([2, 1, 3]),
        "max_attempts": st.sampled_from([3, 2, 1]),
        "error_mode": st.sampled_from([ToolErrorMode.RECOVER, ToolErrorMode.RECOVER, ToolErrorMode.ABORT]),
        "completion_mode": st.sampled_from(list(CompletionMode)),
        "completion_hook": st.sampled_from(["hook", None]),
        "answer_at_step_bound": st.booleans(),
        "history_overflow": st.sampled_from([HistoryOverflowMode.TRUNCATE, HistoryOverflowMode.FAIL]),
        "missing_attachments": st.sampled_from(MissingAttachmentMode),
        "completion_tools": st.sampled_from([False, False, True]),
        "wait_expiry": st.sampled_from([WaitExpiryMode.REJECT, WaitExpiryMode.REJECT, WaitExpiryMode.ABORT]),
        "execution_mode": st.sampled_from([ToolExecutionMode.EXECUTE] * 4 + [ToolExecutionMode.RETURN]),
    }
)
PEOPLE: st.SearchStrategy[People] = st.sampled_from(
    [
        People(),
        People(circles=ASK),
        People((("write", ASK),), ASK, frozenset({"slow"})),
        People((("look", ASK), ("write", PermissionAction.ALWAYS_ASK)), ASK),
        People((("look", ASK), ("slow", DENY)), ALLOW),
        People(client=frozenset({"look", "write"})),
    ]
)
"""Who may do what, and what the caller executes."""
ONCE, ALWAYS, REJECT = ApprovalDecision.ONCE, ApprovalDecision.ALWAYS, ApprovalDecision.REJECT
ANSWERS = st.sampled_from([[ONCE, ONCE], [ALWAYS, ONCE], [], [REJECT], [ONCE, REJECT], [ALWAYS], None])
"""Answers to the questions of one answer, in their order. Empty: nobody answers yet. None: nor does anybody else."""
