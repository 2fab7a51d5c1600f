"""Where a run ends and where it does not: text before calls, finish words, faults of ours, repeated ends."""

from __future__ import annotations

import asyncio

import pytest
from execution.served import served
from scenarios.kit import ANSWERED, ERRORED, PARALLEL, SERIAL, kept, pairs, play, sent, spoken
from scenarios.wires import WIRES, Words, over, plain

from turnwire.v1 import message_pb2, outcome_pb2
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
from turnwired.testing.provider import Step, answer, calls, usage

pytestmark = pytest.mark.anyio

ORDER = ("lookup_order", '{"order_id":"A7"}')
CALL: list[ModelItem] = [ToolCallOpened(1, "c1", ORDER[0]), ToolArgumentsChunk(1, ORDER[1]), ToolCallClosed(1)]
ENDED: list[Step] = [[GenerationStopped(FinishReason.TOOL_CALLS, "tool_calls"), usage()]]


async def lookup_order(order_id: str) -> str:
    """Look up an order."""
    return f"{order_id}: shipped"


BEFORE_A_CALL = [
    "run started: default with scripted/scripted-model",
    "iteration 1 started",
    "text: 'Let me check.'",
    "call 1 started: lookup_order",
    'call 1 arguments: {"order_id":"A7"}',
    "iteration 1 finished: TOOL_CALLS",
    "call 1 executing",
    "call 1 finished: OK",
    "iteration 2 started",
    "text: 'It has shipped.'",
    "iteration 2 finished: STOP",
    "run finished: ANSWERED",
]


@pytest.mark.requirement("SCN-002")
@pytest.mark.parametrize("policy", [SERIAL, PARALLEL], ids=["serial", "parallel"])
@pytest.mark.parametrize("started", [False, True], ids=["streamed", "started"])
async def test_text_before_a_call_is_not_the_answer(started: bool, policy: Policy) -> None:
    script = [spoken("Let me check.", ORDER), answer("It has ", "shipped.")]
    async with served(script, lookup_order, policy=policy) as s:
        told = await play(s, started=started)
    assert told.lines == BEFORE_A_CALL
    assert told.text == "It has shipped.", "the text before the call is a part of its own"
    (_, (role, (text, call)), (_, (result,))) = sent(s, 1)
    assert role == "ASSISTANT"
    assert text == "Let me check."
    assert isinstance(call, dict)
    assert isinstance(result, dict)
    assert result["result"] == call["call"]
    assert len(s.provider.requests) == 2


@pytest.mark.requirement("SCN-002")
@pytest.mark.parametrize("how", ["stream", "pieces", "body"])
@pytest.mark.parametrize("name", WIRES)
async def test_text_before_a_call_is_not_the_answer_of_any_wire(name: str, how: str) -> None:
    wire = WIRES[name]
    first, second = ("Let me check.", ORDER), ("It has shipped.",)
    said = plain if how == "body" else Words.answer  # one body, as servers give it that do not stream
    bodies = [said(wire, *first), said(wire, *second)]
    async with over(wire, bodies, lookup_order, cut=11 if how == "pieces" else 0) as line:
        told = await play(line.service)
    # The Responses wire has one word for both ends, so what it says of the first is no matter of the run.
    finish = "iteration 1 finished: "
    seen = [finish if item.startswith(finish) else item for item in told.lines]
    assert seen == [finish if item.startswith(finish) else item for item in BEFORE_A_CALL]
    assert told.text == "It has shipped."
    assert len(line.requests) == 2


@pytest.mark.requirement("SCN-005")
@pytest.mark.parametrize(
    "finish", [FinishReason.STOP, FinishReason.TOOL_CALLS, FinishReason.OTHER, FinishReason.PAUSE], ids=str
)
async def test_whole_calls_run_whatever_the_finish_word_of_a_good_end_is(finish: FinishReason) -> None:
    async with served([spoken("", ORDER, finish=finish), answer("Ready.")], lookup_order) as s:
        told = await play(s)
    assert told.outcome.kind == ANSWERED
    assert told.said == ["A7: shipped"]
    assert told.stops[0].provider_finish_reason == finish.value.lower(), "the provider's own word is kept"
    assert len(pairs(sent(s, 1))) == 1
    assert len(s.provider.requests) == 2


@pytest.mark.requirement("SCN-005")
@pytest.mark.parametrize("name", ["chat", "messages"])
@pytest.mark.parametrize("word", ["eos", "function_call_v9", "stop_now"])
async def test_a_finish_word_that_a_wire_does_not_know_stops_no_call(name: str, word: str) -> None:
    wire = WIRES[name]
    async with over(wire, [wire.answer(ORDER, word=word), wire.answer("Ready.")], lookup_order) as line:
        told = await play(line.service)
    assert told.outcome.kind == ANSWERED
    assert told.said == ["A7: shipped"]
    assert told.stops[0].provider_finish_reason == word


@pytest.mark.requirement("SCN-006")
@pytest.mark.parametrize("name", WIRES)
async def test_an_end_that_promises_calls_and_brings_none_is_an_error_and_not_asked_again(name: str) -> None:
    wire = WIRES[name]
    async with over(wire, [wire.answer(word=wire.calls)], lookup_order) as line:
        told = await play(line.service, session_id="s")
        stored = await kept(line.service, "s")
    assert told.outcome.kind == ERRORED
    # The Responses wire has no word for calls, so nothing was promised there.
    broken, missing = outcome_pb2.REASON_PROVIDER_PROTOCOL_ERROR, outcome_pb2.REASON_ANSWER_MISSING
    assert told.outcome.failure.reason == (missing if name == "responses" else broken)
    assert len(line.requests) == 1
    assert [message.role for message in stored] == [message_pb2.ROLE_USER], "no empty message is stored"


@pytest.mark.requirement("SCN-009", "SCN-144")
@pytest.mark.parametrize("fault", [KeyError("a bug"), asyncio.CancelledError()], ids=["a bug", "cancelled within"])
async def test_a_run_whose_own_task_dies_is_errored_and_never_taken_for_a_success(fault: BaseException) -> None:
    async def dies() -> None:
        raise fault

    async with served([[[TextChunk(0, "Working")], dies]]) as s:
        told = await play(s, session_id="s")
        stored = await kept(s, "s")
        again = await s.run("Hello?", session_id="s")
    assert told.outcome.kind == ERRORED
    assert told.outcome.failure.reason == outcome_pb2.REASON_INTERNAL
    assert told.outcome.partial
    assert told.text == "Working"
    assert told.seen.finished.trace.entries
    assert [message.role for message in stored] == [message_pb2.ROLE_USER, message_pb2.ROLE_ASSISTANT]
    assert again.finished.outcome.kind == ERRORED, "the session is free: its next turn runs, beyond the script"
    assert again.finished.outcome.failure.message.startswith("call 2 is beyond the script")


TWICE: dict[str, list[Step]] = {
    "the end": [*calls(ORDER), [GenerationStopped(FinishReason.TOOL_CALLS, "tool_calls"), usage()]],
    "the end of the call": [[*CALL, ToolCallClosed(1)], *ENDED],
    "the beginning of the call": [[CALL[0], *CALL], *ENDED],
    "another end": [*calls(ORDER), [GenerationStopped(FinishReason.STOP, "stop")]],
}


@pytest.mark.requirement("SCN-010")
@pytest.mark.parametrize("steps", TWICE.values(), ids=TWICE.keys())
async def test_what_a_provider_says_twice_happens_once(steps: list[Step]) -> None:
    async with served([steps, answer("Done.")], lookup_order) as s:
        told = await play(s)
    assert told.lines[2:] == [
        "call 1 started: lookup_order",
        'call 1 arguments: {"order_id":"A7"}',
        "iteration 1 finished: TOOL_CALLS",
        "call 1 executing",
        "call 1 finished: OK",
        "iteration 2 started",
        "text: 'Done.'",
        "iteration 2 finished: STOP",
        "run finished: ANSWERED",
    ]
    assert told.seen.finished.usage.input_tokens == 200, "the usage of an iteration counts once"


@pytest.mark.requirement("SCN-010")
@pytest.mark.parametrize("name", WIRES)
async def test_a_second_end_on_a_wire_is_no_second_end_of_anything(name: str) -> None:
    wire = WIRES[name]
    bodies = [wire.answer(ORDER) + wire.end(wire.calls), wire.answer("Done.")]
    async with over(wire, bodies, lookup_order) as line:
        told = await play(line.service)
    assert told.outcome.kind == ANSWERED
    assert told.said == ["A7: shipped"]
    assert len(told.stops) == 2
    assert told.seen.finished.usage.output_tokens == 10
