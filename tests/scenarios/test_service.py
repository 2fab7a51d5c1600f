"""The service as its callers and operators see it: stray cancellations, sizes, memory, secrets."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from engine.faults import FaultyStore
from engine.harness import world
from execution.served import SECONDS, Served, served, turn
from rpc.server import connected, details, prompt
from scenarios.kit import ANSWERED, OK, play
from scenarios.wires import KEY, WIRES, Handler, failing, over
from tools.kit import FakeToolset

from turnwire.v1 import agent_service_pb2, session_service_pb2, turn_service_pb2
from turnwired.domain.completion import CompletionRequest
from turnwired.domain.failure import Reason
from turnwired.domain.message import Blob
from turnwired.domain.outcome import Notice, OutcomeKind
from turnwired.domain.policy import CompletionMode, CompletionPolicy, Policy, ToolPolicy
from turnwired.domain.tool import Tool
from turnwired.engine.execution import Execution
from turnwired.engine.prepare import Preparer
from turnwired.testing.provider import answer, calls
from turnwired.tools.port import ToolInvocation
from turnwired.tools.registry import Source

pytestmark = pytest.mark.anyio

OPEN_FILES = Path("/proc/self/fd")
CLIENTS_LIMIT = 4 << 20
"""What a client of gRPC takes unless it is told otherwise."""


async def never() -> None:
    """A model that says no more."""
    await asyncio.Event().wait()


@pytest.mark.requirement("SCN-144")
@pytest.mark.parametrize("unary", [False, True], ids=["stream", "unary"])
async def test_a_cancellation_that_nobody_asked_for_is_told_to_the_caller_as_a_fault(unary: bool) -> None:
    store = FaultyStore(create_fault=asyncio.CancelledError())
    async with connected([answer("Hi.")], store=store) as c:
        start = turn_service_pb2.StartTurnRequest(turn=prompt().turn)
        call = c.turns.StartTurn(start, timeout=SECONDS) if unary else c.run(prompt())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        store.create_fault = None
        frames = await c.run(prompt())
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert details(caught.value)[0].reason == "INTERNAL"
    assert frames[-1].events[-1].run_finished.outcome.kind == ANSWERED


@pytest.mark.requirement("SCN-144")
async def test_a_cancellation_that_nobody_asked_for_settles_a_run_that_is_prepared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def gives_up(*_: object, **__: object) -> None:
        raise asyncio.CancelledError

    async with served([answer("Hi."), answer("Again.")]) as s:
        with monkeypatch.context() as patched:
            patched.setattr(Preparer, "prepare", gives_up)
            request = turn_service_pb2.StartTurnRequest(turn=turn(session_id="s").turn)
            run_id = (await s.turns.StartTurn(request, timeout=SECONDS)).run_id
            run = await settled(s, run_id)
        after = await play(s, session_id="s")
    assert run.run.outcome.failure.message
    assert after.outcome.kind == ANSWERED, "the session is free"


@pytest.mark.requirement("SCN-144")
async def test_a_source_and_a_hook_that_give_up_by_themselves_end_no_run() -> None:
    class GivesUp(FakeToolset):
        async def tools(self) -> Sequence[Tool]:
            raise asyncio.CancelledError

    def hook(_: CompletionRequest) -> str | None:
        raise asyncio.CancelledError

    async def look(_: ToolInvocation) -> str:
        return "seen"

    async with served([answer("Hi.")], sources=[Source(GivesUp("m"), namespace="m")]) as s:
        run = await play(s)
    assert run.outcome.kind == ANSWERED
    assert run.reasons, "what the run goes without is told"
    policy = Policy(completion=CompletionPolicy(mode=CompletionMode.CUSTOM, custom_hook="mine"))
    script = [calls(("look", "{}")), answer(), answer("It is there.")]
    async with world(script, {"look": look}, policy=policy, hooks={"mine": hook}) as w:
        reader = await w.run()
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
    assert [notice.reason for notice in reader.of(Notice) if isinstance(notice, Notice)][:1] == [Reason.HOOK_FAILED]


async def settled(s: Served, run_id: str) -> turn_service_pb2.GetRunResponse:
    """The run, as soon as it has an outcome."""
    async with asyncio.timeout(SECONDS):
        while True:
            run = await s.turns.GetRun(turn_service_pb2.GetRunRequest(run_id=run_id), timeout=SECONDS)
            if run.run.HasField("outcome"):
                return run


@pytest.mark.requirement("SCN-145")
@pytest.mark.parametrize("allowed", [None, 8 << 20], ids=["default", "raised"])
async def test_a_result_beyond_what_a_client_takes_ends_no_stream(allowed: int | None) -> None:
    async def img() -> Blob:
        """A large image."""
        return Blob("image/png", b"x" * (6 << 20))

    policy = Policy(tool=ToolPolicy(max_result_bytes=allowed))
    async with served([calls(("img", "{}")), answer("Done.")], img, policy=policy) as s:
        run = await play(s, session_id="s")
        request = session_service_pb2.ListMessagesRequest(session_id="s")
        listed = await s.sessions.ListMessages(request, timeout=SECONDS)
    assert run.outcome.kind == ANSWERED
    assert run.results[0].status == OK
    assert listed.ByteSize() < CLIENTS_LIMIT
    assert max(event.ByteSize() for event in run.seen.events) < CLIENTS_LIMIT


@pytest.mark.requirement("SCN-145")
async def test_a_session_larger_than_a_message_is_listed_in_pages_that_every_client_takes() -> None:
    async with served([answer("Yes.")]) as s:
        s.provider.repeat_last = True
        for number in range(6):
            await s.run(f"{number}" * (900 << 10), session_id="s")
        seen, token = 0, ""
        while True:
            request = session_service_pb2.ListMessagesRequest(session_id="s", page_token=token)
            page = await s.sessions.ListMessages(request, timeout=SECONDS)
            assert page.ByteSize() < CLIENTS_LIMIT
            assert page.messages
            seen, token = seen + len(page.messages), page.next_page_token
            if not token:
                break
    assert seen == 12


@pytest.mark.requirement("SCN-145")
async def test_agents_with_long_instructions_are_listed_in_pages_that_every_client_takes() -> None:
    async with served([answer("Yes.")]) as s:
        for number in range(7):
            agent = agent_service_pb2.Agent(agent_id=f"a{number}", instructions=["x" * (900 << 10)])
            await s.agents.PutAgent(agent_service_pb2.PutAgentRequest(agent=agent), timeout=SECONDS)
        seen: list[str] = []
        token = ""
        while True:
            page = await s.agents.ListAgents(agent_service_pb2.ListAgentsRequest(page_token=token), timeout=SECONDS)
            assert page.ByteSize() < CLIENTS_LIMIT
            seen, token = [*seen, *(agent.agent_id for agent in page.agents)], page.next_page_token
            if not token:
                break
    assert seen == [*(f"a{number}" for number in range(7)), "default"]


def alive() -> list[int]:
    """How many tasks there are, and how many files are open."""
    return [len(asyncio.all_tasks()), len(list(OPEN_FILES.iterdir())) if OPEN_FILES.exists() else 0]


@pytest.mark.requirement("SCN-147")
async def test_a_settled_run_leaves_nothing_behind_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[Execution]] = []

    def executed(*parts: Any) -> Execution:
        execution = Execution(*parts)
        made.append(weakref.ref(execution))
        return execution

    monkeypatch.setattr("turnwired.engine.service.Execution", executed)

    async def dump() -> str:
        """Much."""
        return "x" * 64_000

    async def hang() -> str:
        """Never end."""
        await never()
        return ""

    async def whole(s: Served) -> None:
        await s.run()

    async def cancelled(s: Served) -> None:
        seen, task = s.follow(turn("hang"))
        await seen.until("tool_call_executing")
        await s.cancel(seen.run_id)
        await task

    async def left(s: Served) -> None:
        seen, task = s.follow(turn("hang"))
        await seen.until("tool_call_executing")
        task.cancel()
        await asyncio.wait([task])
        await s.settled(seen.run_id)

    rounds: list[Callable[[Served], Awaitable[None]]] = [whole, cancelled, left, whole]
    script = [part for act in rounds for part in ([calls(("dump", "{}")), answer("Done.")] if act is whole else HANG)]
    async with served(script * 4, dump, hang) as s:
        for act in rounds:
            await act(s)
        before = alive()
        for act in rounds * 3:
            await act(s)
        async with asyncio.timeout(SECONDS):
            while any(now > then for now, then in zip(alive(), before, strict=True)):  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0)
        gc.collect()
        assert len(made) == 16
        assert [run() for run in made if run() is not None] == []


SECRETS = ["sk-KEY1aaaabbbbccccdddd", "KEY2aaaabbbbccccdddd", "KEY5aaaabbbbccccdddd", KEY]


@pytest.mark.requirement("SCN-153")
@pytest.mark.parametrize("name", WIRES)
async def test_no_credential_of_anybody_is_in_events_or_logs(name: str, caplog: pytest.LogCaptureFixture) -> None:
    async def http_fetch(url: str) -> str:
        """Fetch, and fail in words that hold what was sent."""
        raise ConnectionError(f"GET {url} failed; sent Authorization: Bearer {SECRETS[2]} and api_key={SECRETS[2]}")

    caplog.set_level(logging.DEBUG)
    wire = WIRES[name]
    error = {"error": {"type": "authentication_error", "message": f"bad key {SECRETS[0]} in header {KEY}"}}
    rejected = failing(401, error)
    bodies: list[bytes | Handler] = [
        wire.answer(("http_fetch", '{"url":"https://a.example/"}')),
        wire.answer("Done."),
        rejected,
        rejected,
    ]
    async with over(wire, bodies, http_fetch) as line:
        turns = line.service.turns
        metadata = (("authorization", f"Bearer {SECRETS[1]}"),)
        events: list[str] = []
        for _ in range(2):
            stream = turns.RunTurn(turn(), timeout=SECONDS, metadata=metadata)
            events += [str(event) async for frame in stream for event in frame.events]
    assert "REASON_TOOL_FAILED" in "".join(events)
    assert "REASON_PROVIDER_AUTH_FAILED" in events[-1]
    for secret in SECRETS:
        assert not [event for event in events if secret in event]
        assert secret not in caplog.text
    assert SECRETS[2].encode() not in line.calls[1].body, "the model is not told either"


HANG = [calls(("hang", "{}"))]
