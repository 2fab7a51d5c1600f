"""Structured answers beside tool calls, and what ends a run that was asked for one."""

from __future__ import annotations

import pytest
from execution.served import Served, served, turn
from scenarios.kit import ANSWERED, ERRORED, OK, PARALLEL, SERIAL, Told, kept, pairs, play, sent, told
from scenarios.wires import WIRES, over

from turnwire.v1 import outcome_pb2
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


async def ask(s: Served, text: str = "Save it.", **fields: object) -> Told:
    """A turn whose answer has to match the schema."""
    request = turn(text, **fields)
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


@pytest.mark.requirement("SCN-029")
@pytest.mark.parametrize("name", WIRES)
async def test_what_a_tool_did_stays_in_the_session_when_the_answer_behind_it_is_rejected(name: str) -> None:
    """The check on the output is the schema: the service has no other that rejects an answer."""
    mails: list[str] = []

    async def send_mail(to: str) -> str:
        """Send a mail."""
        mails.append(to)
        return f"sent to {to}"

    wire = WIRES[name]
    bodies = [
        wire.answer(("send_mail", '{"to":"ops"}')),
        *(wire.answer(f"The secret is {number}.") for number in (7, 8)),
        wire.answer("Mail was sent earlier."),
    ]
    async with over(wire, bodies, send_mail) as line:
        first = await ask(line.service, session_id="s")
        second = await play(line.service, "What did you do?", session_id="s")
        stored = await kept(line.service, "s")
    assert (first.outcome.kind, second.outcome.kind) == (ERRORED, ANSWERED)
    assert first.outcome.failure.reason == outcome_pb2.REASON_STRUCTURED_OUTPUT_INVALID
    assert not first.seen.finished.HasField("structured_output_json"), "what was rejected is no value"
    assert [result.status for result in first.results] == [OK]
    assert second.text == "Mail was sent earlier."
    ((_, told_again),) = line.pairs(3)
    assert "sent to ops" in told_again
    assert sum(part.HasField("tool_result") for message in stored for part in message.parts) == 1
    assert mails == ["ops"], "the mail is sent once"
