"""A run that would end without an answer is asked for one, from what it has, and only once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from execution.served import served
from scenarios.kit import ANSWERED, MAX_STEPS, TOOL_ONLY, kept, pairs, play, sent
from scenarios.wires import WIRES, over

from turnwire.v1 import message_pb2, outcome_pb2
from turnwired.domain.generation import MediaProduced
from turnwired.domain.policy import CompletionMode, CompletionPolicy, LoopPolicy, Policy
from turnwired.domain.tool import ToolChoiceMode
from turnwired.testing.provider import Step, answer, calls, stopped, usage

pytestmark = pytest.mark.anyio

REQUIRED = Policy(completion=CompletionPolicy(mode=CompletionMode.REQUIRE_TEXT_AFTER_TOOLS, reserved_output_tokens=400))
LOOK = ("look", "{}")


async def look() -> str:
    """Look."""
    return "seen"


def bound(steps: int) -> Policy:
    """The same guarantee with a bound on the steps."""
    return replace(REQUIRED, loop=LoopPolicy(max_steps=steps))


@pytest.mark.requirement("SCN-011", "MATRIX-3")
@pytest.mark.parametrize("started", [False, True], ids=["streamed", "started"])
@pytest.mark.parametrize("silence", ["", "  \n"], ids=["nothing", "blanks"])
async def test_a_silent_end_after_tools_is_asked_once_for_the_answer(silence: str, started: bool) -> None:
    script = [calls(LOOK), answer(silence) if silence else answer(), answer("It is there.")]
    async with served(script, look, policy=REQUIRED) as s:
        told = await play(s, started=started, session_id="s")
        stored = await kept(s, "s")
    assert told.outcome.kind == ANSWERED
    assert told.text == "It is there."
    third = s.provider.requests[2]
    assert third.tool_choice.mode is ToolChoiceMode.NONE
    assert third.max_output_tokens == 400
    roles = [role for role, _ in sent(s, 2)]
    assert roles[:3] == ["USER", "ASSISTANT", "TOOL"], "no empty message of the assistant"
    assert [part.text for message in stored for part in message.parts].count("It is there.") == 1
    assert len(s.provider.requests) == 3


@pytest.mark.requirement("SCN-011", "SCN-016")
@pytest.mark.parametrize("steps", [1, 10], ids=["at the bound", "after silence"])
@pytest.mark.parametrize("name", WIRES)
async def test_the_request_for_an_answer_lets_no_wire_call_a_tool(name: str, steps: int) -> None:
    wire = WIRES[name]
    silent = [] if steps == 1 else [wire.answer()]
    bodies = [wire.answer(LOOK), *silent, wire.answer("It is there.")]
    async with over(wire, bodies, look, policy=bound(steps)) as line:
        told = await play(line.service)
    assert told.outcome.kind == (MAX_STEPS if steps == 1 else ANSWERED)
    assert told.text == "It is there."
    last = line.requests[-1]
    assert not last.get("tools") or last["tool_choice"] in ("none", {"type": "none"})
    assert 400 in (last.get("max_tokens"), last.get("max_completion_tokens"), last.get("max_output_tokens"))
    assert len(line.pairs(len(bodies) - 1)) == 1
    assert len(line.requests) == len(bodies)


@pytest.mark.requirement("SCN-013")
@pytest.mark.parametrize("started", [False, True], ids=["streamed", "started"])
async def test_a_file_is_an_answer_and_nothing_more_is_asked_for(started: bool) -> None:
    image: list[Step] = [[MediaProduced(0, "image/png", b"\x89PNG" + b"0" * 64)], [stopped(), usage()]]
    async with served([calls(LOOK), image], look, policy=REQUIRED) as s:
        told = await play(s, started=started, session_id="s")
        stored = await kept(s, "s")
    assert told.outcome.kind == ANSWERED
    (part,) = told.seen.finished.message.parts
    assert part.blob.media_type == "image/png"
    assert len(part.blob.data) == 68
    assert stored[-1].role == message_pb2.ROLE_ASSISTANT
    assert stored[-1].parts[0].blob.data == part.blob.data
    assert len(s.provider.requests) == 2


@pytest.mark.requirement("SCN-015", "MATRIX-3")
@pytest.mark.parametrize(("steps", "kind"), [(2, MAX_STEPS), (10, TOOL_ONLY)], ids=["at the bound", "after silence"])
async def test_a_call_instead_of_the_answer_is_neither_run_nor_answered_nor_asked_again(steps: int, kind: int) -> None:
    done: list[str] = []

    async def work(item: str) -> str:
        """Work."""
        done.append(item)
        return f"{item} done"

    first = [calls(("work", '{"item":"one"}')), calls(("work", '{"item":"two"}'))]
    silent = [] if steps == 2 else [answer()]
    script = [*first, *silent, calls(("work", '{"item":"three"}')), answer("Afterwards.")]
    async with served(script, work, policy=bound(steps)) as s:
        told = await play(s, session_id="s")
        after = await play(s, "And?", session_id="s")
    assert done == ["one", "two"]
    assert told.outcome.kind == kind
    assert told.outcome.recoverable
    assert not told.seen.finished.HasField("message")
    assert told.results[2].failure.reason == outcome_pb2.REASON_TOOL_NOT_EXECUTED
    assert after.outcome.kind == ANSWERED
    answered = [words for _, words in pairs(sent(s, len(script) - 1))]
    assert answered[:2] == ["one done", "two done"]
    assert "done" not in " ".join(answered[2:])


@pytest.mark.requirement("SCN-016")
@pytest.mark.parametrize("started", [False, True], ids=["streamed", "started"])
async def test_at_the_step_bound_the_answer_comes_from_what_is_there_and_the_bound_is_told(started: bool) -> None:
    async with served([calls(LOOK), answer("Still packing.")], look, policy=bound(1)) as s:
        told = await play(s, started=started)
    assert told.outcome.kind == MAX_STEPS
    assert told.outcome.limit_trip.policy_path == "loop.max_steps"
    assert told.text == "Still packing."
    first, second = s.provider.requests
    assert second.tools == first.tools, "the prefix of the request stays, so the provider's cache holds"
    assert second.tool_choice.mode is ToolChoiceMode.NONE
    assert second.max_output_tokens == 400
    provenance = {item.path: item for item in told.seen.events[0].run_started.effective_policy.provenance}
    assert provenance["loop.max_steps"].layer
