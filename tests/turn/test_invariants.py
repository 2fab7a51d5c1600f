"""Every interleaving of facts, orderly or not, against the invariants of the design.

The driver of these tests is Hypothesis: it plays provider, registry, tools, callers and clock, and it lies: facts come
late, twice and for work that never was. ``Shadow`` checks each step; a fact that means nothing must change nothing.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test
from turn.callerbook import People
from turn.callers import CallerRules
from turn.draws import (
    ANSWERS,
    BUDGET,
    CONFIGURATIONS,
    FAULTS,
    FILES,
    FINISH,
    INDEX,
    ITEMS,
    PATIENCE,
    PEOPLE,
    PROBLEMS,
    REMAINING,
    REPAIRS,
    STATUSES,
    STOPS,
    STRUCTURED,
    TEXT,
    TOOL,
    begins_with_a,
    file,
)
from turn.expectations import (
    AfterFailure,
    alike,
    check_crash,
    check_recovery,
    check_trace,
    expected_after_failure,
    expected_kinds,
)
from turn.machinekit import bounds_with, failure, ref, setup_with
from turn.shadow import UNFINISHED, WELL_ENDED, WHOLE, Shadow

from turnwired.domain.approval import ApprovalDecision
from turnwired.domain.event import HistoryTruncated, IterationFinished, ToolCallFinished, ToolsChangeCause, ToolsChanged
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.generation import (
    FinishReason,
    GenerationStopped,
    MediaProduced,
    ModelItem,
    RefusalChunk,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallClosed,
    ToolCallOpened,
    UsageReported,
)
from turnwired.domain.message import Part, Text, ToolResult, ToolResultStatus
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.policy import HistoryOverflowMode, ToolErrorMode, WaitExpiryMode
from turnwired.domain.usage import Usage, UsageSource
from turnwired.turn.facts import (
    ApprovalAnswered,
    AttachmentsOverdue,
    Begin,
    BudgetReached,
    CallerResult,
    CancelRequested,
    CompletionDecided,
    DeadlineReached,
    DriverFailed,
    Fact,
    HistoryCut,
    ModelCalled,
    ModelEnded,
    ModelFailed,
    ModelProduced,
    PreparationFailed,
    RetryDue,
    ToolFinished,
    ToolProgress,
    ToolResolved,
    ToolResultLate,
    ToolsRevised,
    WaitExpired,
)
from turnwired.turn.machine import TurnMachine
from turnwired.turn.trace import TraceFold

Names = tuple[str, ...]


class TurnRules(CallerRules):
    """Plays everything that a turn machine talks to, one run after another."""

    @initialize(
        bounds=CONFIGURATIONS,
        trace=st.booleans(),
        patience=PATIENCE,
        structured=STRUCTURED,
        files=FILES,
        people=PEOPLE,
    )
    def first_run(self, bounds: dict[str, Any], **drawn: Any) -> None:
        self.new_run(bounds, **drawn)

    @precondition(lambda self: self.shadow.settled is not None)
    @rule(
        bounds=CONFIGURATIONS,
        trace=st.booleans(),
        patience=PATIENCE,
        structured=STRUCTURED,
        files=FILES,
        people=PEOPLE,
    )
    def another_run(self, bounds: dict[str, Any], **drawn: Any) -> None:
        self.new_run(bounds, **drawn)
        self.begun = True
        self.tell(Begin())

    def new_run(
        self, changes: dict[str, Any], *, trace: bool, patience: int, structured: bool, files: Names, people: People
    ) -> None:
        bounds = bounds_with(**changes)
        check = begins_with_a if structured else None
        given = {"attachments": tuple(map(file, files)), "permissions": people.permissions}
        self.setup = setup_with(bounds, include_trace=trace, check_output=check, **given)
        self.machine = TurnMachine(self.setup)
        self.shadow = Shadow(bounds, include_trace=trace, structured=structured, files=files, people=people)
        self.people = people
        self.given = self.restarts = self.brought = 0
        self.twin: TurnMachine | None = None
        self.patience = patience
        self.begun = False
        self.unreported = False
        self.said_text = self.refused = self.called = self.reported = self.capped = False
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
        if self.twin is not None and not isinstance(fact, ToolResultLate):
            assert alike(self.twin.feed(fact)) == alike(step), "a machine that was resumed does something else"
        self.shadow.take(fact if means_something else None, step)
        self.patience -= 1
        for logged in self.shadow.log[known:]:
            self.fold.add(logged)
        if self.shadow.finished is not None and len(self.shadow.log) > known:
            self.check_end(fact)

    # --- the provider -----------------------------------------------------------------------------------------------

    def model_speaks(self, *items: ModelItem) -> None:
        assert self.shadow.model is not None
        for item in items:
            said = isinstance(item, TextChunk) and bool(item.text.strip())
            self.said_text = self.said_text or said or isinstance(item, MediaProduced)
            self.reported = self.reported or isinstance(item, UsageReported)
            self.refused = self.refused or (isinstance(item, RefusalChunk) and bool(item.text.strip()))
        self.tell(ModelProduced(*self.shadow.model, items))

    @property
    def model_is_called(self) -> bool:
        return self.begun and self.shadow.model is not None and self.shadow.settled is None

    @precondition(lambda self: self.model_is_called)
    @rule(capped=st.sampled_from([False, False, True]))
    def the_request_is_made(self, capped: bool) -> None:
        assert self.shadow.model is not None
        self.called, self.capped = True, capped
        self.tell(ModelCalled(*self.shadow.model, 7, BUDGET if capped else None))

    @precondition(lambda self: self.model_is_called and self.patience <= 10)
    @rule()
    def no_budget_covers_more(self) -> None:
        assert self.shadow.model is not None
        known, quiet = len(self.shadow.log), not (self.called or self.reported or self.shadow.now.output)
        self.tell(BudgetReached(*self.shadow.model, BUDGET, 5))
        assert self.shadow.finished is not None, "a run goes on that no budget covers"
        fresh = [logged.event for logged in self.shadow.log[known:]]
        (closed,) = [event for event in fresh if isinstance(event, IterationFinished)]
        assert closed.finish_reason is (FinishReason.ABORTED if self.called else FinishReason.ERROR)
        assert closed.duration_ns == 5
        assert (closed.usage == Usage()) or not quiet, "a call that was not made is charged"
        results = {event.result.status for event in fresh if isinstance(event, ToolCallFinished)}
        assert results <= {ToolResultStatus.NOT_EXECUTED}, "a call of a cut answer did not settle unexecuted"

    def over_budget(self, last: Fact) -> bool:
        """Whether the end is that of a budget: reached while streaming, or as the output limit that it had set."""
        words = [word for word in self.stops if word is not FinishReason.OTHER] or self.stops
        limited = words[:1] == [FinishReason.OUTPUT_LIMIT] and isinstance(last, ModelEnded)
        return isinstance(last, BudgetReached) or (self.capped and limited)

    @precondition(lambda self: self.model_is_called)
    @rule()
    def history_is_cut(self) -> None:
        assert self.shadow.model is not None
        cuts = self.shadow.cuts
        self.tell(HistoryCut(*self.shadow.model, HistoryTruncated(2, 1, 20, 10)))
        assert self.shadow.cuts == cuts + 1, "a cut is not told"

    @precondition(lambda self: self.model_is_called)
    @rule()
    def tools_change(self) -> None:
        assert self.shadow.model is not None
        changes, change = self.shadow.changes, ToolsChanged(ToolsChangeCause.SOURCES, added=("later",))
        self.tell(ToolsRevised(*self.shadow.model, self.machine.setup.tools, (change,)))
        assert self.shadow.changes == changes + 1, "a change is not told"

    @property
    def may_be_tried_again(self) -> bool:
        return not self.shadow.now.output and self.shadow.now.attempt < self.shadow.bounds.max_attempts

    @precondition(lambda self: self.model_is_called)
    @rule(items=st.lists(ITEMS, max_size=6))
    def provider_sends_anything(self, items: list[ModelItem]) -> None:
        self.model_speaks(*items)

    @precondition(lambda self: self.model_is_called)
    @rule(text=TEXT, index=INDEX)
    def provider_sends_text(self, text: str, index: int) -> None:
        self.model_speaks(TextChunk(index, text))

    @precondition(lambda self: self.model_is_called)
    @rule(usage=st.builds(Usage, st.integers(0, 9), st.integers(0, 9)), text=TEXT)
    def provider_reports_usage(self, usage: Usage, text: str) -> None:
        self.model_speaks(UsageReported(usage), *([TextChunk(0, text)] if text.isspace() else []))

    @precondition(lambda self: self.model_is_called)
    @rule(
        name=TOOL,
        index=st.integers(4, 9),
        arguments=st.sampled_from(['{"a":1}', "", "nul"]),
        closings=st.sampled_from([0, 1, 2]),
        late=st.sampled_from([[], [], ["x", "y"]]),
    )
    def provider_sends_a_call(self, name: str, index: int, arguments: str, closings: int, late: list[str]) -> None:
        half = len(arguments) // 2
        self.model_speaks(ToolCallOpened(index, "id", name), ToolArgumentsChunk(index, arguments[:half]))
        self.model_speaks(ToolArgumentsChunk(index, arguments[half:]), *[ToolCallClosed(index)] * closings)
        self.model_speaks(*(ToolArgumentsChunk(index, fragment) for fragment in late))

    @precondition(lambda self: self.model_is_called)
    @rule(names=st.lists(TOOL, min_size=1, max_size=4), word=FINISH, text=TEXT, people=ANSWERS)
    def provider_answers_with_calls(
        self, names: list[str], word: FinishReason, text: str, people: list[ApprovalDecision] | None
    ) -> None:
        self.call_tools(names, word, text)
        if people is not None:
            self.all_calls_settle(people)

    @precondition(lambda self: self.model_is_called and not self.shadow.now.output)
    @rule(names=st.lists(TOOL, min_size=1, max_size=2), rounds=st.integers(2, 4), people=ANSWERS)
    def provider_goes_round_in_circles(
        self, names: list[str], rounds: int, people: list[ApprovalDecision] | None
    ) -> None:
        for _ in range(rounds):
            if self.model_is_called:
                self.call_tools(names, FinishReason.TOOL_CALLS, "")
                self.all_calls_settle(people or [])

    def call_tools(self, names: list[str], word: FinishReason, text: str) -> None:
        for index, name in enumerate(names, 10):
            self.model_speaks(ToolCallOpened(index, "", name), ToolArgumentsChunk(index, "{}"), ToolCallClosed(index))
        self.model_speaks(TextChunk(0, text))
        self.provider_stops(word, [], True)

    def all_calls_settle(self, people: list[ApprovalDecision]) -> None:
        """Everything comes as it should; ``people``: the answers to the first questions, if any."""
        self.the_registry_finds_all()
        self.all_tools_finish(last_first=False)
        for decision in people:
            if self.shadow.caller.pending and self.shadow.settled is None:
                self.answer(next(iter(self.shadow.caller.pending)), decision, "")
                self.all_tools_finish(last_first=False)
        for call_id in self.shadow.with_caller if people else []:
            if self.shadow.settled is None:
                self.finish_tool(call_id, ToolResultStatus.OK)

    @precondition(lambda self: self.model_is_called and (self.shadow.now.output or self.patience <= 0))
    @rule(word=FINISH, more=st.lists(FINISH, max_size=1), end=st.booleans())
    def the_answer_stops(self, word: FinishReason, more: list[FinishReason], end: bool) -> None:
        self.provider_stops(word, more, end)

    def provider_stops(self, word: FinishReason, more: list[FinishReason], end: bool) -> None:
        self.stops += [word, *more]
        self.model_speaks(*(GenerationStopped(each, each.value) for each in (word, *more)))
        if end:
            self.model_ends()

    @precondition(lambda self: self.model_is_called and (self.stops or self.patience <= 0))
    @rule()
    def the_stream_ends(self) -> None:
        self.model_ends()

    def model_ends(self) -> None:
        assert self.shadow.model is not None
        known, book, held = len(self.shadow.log), self.shadow.now, bool(self.shadow.held)
        again = not book.output and book.attempt < self.shadow.bounds.max_attempts
        self.tell(ModelEnded(*self.shadow.model))
        words = [word for word in self.stops if word is not FinishReason.OTHER] or self.stops
        reason = words[0] if words else None
        assert (self.shadow.waiting is not None) == (again and (reason or FinishReason.EOF) in UNFINISHED)
        if self.shadow.waiting is not None:
            self.forget_attempt()
            return
        fresh = [logged.event for logged in self.shadow.log[known:]]
        (finished,) = [event for event in fresh if isinstance(event, IterationFinished)]
        assert finished.finish_reason is (reason or FinishReason.EOF)
        estimated = self.called and not self.reported
        assert (finished.usage.source is UsageSource.ESTIMATED) == estimated, "an estimate that is none, or is not said"
        self.unreported = self.unreported or (estimated and reason in WELL_ENDED | WHOLE)
        assert self.shadow.unreported == self.unreported, "missing usage is told once in a run"
        if reason not in WELL_ENDED:
            statuses = [event.result.status for event in fresh if isinstance(event, ToolCallFinished)]
            assert set(statuses) <= {ToolResultStatus.NOT_EXECUTED}, "a call of a cut answer did not settle unexecuted"
        kind = self.shadow.finished.outcome.kind if self.shadow.finished is not None else None
        expected = expected_kinds(self.shadow, reason, book, said_text=self.said_text, refused=self.refused, held=held)
        if self.capped and reason is FinishReason.OUTPUT_LIMIT:
            expected = {OutcomeKind.BUDGET_EXCEEDED}
        assert kind in expected, f"{kind} after {reason}"
        self.forget_attempt()

    def forget_attempt(self) -> None:
        self.stops = []
        self.said_text = self.refused = self.called = self.reported = self.capped = False

    @precondition(lambda self: self.model_is_called and (self.may_be_tried_again or self.patience <= 0))
    @rule(fault=FAULTS, jitter=st.sampled_from([0.0, 0.5, 0.999]), left=REMAINING)
    def provider_fails(self, fault: Failure, jitter: float, left: int | None) -> None:
        assert self.shadow.model is not None
        if self.patience > 0:  # most runs should get further
            fault, left = replace(fault, retryable=True, retry_after=None, reason=Reason.PROVIDER_UNAVAILABLE), None
        self.it_fails(fault, jitter, left)

    @precondition(lambda self: self.model_is_called and self.may_be_tried_again and not self.shadow.now.renewed)
    @rule()
    def provider_rejects_the_credentials(self) -> None:
        self.it_fails(failure(Reason.PROVIDER_AUTH_FAILED), 0.5, None)
        assert self.model_is_called, "no attempt with renewed credentials"

    @precondition(lambda self: self.model_is_called and self.may_be_tried_again and not self.shadow.now.shortened)
    @precondition(lambda self: self.shadow.bounds.history_overflow is HistoryOverflowMode.TRUNCATE)
    @rule()
    def provider_finds_it_too_long(self) -> None:
        self.it_fails(failure(Reason.CONTEXT_OVERFLOW), 0.5, None)
        assert self.model_is_called, "no shorter attempt"

    def it_fails(self, fault: Failure, jitter: float, left: int | None) -> None:
        assert self.shadow.model is not None
        renewed, shortened = self.shadow.now.renewed, self.shadow.now.shortened
        expected = expected_after_failure(self.shadow, fault, jitter, left)
        self.tell(ModelFailed(*self.shadow.model, fault, jitter, remaining_ns=left))
        self.forget_attempt()
        assert (self.shadow.now.renewed > renewed) == (expected is AfterFailure.RENEW), "renewed when it should not"
        assert (self.shadow.now.shortened > shortened) == (expected is AfterFailure.SHORTEN), "cut when it should not"
        assert (self.shadow.waiting is not None) == (expected is AfterFailure.WAIT), "waits when it should not"
        if expected is AfterFailure.END:
            assert self.shadow.finished is not None
            kinds = {OutcomeKind.ERRORED}
            if self.shadow.now.synthesis:
                kinds |= {OutcomeKind.TOOL_ONLY, OutcomeKind.MAX_STEPS}
            assert self.shadow.finished.outcome.kind in kinds

    @precondition(lambda self: self.begun and self.shadow.waiting is not None and self.shadow.settled is None)
    @rule()
    def the_wait_is_over(self) -> None:
        assert self.shadow.waiting is not None
        self.tell(RetryDue(*self.shadow.waiting))

    @precondition(lambda self: self.begun and self.shadow.hook is not None and self.shadow.settled is None)
    @rule(instruction=st.sampled_from(["Answer.", None]), problem=st.sampled_from(["", "", "It broke."]))
    def the_hook_decides(self, instruction: str | None, problem: str) -> None:
        assert self.shadow.hook is not None
        self.tell(CompletionDecided(self.shadow.hook, None if problem else instruction, problem))
        assert (self.shadow.settled is not None) == (instruction is None and not problem), "the hook is not heard"

    # --- tools ------------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.begun and self.shadow.resolving and self.shadow.settled is None)
    @rule(data=st.data(), problem=PROBLEMS, repairs=REPAIRS)
    def the_registry_answers(self, data: st.DataObject, problem: Reason | None, repairs: tuple[str, ...]) -> None:
        self.resolve(data.draw(st.sampled_from(self.shadow.resolving)), problem, repairs)

    @precondition(lambda self: self.begun and self.shadow.resolving and self.shadow.settled is None)
    @rule()
    def the_registry_finds_all_calls(self) -> None:
        self.the_registry_finds_all()

    def the_registry_finds_all(self) -> None:
        for call_id in self.shadow.resolving:
            if self.shadow.settled is None:
                self.resolve(call_id, None)

    @precondition(lambda self: self.begun and self.shadow.executing and self.shadow.settled is None)
    @rule(last_first=st.booleans())
    def the_tools_finish(self, last_first: bool) -> None:
        self.all_tools_finish(last_first=last_first)

    def all_tools_finish(self, *, last_first: bool) -> None:
        for _ in range(20):
            if not self.shadow.executing or self.shadow.settled is not None:
                return
            self.finish_tool(self.shadow.executing[-1 if last_first else 0], ToolResultStatus.OK)
        raise AssertionError("tools that have finished are still said to run")

    def resolve(self, call_id: str, problem: Reason | None, repairs: tuple[str, ...] = ()) -> None:
        fault = None if problem is None else failure(problem, phase=FailurePhase.TOOL)
        call = self.shadow.calls[call_id]
        call.resolving, call.resolvable = False, problem is None
        call.repairs = repairs if problem is None else ()
        known = len(self.shadow.notice_reasons)
        self.tell(ToolResolved(call_id, self.people.ref(call.name), fault, repairs))
        repaired = (Reason.TOOL_ARGUMENTS_REPAIRED, call_id)
        told = [each for each in self.shadow.notice_reasons[known:] if each[0] is Reason.TOOL_ARGUMENTS_REPAIRED]
        assert told == ([repaired] if call.repairs else []), "a repair is told once, and nothing else is"
        if problem is not None:
            denied = problem is Reason.TOOL_DENIED
            assert call.result is not None
            circle = call.result.failure is not None and call.result.failure.reason is Reason.TOOL_LOOP_DETECTED
            expected = ToolResultStatus.DENIED if denied else ToolResultStatus.ERROR
            assert call.result.status is (ToolResultStatus.NOT_EXECUTED if circle else expected)

    @precondition(lambda self: self.begun and self.shadow.executing and self.shadow.settled is None)
    @rule(data=st.data(), status=STATUSES)
    def a_tool_finishes(self, data: st.DataObject, status: ToolResultStatus) -> None:
        self.finish_tool(data.draw(st.sampled_from(self.shadow.executing)), status)

    def finish_tool(self, call_id: str, status: ToolResultStatus) -> None:
        fault = None if status is ToolResultStatus.OK else failure(Reason.TOOL_FAILED, phase=FailurePhase.TOOL)
        given = ToolResult(call_id, status, (Part("part_1", Text("x")),), failure=fault)
        by_caller = self.shadow.calls[call_id].with_caller
        self.tell(CallerResult(given, 3) if by_caller else ToolFinished(call_id, given, 3))
        call = self.shadow.calls[call_id]
        result = call.result
        assert result is not None
        assert result.status is status
        words = " ".join(part.content.text for part in result.content if isinstance(part.content, Text))
        assert words.startswith("x")
        assert all(repair in words for repair in call.repairs), "the model is not told what was repaired"
        assert call.repairs or words == "x"
        if status is not ToolResultStatus.OK and self.shadow.bounds.error_mode is ToolErrorMode.ABORT:
            assert self.shadow.finished is not None, "error_mode ABORT did not abort"

    @precondition(lambda self: self.may_end_late and self.shadow.settled is None)
    @rule(data=st.data())
    def a_call_that_was_given_up_ends(self, data: st.DataObject) -> None:
        call_id = data.draw(st.sampled_from(self.may_end_late))
        known = len(self.shadow.log)
        self.shadow.calls[call_id].late = True
        self.tell(ToolResultLate(call_id))
        assert len(self.shadow.log) == known + 1, "a late end is told, and does nothing else"
        assert self.shadow.notice_reasons[-1] == (Reason.TOOL_RESULT_LATE, call_id)

    @property
    def may_end_late(self) -> list[str]:
        return [
            call_id
            for call_id, call in self.shadow.calls.items()
            if call.executed and not (call.late or call.with_caller)
        ]

    @precondition(lambda self: self.begun and self.shadow.executing and self.shadow.settled is None)
    @rule(data=st.data())
    def a_tool_reports_progress(self, data: st.DataObject) -> None:
        known = len(self.shadow.log)
        self.tell(ToolProgress(data.draw(st.sampled_from(self.shadow.executing)), 0.5))
        assert len(self.shadow.log) == known + 1

    # --- callers, clocks, faults ------------------------------------------------------------------------------------

    @precondition(lambda self: not self.begun)
    @rule(bad=st.sampled_from([False, False, False, False, False, True]))
    def the_run_begins(self, bad: bool) -> None:
        self.begun = True
        self.tell(PreparationFailed(failure(Reason.PROVIDER_NOT_CONFIGURED)) if bad else Begin())

    @precondition(lambda self: self.patience <= 0 and self.shadow.settled is None)
    @rule(stop=STOPS)
    def somebody_stops_the_run(self, stop: Fact) -> None:
        self.begun = True
        self.tell(stop)
        assert self.shadow.settled is not None, "the run was stopped and goes on"

    @rule(data=st.data())
    def a_fact_comes_late_or_from_nowhere(self, data: st.DataObject) -> None:
        shadow = self.shadow
        live = {shadow.model, shadow.waiting}
        iteration, attempt = len(shadow.iterations), shadow.now.attempt if shadow.iterations else 0
        near = st.sampled_from([-1, 0, 0, 1])
        pairs = st.builds(lambda i, a: (iteration + i, attempt + a), near, near)
        pair = data.draw(pairs.filter(lambda pair: pair not in live))
        overdue: list[Fact] = [] if shadow.awaiting else [AttachmentsOverdue(1.0)]
        call_id = data.draw(st.sampled_from(["call_of_nobody", *shadow.calls]))
        stray: list[Fact] = [
            ModelProduced(*pair, (TextChunk(0, "stray"),)),
            ModelEnded(*pair),
            ModelCalled(*pair, 9),
            HistoryCut(*pair, HistoryTruncated(1, 0, 2, 1)),
            ToolsRevised(*pair, {}, (ToolsChanged(ToolsChangeCause.FOUND, ("stray",)),)),
            ModelFailed(*pair, failure(retryable=True)),
            RetryDue(*pair),
            CompletionDecided(iteration + (1 if shadow.hook is not None else 0), "stray"),
        ]
        stray += overdue
        if self.begun:
            stray += [Begin(), PreparationFailed(failure())]
        if call_id not in shadow.executing:
            stray += [ToolFinished(call_id, ToolResult(call_id, ToolResultStatus.OK)), ToolProgress(call_id, 0.1)]
        if call_id not in shadow.with_caller:
            stray.append(CallerResult(ToolResult(call_id, ToolResultStatus.OK)))
        answered = [each for each in ("appr_of_nobody", *shadow.caller.asked) if each not in shadow.caller.pending]
        stray.append(ApprovalAnswered(answered[-1], ApprovalDecision.ALWAYS, "bob"))
        stray.append(WaitExpired(call_id if call_id not in shadow.with_caller else answered[-1], 5.0))
        if call_id not in self.may_end_late:
            stray.append(ToolResultLate(call_id))
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
            case WaitExpired() if self.shadow.bounds.wait_expiry is WaitExpiryMode.ABORT:
                assert outcome.kind is OutcomeKind.ABORTED
                assert outcome.limit_trip is not None
                assert outcome.limit_trip.policy_path == "timeout.wait"
            case _:
                assert outcome.kind is not OutcomeKind.ABORTED
                assert (outcome.kind is OutcomeKind.BUDGET_EXCEEDED) == self.over_budget(last)
                assert outcome.limit_trip == BUDGET or outcome.kind is not OutcomeKind.BUDGET_EXCEEDED
        if outcome.kind is OutcomeKind.MAX_STEPS:
            assert outcome.limit_trip is not None
            steps = outcome.limit_trip.policy_path == "loop.max_steps"
            bounds = self.shadow.bounds
            if steps:
                made = sum(not book.synthesis for book in self.shadow.iterations)
                assert made == bounds.max_steps, "the step bound tripped early"
            else:
                assert len(self.shadow.calls) > bounds.max_tool_calls, "the bound on tool calls tripped early"
        check_trace(self.shadow, self.fold)
        check_recovery(self.shadow, settled.messages)

    @precondition(lambda self: self.begun and self.shadow.settled is None)
    @rule()
    def a_process_dies(self) -> None:
        """Recovery must be able to close the log of this moment; the run itself goes on here."""
        check_crash(self.shadow)


def check(examples: int, *, derandomize: bool = False, shrink: bool = True) -> None:
    """Run the state machine. Without shrinking a fault is found, not made small (see scripts/mutants.py)."""
    run_state_machine_as_test(
        TurnRules,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            derandomize=derandomize,
            database=None,
            phases=[Phase.explicit, Phase.generate, *([Phase.shrink] if shrink else [])],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        ),
    )


@pytest.mark.requirement("TURN-27", "TURN-3", "TURN-6", "TURN-21", "RECOVERY-1", "RECOVERY-3")
@pytest.mark.timeout(240)
def test_the_invariants_hold_after_every_fact_of_every_interleaving() -> None:
    check(int(os.environ.get("TURNWIRE_EXAMPLES", "100")))
