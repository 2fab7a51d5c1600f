"""Every interleaving of facts, orderly or not, against the invariants of DESIGN.md.

The driver of these tests is Hypothesis: it plays provider, registry, tools, callers and clock, and it lies: facts come
late, twice and for work that never was. ``Shadow`` checks each step; a fact that means nothing must change nothing.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from turn.machinekit import CANCELLED, RUN_ID, bounds_with, failure, ref, setup_with
from turn.shadow import WELL_ENDED, Shadow

from turnwired.domain.event import IterationFinished, RunFinished, ToolCallFinished
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.generation import (
    FinishReason,
    GenerationStopped,
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
from turnwired.domain.message import Message, Part, Role, Text, ToolCall, ToolResult, ToolResultStatus
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.policy import ToolErrorMode
from turnwired.domain.trace import IterationTrace, ToolCallTrace
from turnwired.domain.usage import Usage
from turnwired.turn.facts import (
    Begin,
    CancelRequested,
    DeadlineReached,
    DriverFailed,
    Fact,
    ModelEnded,
    ModelFailed,
    ModelProduced,
    PreparationFailed,
    RetryDue,
    ToolFinished,
    ToolProgress,
    ToolResolved,
)
from turnwired.turn.machine import TurnMachine
from turnwired.turn.recovery import closing_step
from turnwired.turn.trace import TraceFold, trace_of

INDEX = st.integers(0, 3)
TEXT = st.sampled_from(["", " ", "\n", "a", "word ", " é"])
NAME = st.sampled_from(["look", "write", "slow", "nonsense", ""])
FRAGMENT = st.sampled_from(["", " ", "{}", '{"a":', "1}", '{"b":2}', "["])
PROVIDER_ID = st.sampled_from(["", "p", "q"])
ITEMS: st.SearchStrategy[ModelItem] = st.one_of(
    st.builds(TextChunk, INDEX, TEXT),
    st.builds(ReasoningChunk, INDEX, TEXT, st.sampled_from([b"", b"", b"sig"])),
    st.builds(RefusalChunk, INDEX, TEXT),
    st.builds(ToolCallOpened, INDEX, PROVIDER_ID, NAME),
    st.builds(ToolArgumentsChunk, INDEX, FRAGMENT),
    st.builds(ToolCallClosed, INDEX),
    st.builds(NativeItem, INDEX, st.just("native"), st.just("{}")),
    st.builds(UsageReported, st.builds(Usage, st.integers(0, 9), st.integers(0, 9))),
    st.builds(ResponseIdentified, st.just("r"), st.just("m")),
)
FINISH = st.one_of(st.sampled_from(sorted(WELL_ENDED)), st.sampled_from(sorted(FinishReason)))
STATUSES = st.sampled_from(
    [ToolResultStatus.OK, ToolResultStatus.OK, ToolResultStatus.ERROR, ToolResultStatus.OUTCOME_UNKNOWN]
)
FAULTS: st.SearchStrategy[Failure] = st.builds(
    lambda reason, retryable, retry_after: failure(reason, retryable=retryable, retry_after=retry_after),
    st.sampled_from([Reason.PROVIDER_UNAVAILABLE, Reason.PROVIDER_RATE_LIMITED, Reason.CONTEXT_OVERFLOW]),
    st.sampled_from([True, True, False]),
    st.sampled_from([None, None, 3.0, 120.0, 121.0]),
)
PROBLEMS = st.sampled_from([None, None, None, Reason.TOOL_ARGUMENTS_INVALID, Reason.TOOL_DENIED])
STOPS: st.SearchStrategy[Fact] = st.sampled_from(
    [
        CancelRequested(CANCELLED),
        DeadlineReached("timeout.run", 5.0),
        DriverFailed(failure(Reason.INTERNAL)),
    ]
)


class TurnRules(RuleBasedStateMachine):
    """Plays everything that a turn machine talks to."""

    @initialize(
        steps=st.integers(1, 4),
        calls=st.integers(1, 5),
        parallel=st.integers(1, 3),
        attempts=st.integers(1, 3),
        mode=st.sampled_from([ToolErrorMode.RECOVER, ToolErrorMode.RECOVER, ToolErrorMode.ABORT]),
        trace=st.booleans(),
        patience=st.integers(0, 30),
    )
    def set_up(
        self, steps: int, calls: int, parallel: int, attempts: int, mode: ToolErrorMode, trace: bool, patience: int
    ) -> None:
        bounds = bounds_with(
            max_steps=steps, max_tool_calls=calls, max_parallel_calls=parallel, max_attempts=attempts, error_mode=mode
        )
        self.machine = TurnMachine(setup_with(bounds, include_trace=trace))
        self.shadow = Shadow(bounds, include_trace=trace)
        self.patience = patience
        self.begun = False
        self.stops: list[FinishReason] = []
        self.fold = TraceFold()
        self.ignored = 0

    def tell(self, fact: Fact, *, means_something: bool = True) -> None:
        known = len(self.shadow.log)
        alive = self.shadow.settled is None and means_something
        step = self.machine.feed(fact)
        if not alive:
            assert (step.events, step.effects) == ((), ()), "a fact that means nothing changed something"
            self.ignored += 1
        assert self.machine.ignored == self.ignored, "ignored facts are counted, others are not"
        self.shadow.take(fact if means_something else None, step)
        self.patience -= 1
        for logged in self.shadow.log[known:]:
            self.fold.add(logged)
        if self.shadow.finished is not None and len(self.shadow.log) > known:
            self.check_end(fact)

    # --- the provider -----------------------------------------------------------------------------------------------

    def model_speaks(self, *items: ModelItem) -> None:
        assert self.shadow.model is not None
        self.tell(ModelProduced(*self.shadow.model, items))

    @property
    def model_is_called(self) -> bool:
        return self.begun and self.shadow.model is not None and self.shadow.settled is None

    @precondition(lambda self: self.model_is_called)
    @rule(items=st.lists(ITEMS, max_size=6))
    def provider_sends_anything(self, items: list[ModelItem]) -> None:
        self.model_speaks(*items)

    @precondition(lambda self: self.model_is_called)
    @rule(text=TEXT, index=INDEX)
    def provider_sends_text(self, text: str, index: int) -> None:
        self.model_speaks(TextChunk(index, text))

    @precondition(lambda self: self.model_is_called)
    @rule(name=st.sampled_from(["look", "write", "slow"]), index=st.integers(4, 9), closed=st.booleans())
    def provider_sends_a_call(self, name: str, index: int, closed: bool) -> None:
        self.model_speaks(ToolCallOpened(index, "id", name), ToolArgumentsChunk(index, '{"a":'))
        self.model_speaks(ToolArgumentsChunk(index, "1}"), *([ToolCallClosed(index)] if closed else []))

    @precondition(lambda self: self.model_is_called)
    @rule(reason=FINISH, more=st.lists(FINISH, max_size=1), end=st.booleans())
    def provider_stops(self, reason: FinishReason, more: list[FinishReason], end: bool) -> None:
        self.stops += [reason, *more]
        self.model_speaks(*(GenerationStopped(word, word.value) for word in (reason, *more)))
        if end:
            self.model_ends()

    @precondition(lambda self: self.model_is_called)
    @rule()
    def provider_ends(self) -> None:
        self.model_ends()

    def model_ends(self) -> None:
        assert self.shadow.model is not None
        known = len(self.shadow.log)
        self.tell(ModelEnded(*self.shadow.model))
        words = [word for word in self.stops if word is not FinishReason.OTHER] or self.stops
        reason = words[0] if words else None
        fresh = [logged.event for logged in self.shadow.log[known:]]
        (finished,) = [event for event in fresh if isinstance(event, IterationFinished)]
        assert finished.finish_reason is (reason or FinishReason.EOF)
        if reason not in WELL_ENDED:
            statuses = [event.result.status for event in fresh if isinstance(event, ToolCallFinished)]
            assert set(statuses) <= {ToolResultStatus.NOT_EXECUTED}, "a call of a cut answer did not settle unexecuted"
        if reason is None:
            assert self.shadow.finished is not None
            assert self.shadow.finished.outcome.kind is OutcomeKind.PROVIDER_EOF
        self.stops = []

    @precondition(lambda self: self.model_is_called)
    @rule(fault=FAULTS, jitter=st.sampled_from([0.0, 0.5, 0.999]))
    def provider_fails(self, fault: Failure, jitter: float) -> None:
        assert self.shadow.model is not None
        attempt, output = self.shadow.now.attempt, self.shadow.now.output
        self.tell(ModelFailed(*self.shadow.model, fault, jitter))
        self.stops = []
        passing = fault.retryable and fault.reason is not Reason.CONTEXT_OVERFLOW and (fault.retry_after or 0) <= 120
        again = passing and not output and attempt < self.shadow.bounds.max_attempts
        assert (self.shadow.waiting is not None) == again, "tried again when it should not, or the other way round"
        if not again:
            assert self.shadow.finished is not None
            assert self.shadow.finished.outcome.kind is OutcomeKind.ERRORED

    @precondition(lambda self: self.begun and self.shadow.waiting is not None and self.shadow.settled is None)
    @rule()
    def the_wait_is_over(self) -> None:
        assert self.shadow.waiting is not None
        self.tell(RetryDue(*self.shadow.waiting))

    # --- tools ------------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.begun and self.shadow.resolving and self.shadow.settled is None)
    @rule(data=st.data(), problem=PROBLEMS)
    def the_registry_answers(self, data: st.DataObject, problem: Reason | None) -> None:
        self.resolve(data.draw(st.sampled_from(self.shadow.resolving)), problem)

    @precondition(lambda self: self.begun and self.shadow.resolving and self.shadow.settled is None)
    @rule()
    def the_registry_finds_all(self) -> None:
        for call_id in self.shadow.resolving:
            self.resolve(call_id, None)

    def resolve(self, call_id: str, problem: Reason | None) -> None:
        fault = None if problem is None else failure(problem, phase=FailurePhase.TOOL)
        call = self.shadow.calls[call_id]
        call.resolving, call.resolvable = False, problem is None
        self.tell(ToolResolved(call_id, ref("look"), fault))
        if problem is not None:
            denied = problem is Reason.TOOL_DENIED
            assert call.result is not None
            assert call.result.status is (ToolResultStatus.DENIED if denied else ToolResultStatus.ERROR)

    @precondition(lambda self: self.begun and self.shadow.executing and self.shadow.settled is None)
    @rule(data=st.data(), status=STATUSES)
    def a_tool_finishes(self, data: st.DataObject, status: ToolResultStatus) -> None:
        call_id = data.draw(st.sampled_from(self.shadow.executing))
        fault = None if status is ToolResultStatus.OK else failure(Reason.TOOL_FAILED, phase=FailurePhase.TOOL)
        self.tell(ToolFinished(call_id, ToolResult(call_id, status, (Part("part_1", Text("x")),), failure=fault), 3))
        result = self.shadow.calls[call_id].result
        assert result is not None
        assert result.status is status
        if status is not ToolResultStatus.OK and self.shadow.bounds.error_mode is ToolErrorMode.ABORT:
            assert self.shadow.finished is not None, "error_mode ABORT did not abort"

    @precondition(lambda self: self.begun and self.shadow.executing and self.shadow.settled is None)
    @rule(data=st.data())
    def a_tool_reports_progress(self, data: st.DataObject) -> None:
        known = len(self.shadow.log)
        self.tell(ToolProgress(data.draw(st.sampled_from(self.shadow.executing)), 0.5))
        assert len(self.shadow.log) == known + 1

    # --- callers, clocks, faults ------------------------------------------------------------------------------------

    @precondition(lambda self: not self.begun)
    @rule(bad=st.sampled_from([False, False, False, True]))
    def the_run_begins(self, bad: bool) -> None:
        self.begun = True
        self.tell(PreparationFailed(failure(Reason.PROVIDER_NOT_CONFIGURED)) if bad else Begin())

    @precondition(lambda self: self.patience <= 0)
    @rule(stop=STOPS)
    def somebody_stops_the_run(self, stop: Fact) -> None:
        self.begun = True
        self.tell(stop)
        assert self.shadow.settled is not None, "the run was stopped and goes on"

    @rule(data=st.data())
    def a_fact_comes_late_or_from_nowhere(self, data: st.DataObject) -> None:
        shadow = self.shadow
        live = {shadow.model, shadow.waiting}
        number = st.integers(0, 4)
        pair = data.draw(st.tuples(number, number).filter(lambda pair: pair not in live))
        call_id = data.draw(st.sampled_from(["call_of_nobody", *shadow.calls]))
        stray: list[Fact] = [
            ModelProduced(*pair, (TextChunk(0, "stray"),)),
            ModelEnded(*pair),
            ModelFailed(*pair, failure(retryable=True)),
            RetryDue(*pair),
        ]
        if self.begun:
            stray += [Begin(), PreparationFailed(failure())]
        if call_id not in shadow.executing:
            stray += [ToolFinished(call_id, ToolResult(call_id, ToolResultStatus.OK)), ToolProgress(call_id, 0.1)]
        if call_id not in shadow.resolving:
            stray.append(ToolResolved(call_id, ref("look")))
        self.tell(data.draw(st.sampled_from(stray)), means_something=False)

    # --- the end ----------------------------------------------------------------------------------------------------

    def check_end(self, last: Fact) -> None:
        """What must hold of a whole run: outcome, trace, recovery."""
        finished, settled = self.shadow.finished, self.shadow.settled
        assert finished is not None
        assert settled is not None
        outcome = finished.outcome
        match last:
            case CancelRequested():
                assert outcome.kind is OutcomeKind.ABORTED
            case DeadlineReached():
                assert outcome.kind is OutcomeKind.BUDGET_EXCEEDED
            case DriverFailed() | PreparationFailed():
                assert outcome.kind is OutcomeKind.ERRORED
            case _:
                assert outcome.kind not in {OutcomeKind.ABORTED, OutcomeKind.BUDGET_EXCEEDED}
        if outcome.kind is OutcomeKind.MAX_STEPS:
            assert outcome.limit_trip is not None
            steps = outcome.limit_trip.policy_path == "loop.max_steps"
            bounds = self.shadow.bounds
            if steps:
                assert len(self.shadow.iterations) == bounds.max_steps, "the step bound tripped early"
            else:
                assert len(self.shadow.calls) > bounds.max_tool_calls, "the bound on tool calls tripped early"
        self.check_trace()
        self.check_recovery(settled.messages)

    def check_trace(self) -> None:
        trace = trace_of(self.shadow.log)
        assert trace == self.fold.trace(), "folding as it goes and folding the log differ"
        entries = [entry.entry for entry in trace.entries]
        assert sum(isinstance(entry, IterationTrace) for entry in entries) == len(self.shadow.iterations)
        traced = [entry for entry in entries if isinstance(entry, ToolCallTrace)]
        assert {entry.call.call_id: entry.status for entry in traced} == {
            call_id: call.result.status for call_id, call in self.shadow.calls.items() if call.result
        }

    def check_recovery(self, messages: tuple[Message, ...]) -> None:
        """The history that recovery finds in the log is the one the machine kept."""
        log = self.shadow.log
        fault = failure(Reason.SERVER_RESTARTED)
        whole = closing_step(RUN_ID, "agent", None, log, fault)
        assert whole.events == ()
        assert [simple(message) for message in whole.messages] == [simple(message) for message in messages]

    def teardown(self) -> None:
        """Whatever was reached, a process may die here: recovery must close the log."""
        if not hasattr(self, "shadow") or self.shadow.settled is not None:
            return
        closing = closing_step(RUN_ID, "agent", None, self.shadow.log, failure(Reason.SERVER_RESTARTED))
        events = [logged.event for logged in self.shadow.log] + [emitted.event for emitted in closing.events]
        assert isinstance(events[-1], RunFinished)
        settled = [event.result.call_id for event in events if isinstance(event, ToolCallFinished)]
        assert sorted(settled) == sorted(self.shadow.calls)


def simple(message: Message) -> tuple[Role, str, list[Any]]:
    """A message without what the log does not hold: ids of result parts, and the tool that the registry named."""
    contents: list[Any] = []
    for part in message.parts:
        content = part.content
        contents.append((content.call_id, content.arguments_json) if isinstance(content, ToolCall) else content)
    return message.role, message.message_id, contents


def check(examples: int, *, derandomize: bool = False, shrink: bool = True) -> None:
    """Run the state machine. Without shrinking a fault is found, not made small (see scripts/mutants.py)."""
    phases = [Phase.explicit, Phase.reuse, Phase.generate, *([Phase.shrink] if shrink else [])]
    run_state_machine_as_test(
        TurnRules,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            derandomize=derandomize,
            database=None,
            phases=phases,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.requirement("TURN-27", "TURN-3", "TURN-6", "TURN-21", "RECOVERY-1", "RECOVERY-3")
def test_the_invariants_hold_after_every_fact_of_every_interleaving() -> None:
    check(int(os.environ.get("TURNWIRE_EXAMPLES", "100")))
