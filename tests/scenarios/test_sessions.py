"""Sessions after everything that can end a run, and turns that come at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import grpc
import pytest
from execution.served import SECONDS, served, turn
from rpc.server import details
from scenarios.kit import ABORTED, ANSWERED, ERRORED, PROVIDER_EOF, kept, play, sent, told
from scenarios.wires import WIRES, over

from turnwire.v1 import message_pb2, session_service_pb2, turn_service_pb2
from turnwired.domain.failure import Reason
from turnwired.domain.generation import TextChunk
from turnwired.testing.provider import Step, answer, fails, usage

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
    async with served([[gate.wait, *answer("One.")], answer("After.")]) as s:

        async def ask(text: str) -> str | grpc.aio.AioRpcError:
            try:
                if started:
                    request = turn_service_pb2.StartTurnRequest(turn=turn(text, session_id="s").turn)
                    run_id = (await s.turns.StartTurn(request, timeout=SECONDS)).run_id
                    await s.watch(run_id)
                else:
                    run_id = (await s.run(text, session_id="s")).run_id
            except grpc.aio.AioRpcError as error:
                gate.set()
                return error
            return run_id

        both = await asyncio.gather(ask("A"), ask("B"))
        (run_id,) = [item for item in both if isinstance(item, str)]
        (error,) = [item for item in both if not isinstance(item, str)]
        stored = await kept(s, "s")
        after = await play(s, "C", session_id="s")
    info, _ = details(error)
    assert (info.reason, info.metadata["active_run_id"]) == ("SESSION_BUSY", run_id)
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert len(stored) == 2
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
