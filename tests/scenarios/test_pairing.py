"""Calls and their results in what providers are sent: after cancels, and with ids that repeat or are missing."""

from __future__ import annotations

import re

import pytest
from execution.served import turn
from scenarios.kit import ABORTED, ANSWERED, PARALLEL, SERIAL, kept, play, told
from scenarios.wires import WIRES, Words, first_events, hanging, over

from turnwired.domain.policy import Policy

pytestmark = pytest.mark.anyio

IDS = re.compile(rb'"(?:c|toolu_)\d"')


async def read_file(path: str) -> str:
    """Read a file."""
    return path * 3


def with_ids(answer: bytes, call_id: str) -> bytes:
    """The answer with this id for every call."""
    return IDS.sub(f'"{call_id}"'.encode(), answer)


def steps(wire: Words, call_id: str) -> list[bytes]:
    """Two answers with a call of the same id each, then a text."""
    one, two = (with_ids(wire.answer(("read_file", f'{{"path":"{path}"}}')), call_id) for path in "ab")
    return [one, two, wire.answer("Both done.")]


@pytest.mark.requirement("SCN-019")
@pytest.mark.parametrize("policy", [SERIAL, PARALLEL], ids=["serial", "parallel"])
@pytest.mark.parametrize("name", WIRES)
async def test_after_a_cancel_in_the_middle_of_a_call_the_session_goes_on(name: str, policy: Policy) -> None:
    wire = WIRES[name]
    written: list[str] = []

    async def write_file(path: str, content: str) -> str:
        """Write a file."""
        written.append(path)
        return content

    call = first_events(wire.call(1, "write_file", '{"path":"a.txt","content":"x"}'), 2)
    cut = hanging(wire.open("Writing. "), call)
    async with over(wire, [cut, wire.answer("Hello again.")], write_file, policy=policy) as line:
        s = line.service
        seen, task = s.follow(turn(session_id="s"))
        await seen.until("tool_call_started")
        await s.cancel(await seen.id())
        await task
        first = await told(s, seen)
        second = await play(s, "hi", session_id="s")
        stored = await kept(s, "s")
    assert first.outcome.kind == ABORTED
    assert len(first.results) == 1
    assert second.outcome.kind == ANSWERED
    assert line.pairs(1) == [], "half a call is no call"
    assert b"Writing. " in line.calls[1].body
    assert b"a.txt" not in line.calls[1].body
    assert written == []
    assert [part.text for part in stored[1].parts] == ["Writing. "]
    assert len(line.requests) == 2


@pytest.mark.requirement("SCN-022")
@pytest.mark.parametrize("policy", [SERIAL, PARALLEL], ids=["serial", "parallel"])
@pytest.mark.parametrize("call_id", ["same", ""], ids=["one id", "no id"])
@pytest.mark.parametrize("name", WIRES)
async def test_calls_of_one_answer_with_one_id_are_two_calls_with_two_results(
    name: str, call_id: str, policy: Policy
) -> None:
    wire = WIRES[name]
    body = with_ids(wire.answer(("read_file", '{"path":"a"}'), ("read_file", '{"path":"b"}')), call_id)
    async with over(wire, [body, wire.answer("Done."), wire.answer("Again.")], read_file, policy=policy) as line:
        run = await play(line.service, session_id="s")
        await play(line.service, session_id="s")
    assert run.said == ["aaa", "bbb"]
    assert [words.strip("[]") for _, words in line.pairs(1)] != []
    assert ["aaa" in words for _, words in line.pairs(1)] == [True, False]
    assert line.pairs(2) == line.pairs(1), "the ids stay what they are"
    if name == "chat":
        assert len({call["id"] for call in calls_of(line.requests[1])}) == 2


def calls_of(request: dict[str, object]) -> list[dict[str, str]]:
    """The calls of a chat request."""
    messages = request["messages"]
    assert isinstance(messages, list)
    return [call for message in messages for call in message.get("tool_calls") or []]


@pytest.mark.requirement("SCN-023", "SCN-024")
@pytest.mark.parametrize("call_id", ["call_0", ""], ids=["restarted ids", "no ids"])
@pytest.mark.parametrize("name", WIRES)
async def test_ids_that_begin_anew_with_every_answer_are_new_calls(name: str, call_id: str) -> None:
    wire = WIRES[name]
    bodies = [*steps(wire, call_id), *steps(wire, call_id)]
    async with over(wire, bodies, read_file) as line:
        run = await play(line.service, session_id="s")
        await play(line.service, session_id="s")
    assert run.said == ["aaa", "bbb"]
    assert run.outcome.kind == ANSWERED
    (one, first), (two, second) = line.pairs(2)
    assert ("aaa" in first, "bbb" in second) == (True, True)
    assert one != two
    assert len(line.pairs(5)) == 4, "ids are unique in the whole conversation"
    assert line.pairs(5)[:2] == line.pairs(2)


@pytest.mark.requirement("SCN-024")
@pytest.mark.parametrize("name", WIRES)
async def test_a_call_without_an_id_gets_one_that_its_result_and_later_requests_share(name: str) -> None:
    wire = WIRES[name]
    body = IDS.sub(b"null", wire.answer(("read_file", '{"path":"a"}')))
    async with over(wire, [body, wire.answer("Done.")], read_file) as line:
        run = await play(line.service)
    assert run.said == ["aaa"]
    ((call_id, words),) = line.pairs(1)
    assert call_id
    assert "aaa" in words
