"""The fold that callers get."""

from __future__ import annotations

import pytest
from client.scripted import finished, started, text

from turnwire import RunView, Update
from turnwire.v1 import outcome_pb2
from turnwire.v1.event_pb2 import Cursor, RunEvent


def update(*events: RunEvent, rewind_to: int | None = None) -> Update:
    return Update(events, rewind_to, Cursor())


@pytest.mark.requirement("CLIENT-8")
def test_a_view_of_nothing_has_nothing() -> None:
    view = RunView()
    assert (view.run_id, view.outcome, view.message, view.text) == (None, None, None, "")


@pytest.mark.requirement("CLIENT-8")
def test_text_grows_with_the_deltas_of_the_newest_iteration() -> None:
    view = RunView()
    view.apply(update(started(), text(2, "Let me look. ")))
    view.apply(update(text(3, "It is ", iteration=2), text(4, "noon.", iteration=2)))
    assert view.run_id == "run-1"
    assert view.text == "It is noon."
    assert view.outcome is None


@pytest.mark.requirement("CLIENT-8")
def test_the_final_message_is_the_text() -> None:
    view = RunView()
    view.apply(update(started(), text(2, "It is "), finished(3, "It is noon.")))
    assert view.text == "It is noon."
    assert view.message is not None
    assert view.outcome is not None
    assert view.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED


@pytest.mark.requirement("CLIENT-8")
def test_a_finished_part_replaces_its_deltas() -> None:
    whole = RunEvent(sequence=3, iteration=1)
    whole.part_finished.part.part_id = "part-1"
    whole.part_finished.part.text = "Hello"
    view = RunView()
    view.apply(update(started(), text(2, "Hel"), whole))
    assert view.text == "Hello"


@pytest.mark.requirement("CLIENT-8")
def test_a_rewind_takes_back_what_never_happened() -> None:
    view = RunView()
    view.apply(update(started(), text(2, "kept, "), text(3, "lost")))
    view.apply(update(text(3, "new"), rewind_to=2))
    assert view.text == "kept, new"
    assert [event.sequence for event in view.events] == [1, 2, 3]


@pytest.mark.requirement("OUT-22")
def test_structured_output_is_there_once_the_run_has_ended_with_it() -> None:
    view = RunView()
    view.apply(update(started(), text(2, '{"n":1}')))
    assert view.structured_output_json is None
    end = finished(3, '{"n":1}')
    view.apply(update(end))
    assert view.structured_output_json is None
    end.run_finished.structured_output_json = '{"n":1}'
    view.apply(update(end))
    assert view.structured_output_json == '{"n":1}'


def waited_for(view: RunView) -> list[str] | None:
    """Ids of the questions that the run waits for; None: it does not wait."""
    return None if view.waiting is None else [item.approval_id for item in view.waiting.approvals]


@pytest.mark.requirement("APPROVE-25")
def test_a_view_shows_what_the_run_waits_for_while_it_waits() -> None:
    view = RunView()
    view.apply(update(started()))
    assert waited_for(view) is None
    question = RunEvent(sequence=2)
    question.run_waiting.approvals.add(approval_id="appr_1")
    late = RunEvent(sequence=3)
    late.notice.message = "A call ended late."
    view.apply(update(question, late))
    assert waited_for(view) == ["appr_1"]
    resumed = RunEvent(sequence=4)
    resumed.run_resumed.SetInParent()
    view.apply(update(resumed))
    assert waited_for(view) is None
    view.apply(update(RunEvent(sequence=5, run_waiting=question.run_waiting), finished(6, "Done.")))
    assert waited_for(view) is None
