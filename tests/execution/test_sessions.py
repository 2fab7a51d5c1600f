"""SessionService over the API."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path

import grpc
import pytest
from execution.served import SECONDS, served, turn
from rpc.server import details

from turnwire.v1 import message_pb2, outcome_pb2, run_pb2, session_service_pb2, turn_service_pb2
from turnwired.store.sqlite import SqliteStore
from turnwired.testing.provider import answer, calls

pytestmark = pytest.mark.anyio


async def look(name: str) -> str:
    """Look."""
    return f"saw {name}"


async def refused(call: Awaitable[object]) -> tuple[grpc.StatusCode, str]:
    """Code and reason of an error."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), details(caught.value)[0].reason


def labelled(text: str, session_id: str, **labels: str) -> turn_service_pb2.RunTurnRequest:
    """A turn of a session with labels."""
    request = turn(text, session_id=session_id)
    request.turn.labels.update(labels)
    return request


@pytest.mark.requirement("TOOLX-23")
async def test_a_session_tells_what_happened_in_it_and_what_is_going_on() -> None:
    gate = asyncio.Event()
    script = [answer("One."), answer("Two."), [gate.wait, *answer("Three.")]]
    async with served(script) as s:
        for number in range(2):
            await s.follow(labelled("  Please\n tell me " + "a lot " * 30, "s", nth=str(number)))[1]
        seen, task = s.follow(turn("More", session_id="s"))
        await seen.until("iteration_started")
        request = session_service_pb2.GetSessionRequest(session_id="s")
        session = (await s.sessions.GetSession(request, timeout=SECONDS)).session
        gate.set()
        await task
        after = (await s.sessions.GetSession(request, timeout=SECONDS)).session
        runs = await s.turns.ListRuns(turn_service_pb2.ListRunsRequest(session_id="s"), timeout=SECONDS)
    assert session.title.startswith("Please tell me a lot a lot")
    assert len(session.title) == 80
    assert session.agent_id == "default"
    assert dict(session.labels) == {"nth": "0"}
    assert session.active_run.run_id == seen.run_id
    assert session.active_run.state == run_pb2.RUN_STATE_RUNNING
    assert session.message_count == 5
    assert (session.usage.input_tokens, session.usage.output_tokens) == (200, 40)
    assert not after.HasField("active_run")
    assert (after.usage.input_tokens, after.message_count) == (300, 6)
    assert (
        after.update_time.ToNanoseconds() >= session.update_time.ToNanoseconds() > session.create_time.ToNanoseconds()
    )
    assert sum(run.usage.input_tokens for run in runs.runs) == 300, "each turn has its own usage beside the sum"


@pytest.mark.requirement("TOOLX-23")
async def test_sessions_are_listed_newest_change_first_in_pages_and_by_label() -> None:
    async with served([answer("Yes.")]) as s:
        s.provider.repeat_last = True
        for name in ("a", "b", "c", "a"):
            await s.follow(labelled("Hi", name, kind=name))[1]
        found: list[str] = []
        token = ""
        while True:
            request = session_service_pb2.ListSessionsRequest(page_size=2, page_token=token)
            page = await s.sessions.ListSessions(request, timeout=SECONDS)
            found += [session.session_id for session in page.sessions]
            token = page.next_page_token
            if not token:
                break
        by_label = session_service_pb2.ListSessionsRequest(labels={"kind": "b"}, agent_id="default")
        filtered = await s.sessions.ListSessions(by_label, timeout=SECONDS)
        none = await s.sessions.ListSessions(session_service_pb2.ListSessionsRequest(agent_id="x"), timeout=SECONDS)
        bad = session_service_pb2.ListSessionsRequest(page_token="?!")
        error = await refused(s.sessions.ListSessions(bad, timeout=SECONDS))
        negative = await refused(
            s.sessions.ListSessions(session_service_pb2.ListSessionsRequest(page_size=-1), timeout=SECONDS)
        )
    assert found == ["a", "c", "b"]
    assert [session.session_id for session in filtered.sessions] == ["b"]
    assert not none.sessions
    assert error == (grpc.StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID")
    assert negative[0] is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.requirement("TOOLX-24")
async def test_messages_are_listed_in_pages_with_calls_and_results_in_order() -> None:
    script = [calls(("look", '{"name":"x"}')), answer("Done.")]
    async with served(script, look) as s:
        await s.run("Look", session_id="s")
        found: list[message_pb2.Message] = []
        token = ""
        while not found or token:
            request = session_service_pb2.ListMessagesRequest(session_id="s", page_size=3, page_token=token)
            page = await s.sessions.ListMessages(request, timeout=SECONDS)
            found += page.messages
            token = page.next_page_token
        missing = session_service_pb2.ListMessagesRequest(session_id="nobody")
        error = await refused(s.sessions.ListMessages(missing, timeout=SECONDS))
    assert [message.role for message in found] == [
        message_pb2.ROLE_USER,
        message_pb2.ROLE_ASSISTANT,
        message_pb2.ROLE_TOOL,
        message_pb2.ROLE_ASSISTANT,
    ]
    assert found[1].parts[0].tool_call.call_id == found[2].parts[0].tool_result.call_id
    assert len({message.message_id for message in found}) == 4
    assert error == (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")


@pytest.mark.requirement("TOOLX-25")
async def test_a_deleted_session_is_gone_with_its_runs_and_starts_anew() -> None:
    async with served([answer("One."), answer("Two.")]) as s:
        seen = await s.run("First", session_id="s")
        request = session_service_pb2.DeleteSessionRequest(session_id="s")
        for _ in range(2):  # deleting what is not there succeeds
            await s.sessions.DeleteSession(request, timeout=SECONDS)
        session = await refused(
            s.sessions.GetSession(session_service_pb2.GetSessionRequest(session_id="s"), timeout=SECONDS)
        )
        run = await refused(s.turns.GetRun(turn_service_pb2.GetRunRequest(run_id=seen.run_id), timeout=SECONDS))
        bad = await refused(
            s.sessions.DeleteSession(session_service_pb2.DeleteSessionRequest(session_id="a b"), timeout=SECONDS)
        )
        await s.run("Second", session_id="s")
        sent = s.provider.messages(1)
    assert session == (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")
    assert run == (grpc.StatusCode.NOT_FOUND, "RUN_NOT_FOUND")
    assert bad[0] is grpc.StatusCode.INVALID_ARGUMENT
    assert [message["parts"] for message in sent if message["role"] == "USER"] == [["Second"]]


@pytest.mark.requirement("TOOLX-25")
async def test_a_busy_session_is_deleted_by_force_alone_which_ends_its_run_first(tmp_path: Path) -> None:
    never = asyncio.Event()
    async with served([[never.wait]], store=SqliteStore(tmp_path / "turnwire.db")) as s:
        seen, task = s.follow(turn(session_id="s"))
        await seen.until("iteration_started")
        busy = await refused(
            s.sessions.DeleteSession(session_service_pb2.DeleteSessionRequest(session_id="s"), timeout=SECONDS)
        )
        forced = session_service_pb2.DeleteSessionRequest(session_id="s", force=True)
        await s.sessions.DeleteSession(forced, timeout=SECONDS)
        await task
        gone = await refused(
            s.sessions.GetSession(session_service_pb2.GetSessionRequest(session_id="s"), timeout=SECONDS)
        )
    assert busy == (grpc.StatusCode.FAILED_PRECONDITION, "SESSION_BUSY")
    assert seen.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ABORTED
    assert gone == (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")
