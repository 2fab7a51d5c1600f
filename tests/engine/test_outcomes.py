"""Each way in which a run ends, through the engine: outcome, phase, reason, what is partial, and its trace."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from engine.harness import CALLER, world
from turnwired.domain.event import TextDelta
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.generation import FinishReason, TextChunk
from turnwired.domain.message import Text, ToolResultStatus
from turnwired.domain.outcome import Notice, OutcomeKind
from turnwired.domain.policy import (
    CompletionMode,
    CompletionPolicy,
    LoopPolicy,
    OutputPolicy,
    Policy,
    RetryPolicy,
    TimeoutPolicy,
    ToolErrorMode,
    ToolPolicy,
)
from turnwired.domain.trace import IterationTrace, ToolCallTrace
from turnwired.testing.provider import Step, answer, calls, fails, stopped, usage
from turnwired.tools.port import ToolInvocation

pytestmark = pytest.mark.anyio

LOOK = calls(("look", "{}"))
HALF = [TextChunk(0, "Half an ans")]
REQUIRED = Policy(completion=CompletionPolicy(mode=CompletionMode.REQUIRE_TEXT_AFTER_TOOLS))
ABORT = Policy(tool=ToolPolicy(error_mode=ToolErrorMode.ABORT))
ONCE = Policy(retry=RetryPolicy(max_attempts=1))


async def look(_: ToolInvocation) -> str:
    return "seen"


async def never() -> None:
    await asyncio.Event().wait()


@dataclass(frozen=True)
class Case:
    """A script, and how its run ends. ``path``: the limit that tripped."""

    script: Sequence[Sequence[Step]]
    kind: OutcomeKind
    phase: FailurePhase | None = None
    reason: Reason | None = None
    partial: bool = False
    recoverable: bool = False
    path: str | None = None
    policy: Policy = Policy()  # noqa: RUF009 - a value


MODEL, SYNTHESIS, ROUTING, SETTLEMENT = (
    FailurePhase.MODEL,
    FailurePhase.SYNTHESIS,
    FailurePhase.ROUTING,
    FailurePhase.SETTLEMENT,
)
CASES = {
    "answered": Case([answer("Yes.")], OutcomeKind.ANSWERED),
    "tools and then silence": Case(
        [LOOK, answer()], OutcomeKind.TOOL_ONLY, MODEL, Reason.ANSWER_MISSING, recoverable=True
    ),
    "silence when asked again": Case(
        [LOOK, answer(), answer()],
        OutcomeKind.TOOL_ONLY,
        SYNTHESIS,
        Reason.ANSWER_MISSING,
        recoverable=True,
        policy=REQUIRED,
    ),
    "the step bound": Case(
        [LOOK],
        OutcomeKind.MAX_STEPS,
        MODEL,
        Reason.LIMIT_REACHED,
        recoverable=True,
        path="loop.max_steps",
        policy=Policy(loop=LoopPolicy(max_steps=1)),
    ),
    "the bound on tool calls": Case(
        [LOOK],
        OutcomeKind.MAX_STEPS,
        FailurePhase.TOOL,
        Reason.LIMIT_REACHED,
        recoverable=True,
        path="loop.max_tool_calls",
        policy=Policy(loop=LoopPolicy(max_tool_calls=0)),
    ),
    "the policy's output limit": Case(
        [[HALF, [stopped(FinishReason.OUTPUT_LIMIT), usage()]]],
        OutcomeKind.OUTPUT_LIMIT,
        MODEL,
        Reason.LIMIT_REACHED,
        partial=True,
        recoverable=True,
        path="output.max_output_tokens",
        policy=Policy(output=OutputPolicy(max_output_tokens=20)),
    ),
    "the provider's output limit": Case(
        [[HALF, [stopped(FinishReason.OUTPUT_LIMIT), usage()]]],
        OutcomeKind.OUTPUT_LIMIT,
        MODEL,
        Reason.OUTPUT_LIMIT_REACHED,
        partial=True,
        recoverable=True,
    ),
    "a stream that breaks off": Case(
        [[HALF]],
        OutcomeKind.PROVIDER_EOF,
        MODEL,
        Reason.PROVIDER_STREAM_ENDED,
        partial=True,
        recoverable=True,
    ),
    "a refusal": Case(
        [[[stopped(FinishReason.REFUSAL)]]],
        OutcomeKind.REFUSED,
        MODEL,
        Reason.MODEL_REFUSED,
    ),
    "an error in the stream": Case(
        [[HALF, fails(Reason.PROVIDER_NETWORK, retryable=True)]],
        OutcomeKind.ERRORED,
        MODEL,
        Reason.PROVIDER_NETWORK,
        partial=True,
        recoverable=True,
    ),
    "the provider rejects": Case(
        [[fails(Reason.PROVIDER_REJECTED, text="It was rejected.")]],
        OutcomeKind.ERRORED,
        MODEL,
        Reason.PROVIDER_REJECTED,
        policy=ONCE,
    ),
    "an unknown tool that aborts": Case(
        [calls(("nobody", "{}"))], OutcomeKind.ERRORED, ROUTING, Reason.TOOL_NOT_FOUND, policy=ABORT
    ),
    "wrong arguments that abort": Case(
        [calls(("look", "nonsense"))], OutcomeKind.ERRORED, ROUTING, Reason.TOOL_ARGUMENTS_INVALID, policy=ABORT
    ),
    "a tool that hangs": Case(
        [calls(("hang", "{}"))],
        OutcomeKind.BUDGET_EXCEEDED,
        SETTLEMENT,
        Reason.DEADLINE_EXCEEDED,
        recoverable=True,
        path="timeout.run",
        policy=Policy(timeout=TimeoutPolicy(run=0.05)),
    ),
}


async def hang(_: ToolInvocation) -> str:
    await never()
    return ""


@pytest.mark.requirement("COMPLETE-16", "MATRIX-11")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_each_end_says_what_where_and_why(case: Case) -> None:
    async with world(case.script, {"look": look, "hang": hang}) as w:
        run_id, reader, task = await w.start(policy=case.policy)
        await task
        run = await w.engine.get_run(CALLER, run_id)
    outcome = reader.finished.outcome
    failure = outcome.failure
    assert run.outcome == outcome
    assert (outcome.kind, outcome.partial, outcome.recoverable) == (case.kind, case.partial, case.recoverable)
    assert (failure.phase if failure else None, failure.reason if failure else None) == (case.phase, case.reason)
    assert (outcome.limit_trip.policy_path if outcome.limit_trip else None) == case.path
    assert (reader.finished.trace is None) == (case.kind is OutcomeKind.ANSWERED)
    if failure is not None:
        assert failure.message.endswith((".", ")")), "a sentence that says what to do"
        assert failure.iteration == reader.finished.iteration_count
    if case.partial:
        assert reader.finished.message is not None


@pytest.mark.requirement("COMPLETE-16", "MATRIX-11")
async def test_a_cancelled_run_is_aborted_with_the_text_so_far() -> None:
    async with world([[HALF, never]]) as w:
        run_id, reader, task = await w.start()
        await reader.until(TextDelta)
        await w.engine.cancel_run(CALLER, run_id, Failure(MODEL, Reason.CANCELLED, "The caller cancelled the run."))
        await task
    outcome = reader.finished.outcome
    assert (outcome.kind, outcome.partial, outcome.recoverable) == (OutcomeKind.ABORTED, True, True)
    assert reader.finished.trace is not None
    assert reader.finished.message is not None


@pytest.mark.requirement("COMPLETE-16")
async def test_the_trace_of_a_failed_run_is_the_whole_sequence_in_order() -> None:
    script: list[list[Step]] = [
        [[TextChunk(0, "First.")], *calls(("look", '{"a":1}'), ("nobody", "{}"))],
        [HALF, fails(Reason.PROVIDER_NETWORK)],
    ]
    async with world(script, {"look": look}) as w:
        reader = await w.run()
    trace = reader.finished.trace
    assert trace is not None
    first, looked, unknown, second = [item.entry for item in trace.entries]
    assert isinstance(first, IterationTrace)
    assert isinstance(looked, ToolCallTrace)
    assert isinstance(unknown, ToolCallTrace)
    assert isinstance(second, IterationTrace)
    assert first.parts[0].content == Text("First.")
    assert (first.usage.input_tokens, first.usage.output_tokens) == (100, 20)
    assert looked.call.arguments_json == '{"a":1}'
    assert (looked.status, unknown.status) == (ToolResultStatus.OK, ToolResultStatus.ERROR)
    assert looked.execute_time_ns
    assert second.parts[0].content == Text("Half an ans")
    assert second.failure is not None
    assert all(item.start_time_ns and item.end_time_ns >= item.start_time_ns for item in trace.entries)
    assert [item.first_sequence for item in trace.entries] == sorted(item.first_sequence for item in trace.entries)


@pytest.mark.requirement("COMPLETE-14")
@pytest.mark.parametrize(("name", "arguments"), [("nobody", "{}"), ("look", "nonsense")])
async def test_a_call_that_never_reached_its_tool_is_a_result_of_phase_routing(name: str, arguments: str) -> None:
    async with world([calls((name, arguments)), answer("Well.")], {"look": look}) as w:
        reader = await w.run(include_trace=True)
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
    assert reader.finished.trace is not None
    (call,) = [item.entry for item in reader.finished.trace.entries if isinstance(item.entry, ToolCallTrace)]
    assert call.result is not None
    assert call.result.failure is not None
    assert call.result.failure.phase is ROUTING


@pytest.mark.requirement("COMPLETE-15")
@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ([[fails(Reason.CONTEXT_OVERFLOW)]], OutcomeKind.ERRORED),
        ([[HALF, [stopped(FinishReason.CONTEXT_LIMIT)]]], OutcomeKind.OUTPUT_LIMIT),
    ],
    ids=["before the answer", "in the answer"],
)
async def test_a_conversation_that_does_not_fit_ends_with_what_to_do(
    script: Sequence[Sequence[Step]], kind: OutcomeKind
) -> None:
    async with world(script) as w:
        reader = await w.run()
    assert reader.finished.outcome.kind is kind
    assert reader.finished.outcome.failure is not None
    assert reader.finished.outcome.failure.reason is Reason.CONTEXT_OVERFLOW
    last = reader.events[-2].event
    assert isinstance(last, Notice)
    assert last.reason is Reason.CONTEXT_OVERFLOW
    assert "new session" in last.message
