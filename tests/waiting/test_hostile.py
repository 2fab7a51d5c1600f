"""Answers and listings that nobody sends by mistake: comments, page tokens and pages of any size."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import grpc
import pytest
from execution.served import SECONDS, served, turn, words
from waiting.kit import REJECT, asking, reason

from turnwire.v1 import session_service_pb2, turn_service_pb2
from turnwired.rpc import paging
from turnwired.store.sqlite import SqliteStore
from turnwired.testing.provider import answer, calls

pytestmark = pytest.mark.anyio


def note(text: str) -> str:
    """Write something down."""
    return text


RUNS = 6
LONG = json.dumps({"text": "x" * 1_500_000})


@pytest.mark.requirement("APPROVE-58")
async def test_questions_about_large_calls_are_listed_in_pages_that_clients_take() -> None:
    async with served([calls(("note", LONG))] * 3, note, policy=asking("note")) as s:
        asked: list[str] = []
        for _ in range(3):
            seen, _task = s.follow(turn("Hello"))
            await seen.until("run_waiting")
            asked += [approval.approval_id for approval in seen.asked]
        found: list[str] = []
        token = ""
        for _ in range(3):
            request = turn_service_pb2.ListApprovalsRequest(page_token=token)
            page = await s.turns.ListApprovals(request, timeout=SECONDS)
            found += [approval.approval_id for approval in page.approvals]
            token = page.next_page_token
            if not token:
                break
    assert sorted(found) == sorted(asked)
    assert token == ""


@pytest.mark.requirement("APPROVE-58")
async def test_runs_are_listed_in_pages_that_clients_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "PAGE_BYTES", 600)  # as if each of them waited for very much
    found: list[str] = []
    sizes: list[int] = []
    async with served([answer("Yes.")] * RUNS) as s:
        for _ in range(RUNS):
            await s.run()
        token = ""
        for _ in range(RUNS):
            request = turn_service_pb2.ListRunsRequest(page_size=500, page_token=token)
            page = await s.turns.ListRuns(request, timeout=SECONDS)
            found += [run.run_id for run in page.runs]
            sizes.append(page.ByteSize())
            token = page.next_page_token
            if not token:
                break
    assert len(found) == len(set(found)) == RUNS
    assert max(sizes) < 800


@pytest.mark.requirement("APPROVE-58")
@pytest.mark.parametrize("time", [2**63, 10**19 - 1])
async def test_a_token_with_a_number_that_no_database_holds_is_refused_as_a_token(tmp_path: Path, time: int) -> None:
    token = base64.urlsafe_b64encode(f"{time}:run_1/approval_1".encode()).decode().rstrip("=")
    async with served([answer("Yes.")], store=SqliteStore(tmp_path / "turnwire.db")) as s:
        await s.run(session_id="s")
        for listing in (
            s.turns.ListApprovals(turn_service_pb2.ListApprovalsRequest(page_token=token), timeout=SECONDS),
            s.turns.ListRuns(turn_service_pb2.ListRunsRequest(page_token=token), timeout=SECONDS),
            s.sessions.ListSessions(session_service_pb2.ListSessionsRequest(page_token=token), timeout=SECONDS),
            s.sessions.ListMessages(
                session_service_pb2.ListMessagesRequest(session_id="s", page_token=token), timeout=SECONDS
            ),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await listing
            assert reason(refused.value) == (grpc.StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID")


@pytest.mark.requirement("APPROVE-59")
async def test_a_comment_reaches_the_model_without_nul() -> None:
    async with served([calls(("note", '{"text":"x"}')), answer("Well.")], note, policy=asking("note")) as s:
        seen, task = s.follow(turn("Hello"))
        await seen.until("run_waiting")
        await s.resolve(seen.asked[0], REJECT, comment="no\0pe")
        await task
        told = b"".join(s.provider.requests[-1].messages).decode()
    assert "The user says: no\ufffdpe" in words(seen.results[0])
    assert "\\u0000" not in told
