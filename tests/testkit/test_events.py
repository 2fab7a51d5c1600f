"""The event collector: runs as text, and differences that a person can read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from turnwired import Rewound, Runtime
from turnwired.domain.event import LoggedEvent, RunFinished, TextDelta
from turnwired.domain.failure import Reason
from turnwired.testing import EventCollector, ScriptedProvider, answer, calls, fails, lines_of
from turnwired.testing.provider import Step

pytestmark = pytest.mark.anyio


async def find_order(number: int) -> str:
    """Find an order."""
    if number != 4711:
        raise LookupError("no such order")
    return "On its way."


SCRIPT: list[Sequence[Step]] = [
    [fails(Reason.PROVIDER_UNAVAILABLE, retryable=True, retry_after=0.001)],
    calls(("find_order", '{"number":4711}'), ("find_order", '{"number":1}'), ("nothing", "{}")),
    answer("It is ", "on its ", "way."),
]
TOLD = """
    run started: default with scripted/scripted-model
    iteration 1 started
    attempt 1 failed (MODEL/PROVIDER_UNAVAILABLE), tried again
    call 1 started: find_order
    call 1 arguments: {"number":4711}
    call 2 started: find_order
    call 2 arguments: {"number":1}
    call 3 started: nothing (no such tool)
    call 3 arguments: {}
    iteration 1 finished: TOOL_CALLS
    call 3 finished: ERROR (ROUTING/TOOL_NOT_FOUND)
    call 1 executing
    call 2 executing
    call 1 finished: OK
    call 2 finished: ERROR (TOOL/TOOL_FAILED)
    iteration 2 started
    text: 'It is on its way.'
    iteration 2 finished: STOP
    run finished: ANSWERED
"""


async def seen() -> EventCollector:
    """What a run of the script tells."""
    collector = EventCollector()
    provider = ScriptedProvider(list(SCRIPT))
    async with Runtime({}, tools=[find_order], providers={"scripted": provider}, environ={}) as runtime:
        await runtime.run_turn("Where are they?", on_event=collector)
    return collector


@pytest.mark.requirement("KIT-11")
async def test_a_run_is_the_same_text_every_time() -> None:
    for collector in (await seen(), await seen()):
        collector.expect(TOLD)
        assert len(collector.of(TextDelta)) == 3
        assert isinstance(collector.of(RunFinished)[0], RunFinished)


@pytest.mark.requirement("KIT-11")
async def test_what_differs_is_shown_as_a_diff() -> None:
    collector = await seen()
    with pytest.raises(AssertionError) as differs:
        collector.expect(TOLD.replace("call 1 finished: OK", "call 1 finished: DENIED").replace("ANSWERED", "ERRORED"))
    lines = str(differs.value).splitlines()
    assert "- call 1 finished: DENIED" in lines
    assert "+ call 1 finished: OK" in lines
    assert lines[-2:] == ["- run finished: ERRORED", "+ run finished: ANSWERED"]
    assert "  iteration 2 started" in lines


@pytest.mark.requirement("KIT-11")
async def test_some_lines_in_order_can_be_expected() -> None:
    collector = await seen()
    collector.expect_in_order(["call 1 started: find_order", "call 1 finished: OK", "run finished: ANSWERED"])
    with pytest.raises(AssertionError, match="did not tell, at its place: call 1 started: find_order"):
        collector.expect_in_order(["call 1 finished: OK", "call 1 started: find_order"])


@pytest.mark.requirement("KIT-11")
async def test_a_rewind_takes_back_what_came_after_it() -> None:
    collector = await seen()
    collector(Rewound(2))
    assert collector.lines() == ["run started: default with scripted/scripted-model", "iteration 1 started"]
    with pytest.raises(TypeError, match="not str"):
        collector("text")


@pytest.mark.requirement("KIT-11")
def test_text_of_different_parts_stays_apart() -> None:
    events = [LoggedEvent(n, 0, 1, TextDelta(part, "x")) for n, part in enumerate(("a", "a", "b"), 1)]
    assert lines_of(events) == ["text: 'xx'", "text: 'x'"]
