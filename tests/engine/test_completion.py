"""Completion through the engine: what the provider is asked, what hooks see, what is refused, what a session keeps."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from engine.harness import CALLER, World, world
from turnwired.domain.completion import MAX_INSTRUCTION, CompletionHook, CompletionRequest
from turnwired.domain.errors import InvalidRequest
from turnwired.domain.event import Event, IterationStarted
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.model import IterationKind, OutputFormat
from turnwired.domain.outcome import Notice, OutcomeKind
from turnwired.domain.policy import CompletionMode, CompletionPolicy, LoopPolicy, Policy
from turnwired.domain.tool import ToolChoice, ToolChoiceMode
from turnwired.domain.trace import IterationTrace
from turnwired.engine import completion as engine_completion
from turnwired.testing.provider import Step, answer, calls, fails
from turnwired.tools.port import ToolInvocation

pytestmark = pytest.mark.anyio

LOOK = calls(("look", "{}"))
REQUIRED = Policy(completion=CompletionPolicy(mode=CompletionMode.REQUIRE_TEXT_AFTER_TOOLS, reserved_output_tokens=500))


async def look(_: ToolInvocation) -> str:
    return "F6: on its way"


def custom(**changes: object) -> Policy:
    return Policy(completion=replace(CompletionPolicy(mode=CompletionMode.CUSTOM), **changes))  # type: ignore[arg-type]


@asynccontextmanager
async def hooked(script: Sequence[Sequence[Step]], hooks: Mapping[str, CompletionHook]) -> AsyncIterator[World]:
    """A world whose deployment has completion hooks."""
    async with world(script, {"look": look}, hooks=hooks) as w:
        yield w


def notices(events: Sequence[Event]) -> list[Reason]:
    return [event.reason for event in events if isinstance(event, Notice)]


@pytest.mark.requirement("COMPLETE-1", "COMPLETE-4", "COMPLETE-11", "SCN-011")
async def test_a_silent_end_after_tools_becomes_an_answer_that_is_stored_once_and_marked() -> None:
    script = [LOOK, answer(), answer("Order F6 is on its way."), answer("Later.")]
    async with world(script, {"look": look}) as w:
        reader = await w.run(session_id="s", policy=REQUIRED, include_trace=True)
        await w.run(session_id="s")
    _, second, third, later = w.provider.requests
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
    assert (third.max_output_tokens, third.tool_choice) == (500, ToolChoice(ToolChoiceMode.NONE))
    assert third.tools == second.tools, "the prefix of the request stays for the provider's cache"
    assert list(third.messages)[: len(second.messages)] == list(second.messages)
    roles = [message["role"] for message in w.provider.messages(2)]
    assert roles == ["system", "USER", "ASSISTANT", "TOOL", "USER"], "no empty turn is sent"
    assert sum(b"Order F6 is on its way." in piece for piece in later.messages) == 1
    assert list(later.messages)[: len(third.messages)] == list(third.messages)
    assert reader.finished.trace is not None
    traced = [item.entry.kind for item in reader.finished.trace.entries if isinstance(item.entry, IterationTrace)]
    assert traced == [IterationKind.STEP, IterationKind.STEP, IterationKind.SYNTHESIS]
    assert notices(reader.of(Notice)) == [Reason.ANSWER_MISSING]


@pytest.mark.requirement("COMPLETE-5", "SCN-016")
async def test_a_run_at_its_bound_answers_and_is_max_steps_all_the_same() -> None:
    policy = replace(REQUIRED, loop=LoopPolicy(max_steps=1))
    async with world([LOOK, answer("Still being packed.")], {"look": look}) as w:
        reader = await w.run(policy=policy)
    assert reader.finished.outcome.kind is OutcomeKind.MAX_STEPS
    assert reader.finished.outcome.limit_trip is not None
    assert reader.finished.message is not None
    assert reader.finished.iteration_count == 2
    assert reader.finished.trace is not None


@pytest.mark.requirement("COMPLETE-3")
async def test_a_pass_that_the_provider_refuses_leaves_the_results_and_says_what_failed() -> None:
    async with world([LOOK, answer(), [fails(Reason.PROVIDER_REJECTED)]], {"look": look}) as w:
        reader = await w.run(policy=REQUIRED)
    failure = reader.finished.outcome.failure
    assert reader.finished.outcome.kind is OutcomeKind.TOOL_ONLY
    assert failure is not None
    assert (failure.phase, failure.reason) == (FailurePhase.SYNTHESIS, Reason.PROVIDER_REJECTED)


@pytest.mark.requirement("COMPLETE-13")
async def test_a_structured_run_at_its_bound_gives_a_value_that_matches() -> None:
    schema = OutputFormat('{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}', "number")
    policy = replace(REQUIRED, loop=LoopPolicy(max_steps=1))
    for text, value in (('{"n": 3}', '{"n": 3}'), ('{"n": "x"}', None)):
        async with world([LOOK, answer(text)], {"look": look}) as w:
            reader = await w.run(policy=policy, output_format=schema)
        assert w.provider.requests[1].output_format == schema
        assert reader.finished.outcome.kind is OutcomeKind.MAX_STEPS
        assert reader.finished.structured_output_json == value
        assert reader.finished.message is not None


@pytest.mark.requirement("COMPLETE-13")
async def test_a_missing_structured_value_is_corrected_as_any_other_and_not_completed_twice() -> None:
    schema = OutputFormat('{"type":"object"}', "any")
    async with world([LOOK, answer(), answer("{}")], {"look": look}) as w:
        reader = await w.run(policy=REQUIRED, output_format=schema)
    kinds = [event.kind for event in reader.of(IterationStarted) if isinstance(event, IterationStarted)]
    assert kinds == [IterationKind.STEP, IterationKind.STEP, IterationKind.STRUCTURED_OUTPUT]
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED


# --- hooks ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("COMPLETE-7", "COMPLETE-10")
async def test_a_hook_is_asked_in_a_thread_about_the_run_and_its_words_are_what_the_model_is_told() -> None:
    asked: list[tuple[CompletionRequest, bool]] = []

    def careful(request: CompletionRequest) -> str | None:
        asked.append((request, threading.current_thread() is threading.main_thread()))
        return "Name the order."

    async with hooked([LOOK, answer(), answer("F6.")], {"careful": careful}) as w:
        run_id, reader, task = await w.start(policy=custom(custom_hook="careful"), session_id="s")
        await task
        last = w.provider.messages(2)[-1]
    ((request, in_main_thread),) = asked
    assert not in_main_thread
    assert (request.run_id, request.session_id, request.outcome) == (run_id, "s", OutcomeKind.TOOL_ONLY)
    assert last == {"role": "USER", "parts": ["Name the order."]}
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("COMPLETE-7")
async def test_a_hook_can_leave_the_run_as_it_is() -> None:
    async with hooked([LOOK, answer()], {"careful": lambda _: None}) as w:
        reader = await w.run(policy=custom(custom_hook="careful"))
    assert reader.finished.outcome.kind is OutcomeKind.TOOL_ONLY


def raises(request: CompletionRequest) -> str | None:
    raise ValueError("secret words")


def nonsense(request: CompletionRequest) -> str | None:
    return 7  # type: ignore[return-value]


@pytest.mark.requirement("COMPLETE-9")
@pytest.mark.parametrize(
    "hook",
    [raises, nonsense, lambda _: " ", lambda _: "x" * (MAX_INSTRUCTION + 1)],
    ids=["raises", "nonsense", "blank", "too long"],
)
async def test_a_hook_that_goes_wrong_is_a_notice_without_its_words_and_the_run_is_answered(
    hook: CompletionHook,
) -> None:
    async with hooked([LOOK, answer(), answer("F6.")], {"careful": hook}) as w:
        reader = await w.run(policy=custom(custom_hook="careful"))
    assert notices(reader.of(Notice)) == [Reason.HOOK_FAILED, Reason.ANSWER_MISSING]
    assert "secret" not in str(reader.of(Notice)[0])
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("COMPLETE-9", "COMPLETE-10")
@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_hook_that_hangs_is_given_up_and_holds_up_nothing(
    cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_completion, "HOOK_SECONDS", 60.0 if cancelled else 0.05)
    release, entered = threading.Event(), threading.Event()

    def hangs(request: CompletionRequest) -> str | None:
        entered.set()
        release.wait(10)
        return None

    try:
        async with hooked([LOOK, answer(), answer("F6.")], {"careful": hangs}) as w:
            run_id, reader, task = await w.start(policy=custom(custom_hook="careful"))
            if cancelled:
                await reader.until(IterationStarted, 2)
                await w.engine.cancel_run(CALLER, run_id, Failure(FailurePhase.MODEL, Reason.CANCELLED, "test"))
            await task
    finally:
        release.set()
    expected = OutcomeKind.ABORTED if cancelled else OutcomeKind.ANSWERED
    assert reader.finished.outcome.kind is expected


@pytest.mark.requirement("COMPLETE-8")
@pytest.mark.parametrize(
    ("policy", "field"),
    [
        (custom(custom_hook="nobody"), "custom_hook"),
        (custom(), "mode"),
        (custom(custom_hook="careful", custom_prompt="x"), "custom_prompt"),
        (Policy(completion=CompletionPolicy(custom_prompt="x")), "custom_prompt"),
        (Policy(completion=CompletionPolicy(custom_hook="careful")), "custom_hook"),
    ],
)
async def test_a_custom_completion_that_cannot_be_is_refused_before_a_run_exists(policy: Policy, field: str) -> None:
    async with hooked([], {"careful": lambda _: None}) as w:
        with pytest.raises(InvalidRequest) as caught:
            await w.start(policy=policy)
        with pytest.raises(InvalidRequest):
            w.engine.resolve_policy(CALLER, "default", None, policy)
    assert [violation.field for violation in caught.value.violations] == [f"turn.policy.completion.{field}"]


@pytest.mark.requirement("COMPLETE-8")
async def test_a_run_can_turn_off_what_its_deployment_asks_for() -> None:
    async with world([LOOK, answer()], {"look": look}, policy=custom(custom_prompt="In Latin.")) as w:
        reader = await w.run(policy=Policy(completion=CompletionPolicy(mode=CompletionMode.NONE)))
    assert reader.finished.outcome.kind is OutcomeKind.TOOL_ONLY
