"""What the machine does about a conversation that is too long. Example facts, exact events."""

from __future__ import annotations

import pytest
from turn.machinekit import CANCELLED, RUN_ID, Driven, a_call, bounds_with, failure, setup_with, stop, text_of

from turnwired.domain.attachment import Attachment, AttachmentState
from turnwired.domain.event import AttachmentUpdated, HistoryTruncated, InputAppended, IterationRetryScheduled
from turnwired.domain.failure import FailurePhase, Reason
from turnwired.domain.generation import FinishReason, TextChunk
from turnwired.domain.message import Blob, Message, Part, Role
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.policy import HistoryOverflowMode, MissingAttachmentMode
from turnwired.domain.trace import HistoryChangeTrace
from turnwired.turn.attachments import refused
from turnwired.turn.effects import AwaitAttachments, CallModel
from turnwired.turn.facts import AttachmentArrived, AttachmentsOverdue, CancelRequested, HistoryCut
from turnwired.turn.recovery import closing_step
from turnwired.turn.state import TurnState
from turnwired.turn.trace import trace_of

TOO_LONG = failure(Reason.CONTEXT_OVERFLOW, message="It is too long.", retryable=True)
CUT = HistoryTruncated(4, 1, 100, 70)


def truncating(**changes: object) -> Driven:
    return Driven(setup_with(bounds_with(history_overflow=HistoryOverflowMode.TRUNCATE, **changes)))


def calls(run: Driven) -> list[tuple[int, int, bool]]:
    return [(call.iteration, call.attempt, call.shorten) for call in run.every(CallModel)]


@pytest.mark.requirement("CTX-7")
def test_a_cut_is_an_event_of_its_iteration_and_an_entry_of_the_trace() -> None:
    run = truncating()
    run.feed(HistoryCut(1, 1, CUT))
    assert run.names == ["RunStarted", "IterationStarted", "HistoryTruncated"]
    assert run.emitted[-1].iteration == 1
    assert HistoryChangeTrace(4, 1, 100, 70) in [entry.entry for entry in trace_of(run.log()).entries]


@pytest.mark.requirement("CTX-7")
def test_a_cut_for_an_attempt_that_is_over_is_ignored() -> None:
    run = truncating()
    run.failed(TOO_LONG)
    run.feed(HistoryCut(1, 1, CUT))
    assert run.events(HistoryTruncated) == []
    assert run.machine.ignored == 1


@pytest.mark.requirement("CTX-5")
def test_what_is_too_long_is_tried_once_more_at_once_and_shorter() -> None:
    run = truncating()
    run.failed(TOO_LONG, jitter=0.9, remaining_ns=1)
    assert [event.delay_ns for event in run.events(IterationRetryScheduled)] == [0]
    run.failed(TOO_LONG)
    assert calls(run) == [(1, 1, False), (1, 2, True)]
    assert run.outcome.kind is OutcomeKind.ERRORED
    assert run.outcome.failure is not None
    assert run.outcome.failure.reason is Reason.CONTEXT_OVERFLOW


@pytest.mark.requirement("CTX-5")
def test_nothing_is_shortened_after_output_with_fail_or_beyond_the_attempts() -> None:
    said = truncating()
    said.produced(TextChunk(0, "Well"))
    refusing = Driven(setup_with(bounds_with(history_overflow=HistoryOverflowMode.FAIL)))
    for run in (said, refusing, truncating(max_attempts=1)):
        run.failed(TOO_LONG)
        assert calls(run) == [(1, 1, False)]
        assert run.outcome.kind is OutcomeKind.ERRORED


# --- attachments


def file(name: str = "a", state: AttachmentState = AttachmentState.PENDING) -> Attachment:
    return Attachment(name, f"{name}.pdf", "application/pdf", state)


def arrives(name: str = "a") -> AttachmentArrived:
    message = Message(Role.USER, (Part(f"in_{name}", Blob("application/pdf", b"%PDF")),), f"msg_{name}", RUN_ID)
    return AttachmentArrived(file(name, AttachmentState.READY), message)


def with_files(*files: Attachment, **changes: object) -> Driven:
    return Driven(setup_with(bounds_with(**changes), attachments=files))


def ids(run: Driven, call: int = -1) -> list[str]:
    return [message.message_id for message in run.every(CallModel)[call].append]


@pytest.mark.requirement("CTX-18")
def test_a_run_whose_files_are_there_waits_for_nothing() -> None:
    run = with_files(file(state=AttachmentState.READY))
    assert run.names == ["RunStarted", "AttachmentUpdated", "IterationStarted"]
    assert run.every(AwaitAttachments) == []


@pytest.mark.requirement("CTX-18")
def test_a_run_calls_the_model_when_the_last_of_its_files_has_come() -> None:
    run = with_files(file("a"), file("b"), file("c", AttachmentState.READY))
    assert [effect.limit for effect in run.every(AwaitAttachments)] == [30.0]
    assert run.every(CallModel) == []
    run.feed(arrives("b"))
    assert run.machine.state is TurnState.AWAITING_ATTACHMENTS
    run.feed(arrives("a"))
    assert ids(run) == ["msg_b", "msg_a"]
    assert run.names[-3:] == ["AttachmentUpdated", "InputAppended", "IterationStarted"]
    run.says("I see both.")
    assert [message.message_id for message in run.settled][:2] == ["msg_b", "msg_a"]


@pytest.mark.requirement("CTX-18")
def test_an_unbounded_wait_has_no_timer() -> None:
    run = with_files(file(), attachment_wait=None)
    assert run.effects == []
    assert run.machine.state is TurnState.AWAITING_ATTACHMENTS


@pytest.mark.requirement("CTX-19")
def test_what_has_not_come_in_time_is_failed_and_the_model_is_told_by_name() -> None:
    run = with_files(file("a"), file("b"))
    run.feed(arrives("b"))
    run.feed(AttachmentsOverdue(30.0))
    updates = [event.attachment for event in run.events(AttachmentUpdated)]
    assert [update.state.value for update in updates] == ["PENDING", "PENDING", "READY", "FAILED"]
    assert updates[-1].failure is not None
    assert updates[-1].failure.reason is Reason.ATTACHMENT_NOT_READY
    first, note = run.every(CallModel)[0].append
    assert first.message_id == "msg_b"
    assert note.role is Role.USER
    assert "a.pdf (application/pdf)" in text_of(note)
    assert "b.pdf" not in text_of(note)
    run.says("I cannot see a.pdf.")
    assert run.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("CTX-19")
def test_the_end_of_a_wait_that_is_over_is_ignored() -> None:
    run = with_files(file())
    run.feed(arrives())
    run.feed(AttachmentsOverdue(30.0))
    assert run.machine.ignored == 1


@pytest.mark.requirement("CTX-41")
def test_where_the_policy_says_so_a_file_that_did_not_come_ends_the_run_before_the_model_is_called() -> None:
    run = with_files(file("a"), file("b"), missing_attachments=MissingAttachmentMode.FAIL)
    run.feed(arrives("b"))
    run.feed(AttachmentsOverdue(30.0))
    assert run.every(CallModel) == []
    assert run.outcome.kind is OutcomeKind.ERRORED
    failure = run.outcome.failure
    assert failure is not None
    assert (failure.phase, failure.reason) == (FailurePhase.PREPARATION, Reason.ATTACHMENT_NOT_READY)
    assert "attachment a " in failure.message
    states = {event.attachment.attachment_id: event.attachment.state for event in run.events(AttachmentUpdated)}
    assert states == {"a": AttachmentState.FAILED, "b": AttachmentState.READY}
    came, note = run.settled
    assert came.message_id == "msg_b"
    assert "a.pdf" in text_of(note), "the session's next turn has to know that it did not come"


@pytest.mark.requirement("CTX-41")
def test_where_all_files_came_that_policy_changes_nothing() -> None:
    run = with_files(file("a"), missing_attachments=MissingAttachmentMode.FAIL)
    run.feed(arrives("a"))
    run.feed(AttachmentsOverdue(30.0))
    run.says("I see it.")
    assert run.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("CTX-42")
def test_where_the_policy_says_so_a_file_of_the_wrong_kind_ends_the_run_at_once() -> None:
    run = with_files(file("b"), refused(file("a"), "no PDFs"), missing_attachments=MissingAttachmentMode.FAIL)
    assert run.effects[-1].__class__.__name__ == "Settle"
    assert run.every(CallModel) == []
    assert run.outcome.failure is not None
    assert run.outcome.failure.reason is Reason.ATTACHMENT_FAILED
    assert len(run.events(AttachmentUpdated)) == 2


@pytest.mark.requirement("CTX-42")
def test_of_a_file_that_the_model_does_not_take_recovery_tells_no_second_time() -> None:
    run = with_files(refused(file("a"), "provider p takes no PDFs"), file("b"))
    run.feed(AttachmentsOverdue(30.0))
    (note,) = run.every(CallModel)[0].append
    assert "b.pdf" in text_of(note)
    assert "a.pdf" not in text_of(note)
    run.says("Done.")
    kept = closing_step(RUN_ID, "agent", None, run.log(), CANCELLED).messages
    assert not any("a.pdf" in text_of(message) for message in kept)


@pytest.mark.requirement("CTX-20")
def test_a_late_file_stands_behind_the_results_of_the_calls_before_it() -> None:
    run = with_files(file())
    run.feed(AttachmentsOverdue(30.0))
    run.answers(*a_call(0), stop(FinishReason.TOOL_CALLS))
    run.feed(arrives())
    run.runs_all_tools()
    assert [message.role for message in run.every(CallModel)[1].append] == [Role.ASSISTANT, Role.TOOL, Role.USER]
    assert ids(run)[-1] == "msg_a"


@pytest.mark.requirement("CTX-20")
def test_a_file_that_comes_while_the_model_answers_leads_to_another_answer() -> None:
    run = with_files(file())
    run.feed(AttachmentsOverdue(30.0))
    run.produced(TextChunk(0, "I cannot see it."))
    run.feed(arrives())
    run.answers(stop())
    assert len(run.every(CallModel)) == 2
    run.says("Now I see it.")
    assert run.outcome.kind is OutcomeKind.ANSWERED
    assert run.finished.message is not None
    assert text_of(run.finished.message) == "Now I see it."


@pytest.mark.requirement("CTX-21")
def test_a_file_is_not_taken_at_the_last_step_or_twice_or_after_the_end() -> None:
    run = with_files(file(), max_steps=1)
    run.feed(AttachmentsOverdue(30.0))
    assert not run.machine.takes_input
    assert run.feed(arrives()).events == ()
    run.says("No.")
    assert run.feed(arrives()).events == ()
    twice = with_files(file("a"), file("b"))
    twice.feed(arrives())
    assert twice.feed(arrives()).events == ()


@pytest.mark.requirement("CTX-23")
def test_a_run_that_waits_for_files_can_be_cancelled_and_keeps_those_that_came() -> None:
    run = with_files(file("a"), file("b"))
    run.feed(arrives("a"))
    run.feed(CancelRequested(CANCELLED))
    assert run.outcome.kind is OutcomeKind.ABORTED
    assert [message.message_id for message in run.settled] == ["msg_a"]


@pytest.mark.requirement("CTX-24")
def test_recovery_keeps_files_where_the_machine_would_at_each_point_of_the_log() -> None:
    run = with_files(file("a"), file("b"))
    run.feed(arrives("b"))
    run.feed(AttachmentsOverdue(30.0))
    run.answers(*a_call(0), stop(FinishReason.TOOL_CALLS))
    run.feed(arrives("a"))
    run.runs_all_tools()
    run.says("Done.")
    log = run.log()
    whole = closing_step(RUN_ID, "agent", None, log, CANCELLED).messages
    assert [(m.role, m.message_id) for m in whole] == [(m.role, m.message_id) for m in run.settled]
    for end in range(1, len(log)):
        kept = closing_step(RUN_ID, "agent", None, log[:end], CANCELLED).messages
        told = [item.event for item in log[:end] if isinstance(item.event, InputAppended)]
        appended = [message.message_id for event in told for message in event.input]
        assert [m.message_id for m in kept if m.message_id in {"msg_a", "msg_b"}] == appended


@pytest.mark.requirement("CTX-24")
def test_the_trace_shows_a_file_as_it_was_last_seen_and_the_input_that_came() -> None:
    run = with_files(file("a"))
    run.feed(arrives())
    entries = [entry.entry for entry in trace_of(run.log()).entries]
    assert file("a", AttachmentState.READY) in entries
    assert file("a") not in entries
    assert arrives().message in entries


@pytest.mark.requirement("CTX-21")
def test_a_file_is_not_taken_while_the_last_calls_of_a_run_are_made() -> None:
    run = with_files(file(), max_tool_calls=1)
    run.feed(AttachmentsOverdue(30.0))
    run.answers(*a_call(0), *a_call(1), stop(FinishReason.TOOL_CALLS))
    run.resolves()
    assert run.machine.executing
    assert not run.machine.takes_input
    assert run.feed(arrives()).events == ()


@pytest.mark.requirement("CTX-20")
def test_a_file_does_not_stand_within_a_turn_that_the_provider_paused() -> None:
    run = with_files(file())
    run.feed(AttachmentsOverdue(30.0))
    run.produced(TextChunk(0, "Well, "))
    run.feed(arrives())
    run.answers(stop(FinishReason.PAUSE))
    assert [message.role for message in run.every(CallModel)[1].append] == [Role.ASSISTANT]
    run.says("here I am.")
    assert [message.role for message in run.every(CallModel)[2].append] == [Role.ASSISTANT, Role.USER]
