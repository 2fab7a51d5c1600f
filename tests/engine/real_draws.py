"""What the state machine over the real engine draws from: policies, words of models, ends of tools."""

from __future__ import annotations

import random

from hypothesis import strategies as st

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
    CompletionMode,
    CompletionPolicy,
    LoopPolicy,
    Policy,
    RetryPolicy,
    TimeoutPolicy,
    ToolErrorMode,
    ToolPolicy,
)
from turnwired.testing.provider import fails, stopped, usage

RUN_SECONDS = 50.0


def _policy(rng: random.Random) -> Policy:
    mode = rng.choice(list(CompletionMode))
    return Policy(
        loop=LoopPolicy(
            max_steps=rng.choice((1, 2, 4, 6, 6)),
            max_tool_calls=rng.choice((1, 5, 50, 50)),
            repeated_call_threshold=rng.choice((0, 2, 3)),
        ),
        retry=RetryPolicy(max_attempts=rng.choice((1, 3)), initial_delay=rng.choice((0.0, 2.0))),
        tool=ToolPolicy(
            error_mode=rng.choice((ToolErrorMode.RECOVER, ToolErrorMode.RECOVER, ToolErrorMode.ABORT)),
            max_parallel_calls=rng.choice((1, 2, 8)),
        ),
        timeout=TimeoutPolicy(run=rng.choice((RUN_SECONDS, 1800.0))),
        completion=CompletionPolicy(
            mode=mode,
            custom_prompt="Answer." if mode is CompletionMode.CUSTOM else None,
            answer_at_step_bound=rng.choice((True, False)),
            allow_tools=rng.choice((True, False)),
        ),
    )


_RANDOM = random.Random(4)
PLAIN = Policy(retry=RetryPolicy(max_attempts=2, initial_delay=0.0))
POLICIES = (PLAIN, PLAIN, Policy(), *(_policy(_RANDOM) for _ in range(29)))
"""A fixed lot of them: drawing each value would cost more than the run."""
POLICY = st.integers(0, len(POLICIES) - 1)

WORDS = st.sampled_from(("a", " ", "", "lorem ipsum ", "\u2028\U0001f600", "x" * 700, "{"))
NAMES = st.sampled_from(("quick", "slow", "slow", "agent__default", "agent__lead"))
ODD_NAMES = st.sampled_from(("quick", "slow", "agent__default", "unknown", ""))
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
