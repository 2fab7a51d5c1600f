"""Turns in the process of a program that wait for it: its functions as tools, its answers, its words."""

from __future__ import annotations

import asyncio

import pytest

from turnwired import Rewound, Runtime, TurnResult
from turnwired.domain.approval import Approval
from turnwired.domain.errors import Conflict, InvalidRequest
from turnwired.domain.event import ApprovalRequested, InputAppended, LoggedEvent, ToolCallFinished
from turnwired.domain.failure import Reason
from turnwired.domain.message import ToolResult, ToolResultStatus
from turnwired.testing.provider import ScriptedProvider, Step, answer, calls

pytestmark = pytest.mark.anyio

LIMIT = 10.0
ASK = {"approval": {"rules": [{"permission": "tool", "pattern": "refund", "action": "ask"}]}}


def refund(order: int) -> str:
    """Pay an order back."""
    return f"order {order} was paid back"


def runtime(*script: list[Step]) -> Runtime:
    """A runtime with a scripted model and one tool, in memory."""
    providers = {"scripted": ScriptedProvider(list(script))}
    return Runtime({"policy": ASK}, tools=[refund], providers=providers, environ={})


class Events:
    """What a turn told."""

    def __init__(self) -> None:
        self.all: list[LoggedEvent] = []

    def __call__(self, item: LoggedEvent | Rewound) -> None:
        assert isinstance(item, LoggedEvent)
        self.all.append(item)

    @property
    def results(self) -> list[ToolResult]:
        """The results of the calls."""
        return [item.event.result for item in self.all if isinstance(item.event, ToolCallFinished)]


@pytest.mark.requirement("APPROVE-36")
async def test_functions_of_the_program_are_tools_of_one_turn() -> None:
    opened: list[str] = []

    async def open_page(url: str) -> str:
        """Open a page before the user."""
        opened.append(url)
        return "opened"

    def choose(count: int) -> str:
        """Let the user choose."""
        raise ValueError(f"none of {count}")

    told = Events()
    script = [calls(("open_page", '{"url":"a"}'), ("choose", '{"count":2}')), answer("There."), answer("Without.")]
    async with asyncio.timeout(LIMIT), runtime(*script) as r:
        result = await r.run_turn("Show me", client_tools=[open_page, choose], on_event=told)
        silent = await r.run_turn("And again")
        tools = await r.list_tools()
    assert result.answered
    assert silent.text == "Without."
    assert opened == ["a"]
    assert sorted(item.status for item in told.results) == [ToolResultStatus.ERROR, ToolResultStatus.OK]
    assert [tool.ref.routed_name for tool in tools.tools] == ["refund"]


@pytest.mark.requirement("APPROVE-36")
async def test_functions_are_called_without_anybody_listening_to_events() -> None:
    def choose() -> str:
        """Let the user choose."""
        return "the second"

    async with asyncio.timeout(LIMIT), runtime(calls(("choose", "{}")), answer("The second.")) as r:
        result = await r.run_turn("Which?", client_tools=[choose])
    assert (result.answered, result.tool_call_count) == (True, 1)


@pytest.mark.requirement("APPROVE-36")
async def test_a_turn_that_is_given_up_gives_up_its_functions() -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def hang() -> str:
        """Never ends."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    settled: list[TurnResult] = []
    async with asyncio.timeout(LIMIT), runtime(calls(("hang", "{}"))) as r:
        turn = asyncio.create_task(r.run_turn("Go", client_tools=[hang], on_settle=settled.append))
        await begun.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert cancelled.is_set()
    assert len(settled) == 1


@pytest.mark.requirement("APPROVE-24")
async def test_a_program_answers_the_questions_of_its_turns_and_adds_input() -> None:
    told = Events()
    asked: list[Approval] = []

    async def decide(item: LoggedEvent | Rewound) -> None:
        told(item)
        if isinstance(item, LoggedEvent) and isinstance(item.event, ApprovalRequested):
            asked.extend(await r.list_approvals(run_id=item.event.approval.run_id))
            await r.append_input(asked[0].run_id, "And say sorry.", request_id="sorry")
            await r.append_input(asked[0].run_id, "And say sorry.", request_id="sorry")
            await r.resolve_approval(asked[0], "ONCE")

    async with asyncio.timeout(LIMIT), runtime(calls(("refund", '{"order":7}')), answer("Sorry.")) as r:
        result = await r.run_turn("Pay it back", on_event=decide)
        with pytest.raises(Conflict) as late:
            await r.resolve_approval(asked[0], "REJECT", comment="no")
        with pytest.raises(Conflict) as ended:
            await r.append_input(result.run_id, "More.")
        with pytest.raises(InvalidRequest) as empty:
            await r.append_input(result.run_id, " ")
    assert result.text == "Sorry."
    assert [item.status for item in told.results] == [ToolResultStatus.OK]
    assert len([item for item in told.all if isinstance(item.event, InputAppended)]) == 1
    assert late.value.reason is Reason.APPROVAL_ALREADY_RESOLVED
    assert ended.value.reason is Reason.RUN_SETTLED
    assert empty.value.violations[0].field == "input[0].parts"
