"""What the state machine over the real engine draws from: policies, words of models, ends of tools."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from turnwired.domain.attachment import Attachment, AttachmentState
from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Reason
from turnwired.domain.generation import (
    FinishReason,
    ModelItem,
    ReasoningChunk,
    RefusalChunk,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallClosed,
    ToolCallOpened,
)
from turnwired.domain.policy import (
    ApprovalPolicy,
    BudgetPolicy,
    CompletionMode,
    CompletionPolicy,
    ContextPolicy,
    LimitMode,
    LoopPolicy,
    MissingAttachmentMode,
    PermissionAction,
    PermissionRule,
    Policy,
    RetryPolicy,
    TimeoutPolicy,
    ToolErrorMode,
    ToolExecutionMode,
    ToolPolicy,
    WaitExpiryMode,
)
from turnwired.domain.tool import ClientTool, ToolSelection
from turnwired.testing.provider import fails, stopped, usage

RUN_SECONDS = 50.0
OWN = ToolSelection(client_tools=(ClientTool("own", "The caller does it.", '{"type":"object"}'),))
FILE = Attachment("file", "report.pdf", "application/pdf", AttachmentState.PENDING)
RULED = ("quick", "slow", "own", "agent__*", "*", "*")
ACTIONS = (PermissionAction.ASK, PermissionAction.ASK, PermissionAction.ALWAYS_ASK, *PermissionAction)


def _approval(rng: random.Random) -> ApprovalPolicy:
    rules = [PermissionRule("tool", rng.choice(RULED), rng.choice(ACTIONS)) for _ in range(rng.choice((0, 1, 2)))]
    if rng.random() < 0.3:
        rules.append(PermissionRule("doom_loop", "*", PermissionAction.DENY))
    return ApprovalPolicy(
        rules=tuple(rules),
        auto_approve=rng.random() < 0.1,
        wait_expiry=rng.choice((WaitExpiryMode.REJECT, WaitExpiryMode.REJECT, WaitExpiryMode.ABORT)),
    )


def _policy(rng: random.Random) -> Policy:
    mode = rng.choice(list(CompletionMode))
    return Policy(
        loop=LoopPolicy(
            max_steps=rng.choice((1, 2, 4, 6, 6)),
            max_tool_calls=rng.choice((1, 5, 50, 50)),
            repeated_call_threshold=rng.choice((0, 1, 2, 3)),
        ),
        retry=RetryPolicy(max_attempts=rng.choice((1, 3)), initial_delay=rng.choice((0.0, 2.0))),
        tool=ToolPolicy(
            error_mode=rng.choice((ToolErrorMode.RECOVER, ToolErrorMode.RECOVER, ToolErrorMode.ABORT)),
            max_parallel_calls=rng.choice((1, 2, 8)),
            execution_mode=rng.choice((*[ToolExecutionMode.EXECUTE] * 7, ToolExecutionMode.RETURN)),
        ),
        approval=_approval(rng),
        budget=BudgetPolicy(
            max_total_tokens=rng.choice((*[None] * 5, 150, 400, 3000)),
            max_session_tokens=rng.choice((*[None] * 6, 600)),
            max_tenant_day_tokens=rng.choice((*[None] * 6, 5000)),
        ),
        context=ContextPolicy(
            attachment_wait=rng.choice((0.2, 2.0, LimitMode.UNBOUNDED)),
            missing_attachments=rng.choice((MissingAttachmentMode.TELL, None, MissingAttachmentMode.FAIL)),
        ),
        timeout=TimeoutPolicy(run=rng.choice((RUN_SECONDS, 1800.0)), wait=rng.choice((0.2, 2.0, 40.0, 86400.0))),
        completion=CompletionPolicy(
            mode=mode,
            custom_prompt="Answer." if mode is CompletionMode.CUSTOM else None,
            answer_at_step_bound=rng.choice((True, False)),
            allow_tools=rng.choice((True, False)),
        ),
    )


_RANDOM = random.Random(4)
PLAIN = Policy(loop=LoopPolicy(repeated_call_threshold=2), retry=RetryPolicy(max_attempts=2, initial_delay=0.0))
ASKING = Policy(
    approval=ApprovalPolicy(rules=(PermissionRule("tool", "*", PermissionAction.ASK),)),
    timeout=TimeoutPolicy(wait=40.0),
)
POLICIES = (PLAIN, ASKING, PLAIN, ASKING, *(_policy(_RANDOM) for _ in range(60)))
"""A fixed lot of them: drawing each value would cost more than the run."""
POLICY = st.integers(0, len(POLICIES) - 1)

WORDS = st.sampled_from(("a", " ", "", "lorem ipsum ", "\u2028\U0001f600", "x" * 700, "{"))
NAMES = st.sampled_from(("quick", "slow", "slow", "own", "asks", "agent__default", "agent__lead"))
ODD_NAMES = st.sampled_from(("quick", "slow", "own", "asks", "agent__default", "unknown", ""))
FIRST = st.sampled_from(((), (), (), ("slow", "quick"), ("own",), ("own", "asks", "own"), ("quick", "asks", "slow")))
"""What the model calls at once when a turn begins."""
CALLED = ((stopped(FinishReason.TOOL_CALLS, "?"), usage()), None)
"""The end of an answer that calls tools."""
GOOD = '{"input":"%s"}'
ARGUMENTS = st.sampled_from((GOOD, "", '{"a": ', "[]", '{"a": "\\ud800"}'))
FINISH = st.sampled_from((*[FinishReason.STOP] * 16, *list(FinishReason)))
INDEX = st.integers(0, 2)
TEXT = st.builds(TextChunk, st.just(0), WORDS)
ITEMS = st.one_of(
    TEXT,
    TEXT,
    st.builds(ReasoningChunk, INDEX, WORDS, st.sampled_from((b"", b"sig\x00\xff"))),
    st.builds(RefusalChunk, INDEX, WORDS),
    st.builds(ToolCallOpened, INDEX, st.sampled_from(("", "same")), NAMES),
    st.builds(ToolArgumentsChunk, INDEX, st.sampled_from(("{}", '{"a":', "1}"))),
    st.builds(ToolCallClosed, INDEX),
    st.builds(stopped, FINISH, st.just("?")),
    st.just(usage(7, 1)),
)
Why = tuple[Reason, bool, float | None]
"""Why a call fails: the reason, whether trying again may help, and when."""
FAILURES = st.sampled_from(
    (
        *((Reason.PROVIDER_NETWORK, True, None), (Reason.PROVIDER_TIMEOUT, True, 3.0)),
        *((Reason.PROVIDER_REJECTED, False, None), (Reason.PROVIDER_AUTH_FAILED, False, None)),
    )
)
ROUNDS = st.sampled_from((None, None, None, None, 0, 1, 2, 3, 5))
"""How long the service goes on before the next thing happens: until it is idle, or so many rounds of its loop."""
PICK = st.integers(0, 7)
"""Which one of those that there are."""


def failure(what: Why) -> ProviderError:
    """A failing call."""
    reason, retryable, after = what
    return fails(reason, retryable=retryable, retry_after=after)


def wanted(names: list[str], arguments: list[str], tag: str) -> list[ModelItem]:
    """Calls of tools in one batch; arguments with a place for it hold the tag, so that calls differ."""
    items: list[ModelItem] = []
    for index, name in enumerate(names):
        text = arguments[index % len(arguments)] if arguments else GOOD
        words = text % f"{tag}.{index}" if text == GOOD else text
        items += [ToolCallOpened(10 + index, "", name), ToolArgumentsChunk(10 + index, words)]
        items.append(ToolCallClosed(10 + index))
    return items
