"""Sessions after everything that can end a run, and turns that come at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import grpc
import pytest
from engine.faults import FaultyStore
from execution.served import SECONDS, served, turn
from rpc.server import details
from scenarios.kit import ABORTED, ANSWERED, ERRORED, PROVIDER_EOF, kept, pairs, play, sent, told
from scenarios.wires import WIRES, over

from turnwire.v1 import message_pb2, model_pb2, outcome_pb2, session_service_pb2, turn_service_pb2
from turnwired.domain.failure import Reason
from turnwired.domain.generation import TextChunk
from turnwired.engine import log as engine_log
from turnwired.testing.provider import Step, answer, calls, fails, usage

pytestmark = pytest.mark.anyio

HALF: list[Step] = [[TextChunk(0, "Half an ans"), usage()]]


async def never() -> None:
    """A model that says no more."""
    await asyncio.Event().wait()


def broken() -> None:
    """A fault of ours."""
    raise KeyError("a bug")


@pytest.mark.requirement("SCN-115")
@pytest.mark.parametrize("started", [False, True], ids=["streamed", "started"])
async def test_of_two_turns_at_the_same_instant_one_runs_and_the_other_leaves_no_trace(started: bool) -> None:
    gate = asyncio.Event()
    other = model_pb2.ModelSelection(provider="scripted", model="other-model")
    async with served([[gate.wait, *answer("One.")], answer("After.")]) as s:

        async def ask(text: str, **fields: object) -> str | grpc.aio.AioRpcError:
            try:
                if started:
                    request = turn_service_pb2.StartTurnRequest(turn=turn(text, session_id="s", **fields).turn)
                    run_id = (await s.turns.StartTurn(request, timeout=SECONDS)).run_id
                    await s.watch(run_id)
                else:
                    run_id = (await s.run(text, session_id="s", **fields)).run_id
            except grpc.aio.AioRpcError as error:
                gate.set()
                return error
            return run_id

        both = await asyncio.gather(ask("A"), ask("B", model=other))
        (run_id,) = [item for item in both if isinstance(item, str)]
        (error,) = [item for item in both if not isinstance(item, str)]
        stored = await kept(s, "s")
        after = await play(s, "C", session_id="s")
    info, _ = details(error)
    assert (info.reason, info.metadata["active_run_id"]) == ("SESSION_BUSY", run_id)
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert len(stored) == 2
    word = stored[0].parts[0].text
    assert s.provider.requests[0].model == {"A": "scripted-model", "B": "other-model"}[word], "each has its own model"
    assert s.provider.requests[1].model == "scripted-model", "and it stays with its turn"
    assert after.outcome.kind == ANSWERED
    assert [role for role, _ in sent(s, 1)] == ["USER", "ASSISTANT", "USER"]
    assert len(s.provider.requests) == 2


ENDS: dict[str, tuple[Sequence[Step], int]] = {
    "an error": ([*HALF, fails(Reason.PROVIDER_NETWORK)], ERRORED),
    "a cancel": ([*HALF, never], ABORTED),
    "a broken stream": (HALF, PROVIDER_EOF),
    "a fault of ours": ([*HALF, broken], ERRORED),  # type: ignore[list-item]
}


@pytest.mark.requirement("SCN-118")
@pytest.mark.parametrize(("steps", "kind"), ENDS.values(), ids=ENDS.keys())
async def test_every_ending_is_there_after_a_reload(steps: Sequence[Step], kind: int) -> None:
    async with served([steps, answer("Later.")]) as s:
        seen, task = s.follow(turn("A question", session_id="s"))
        if kind == ABORTED:
            await seen.until("text_delta")
            await s.cancel(await seen.id())
        await task
        run = await told(s, seen)
        request = session_service_pb2.GetSessionRequest(session_id="s")
        session = (await s.sessions.GetSession(request, timeout=SECONDS)).session
        stored = await kept(s, "s")
        listed = await s.turns.ListRuns(turn_service_pb2.ListRunsRequest(session_id="s"), timeout=SECONDS)
        after = await play(s, "And now?", session_id="s")
    assert run.outcome.kind == kind
    assert run.outcome.partial
    assert run.run.run.outcome.failure.message
    assert [(item.role, item.parts[0].text) for item in stored] == [
        (message_pb2.ROLE_USER, "A question"),
        (message_pb2.ROLE_ASSISTANT, "Half an ans"),
    ]
    assert [item.outcome.kind for item in listed.runs] == [kind]
    assert session.usage.input_tokens == 100
    assert not session.HasField("active_run")
    assert after.outcome.kind == ANSWERED
    assert sent(s, 1)[1] == ("ASSISTANT", ["Half an ans"])


SURROGATE = r"bad: \ud83d ok \ud83d\ude00"
CLEAN = "bad: \ufffd ok \U0001f600"


@pytest.mark.requirement("SCN-124")
@pytest.mark.parametrize("name", WIRES)
async def test_text_of_a_wire_that_no_store_takes_is_the_same_clean_text_everywhere(name: str) -> None:
    async def cat(path: str) -> str:
        """Give bad text."""
        return f"{path} W\0 \ud800 end"

    wire = WIRES[name]
    spoken = wire.answer("PLACE").replace(b"PLACE", SURROGATE.encode())
    called = wire.answer(("cat", '{"path":"x"}'))
    async with over(wire, [called, spoken, wire.answer("Again.")], cat) as line:
        run = await play(line.service, session_id="s")
        stored = await kept(line.service, "s")
        await play(line.service, session_id="s")
    assert run.outcome.kind == ANSWERED
    assert run.text == CLEAN
    assert stored[-1].parts[0].text == CLEAN
    assert run.said == ["x W\ufffd \ufffd end"]
    assert line.calls[2].body.decode()
    assert len(line.pairs(2)) == 1


@pytest.mark.requirement("SCN-123")
async def test_a_store_that_fails_for_a_while_loses_nothing_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_log, "STORE_RETRY_SECONDS", 0.001)
    store = FaultyStore()

    async def lookup(order_id: str) -> str:
        """Look up an order; the next writes fail."""
        store.fail_next = engine_log.STORE_ATTEMPTS - 1
        return "shipped"

    script = [calls(("lookup", '{"order_id":"1"}')), answer("Done.")]
    async with served(script, lookup, store=store) as s:
        run = await play(s, session_id="s")
        stored = await kept(s, "s")
    assert store.fail_next == 0
    assert run.outcome.kind == ANSWERED
    assert run.said == ["shipped"]
    assert [message.role for message in stored] == [
        message_pb2.ROLE_USER,
        message_pb2.ROLE_ASSISTANT,
        message_pb2.ROLE_TOOL,
        message_pb2.ROLE_ASSISTANT,
    ]


@pytest.mark.requirement("SCN-123")
async def test_a_store_that_stays_away_is_an_error_to_the_caller_and_leaves_no_half_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The end cannot be an event, since none can be stored: the stream fails, and the next start settles the run."""
    monkeypatch.setattr(engine_log, "STORE_RETRY_SECONDS", 0.001)
    store = FaultyStore()

    async def lookup(order_id: str) -> str:
        """Look up an order; nothing can be stored from now on."""
        store.fail_next = 10**6
        return "shipped"

    async with served([calls(("lookup", '{"order_id":"1"}')), answer("Done.")], lookup, store=store) as s:
        seen, task = s.follow(turn(session_id="s"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await task
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert details(caught.value)[0].reason == "STORE_UNAVAILABLE"
        assert "run_finished" not in seen.kinds(), "no end is told that is not stored"
        assert "tool_call_finished" not in seen.kinds()
    store.fail_next = 0
    async with served([answer("It may be shipped.")], lookup, store=store) as s:
        run = await s.settled(seen.run_id)
        again = await s.watch(seen.run_id)
        after = await play(s, "And now?", session_id="s")
        pairs(sent(s, 0))
        stored = await kept(s, "s")
    assert run.run.outcome.kind == ERRORED
    assert run.run.outcome.failure.reason == outcome_pb2.REASON_SERVER_RESTARTED
    assert again.finished.HasField("trace")
    assert after.outcome.kind == ANSWERED
    asked = [part.tool_call.call_id for message in stored for part in message.parts if part.HasField("tool_call")]
    given = [part.tool_result.call_id for message in stored for part in message.parts if part.HasField("tool_result")]
    assert asked == given, "no orphan, and no half group"


@pytest.mark.requirement("SCN-124")
@pytest.mark.parametrize("name", WIRES)
async def test_a_nul_in_arguments_reaches_a_tool_as_it_is_said_and_is_stored_and_sent_on(name: str) -> None:
    """Arguments are the model's: JSON may hold a NUL, and a tool that opens files refuses it, as Python's open does."""

    def cat(path: str) -> str:
        """Read a file."""
        return Path(path).read_text()

    wire = WIRES[name]
    async with over(wire, [wire.answer(("cat", '{"path":"x\\u0000"}')), wire.answer("No.")], cat) as line:
        run = await play(line.service, session_id="s")
        stored = await kept(line.service, "s")
        assert len(line.pairs(1)) == 1
    assert run.outcome.kind == ANSWERED
    assert [result.status for result in run.results] == [message_pb2.TOOL_RESULT_STATUS_ERROR]
    (call,) = [part.tool_call for message in stored for part in message.parts if part.HasField("tool_call")]
    assert json.loads(call.arguments_json) == {"path": "x\0"}
