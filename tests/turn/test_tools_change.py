"""What the machine does with tools that change between iterations. Example facts, exact events."""

from __future__ import annotations

import pytest
from turn.machinekit import Driven, a_call, setup_with

from turnwired.domain.event import ToolCallStarted, ToolsChangeCause, ToolsChanged
from turnwired.domain.tool import ToolRef, ToolSource
from turnwired.turn.facts import ToolsRevised

NEW = ToolRef("new", "new", ToolSource.LOCAL)
CHANGE = ToolsChanged(ToolsChangeCause.SOURCES, added=("new",))


@pytest.mark.requirement("REG-11")
def test_a_change_is_an_event_of_its_iteration_and_new_tools_can_be_called() -> None:
    run = Driven(setup_with())
    run.feed(ToolsRevised(1, 1, {"new": NEW}, (CHANGE,)))
    assert run.names == ["RunStarted", "IterationStarted", "ToolsChanged"]
    assert run.emitted[-1].iteration == 1
    run.answers(*a_call(0, "new"))
    (started,) = run.events(ToolCallStarted)
    assert started.tool == NEW


@pytest.mark.requirement("REG-11")
def test_a_change_for_an_attempt_that_is_over_is_ignored() -> None:
    run = Driven(setup_with())
    run.feed(ToolsRevised(1, 2, {}, (CHANGE,)))
    assert run.events(ToolsChanged) == []
    assert run.machine.ignored == 1
