"""Structured answers beside tool calls, and what ends a run that was asked for one."""

from __future__ import annotations

import pytest
from execution.served import Served, served, turn
from scenarios.kit import ANSWERED, PARALLEL, SERIAL, Told, pairs, sent, told
from scenarios.wires import WIRES, over

from turnwired.domain.generation import (
    FinishReason,
    GenerationStopped,
    ModelItem,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallClosed,
    ToolCallOpened,
)
from turnwired.domain.policy import Policy
from turnwired.testing.provider import Step, answer, usage

pytestmark = pytest.mark.anyio

SCHEMA = '{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}'
FIRST, LAST = '{"ok":false}', '{"ok":true}'


async def ask(s: Served, text: str = "Save it.") -> Told:
    """A turn whose answer has to match the schema."""
    request = turn(text)
    request.turn.output_format.json_schema = SCHEMA
    request.turn.output_format.name = "result"
    _, task = s.follow(request)
    return await told(s, await task)


def together(text_first: bool) -> list[Step]:
    """A valid value and a call in one answer, in either order."""
    value: list[ModelItem] = [TextChunk(0 if text_first else 2, FIRST)]
    call: list[ModelItem] = [ToolCallOpened(1, "s", "save"), ToolArgumentsChunk(1, "{}"), ToolCallClosed(1)]
    items: list[ModelItem] = [*value, *call] if text_first else [*call, *value]
    return [items, [GenerationStopped(FinishReason.TOOL_CALLS, "tool_calls"), usage()]]


@pytest.mark.requirement("SCN-159", "MATRIX-13")
@pytest.mark.parametrize("policy", [SERIAL, PARALLEL], ids=["serial", "parallel"])
@pytest.mark.parametrize("text_first", [True, False], ids=["value first", "call first"])
async def test_a_call_beside_a_valid_value_runs_once_whatever_their_order(text_first: bool, policy: Policy) -> None:
    saved: list[str] = []

    async def save() -> str:
        """Save."""
        saved.append("saved")
        return "saved"

    async with served([together(text_first), answer(LAST)], save, policy=policy) as s:
        run = await ask(s)
    assert run.outcome.kind == ANSWERED
    assert run.seen.finished.structured_output_json == LAST, "the value that counts knows the result"
    assert run.said == ["saved"]
    assert saved == ["saved"]
    assert len(pairs(sent(s, 1))) == 1
    assert len(s.provider.requests) == 2


@pytest.mark.requirement("SCN-160", "MATRIX-13")
@pytest.mark.parametrize("name", WIRES)
async def test_a_valid_value_ends_the_loop(name: str) -> None:
    async def run_shell(cmd: str) -> str:
        """Run a command."""
        raise AssertionError("not asked for")

    wire = WIRES[name]
    async with over(wire, [wire.answer(LAST)], run_shell) as line:
        run = await ask(line.service)
    assert run.outcome.kind == ANSWERED
    assert run.seen.finished.structured_output_json == LAST
    assert run.results == []
    assert len(line.requests) == 1
