"""The store in memory and the one in SQLite, driven by the same requests, give the same answers."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store.builders import changes, message, new_run, settlement

from turnwired.domain.approval import ApprovalState
from turnwired.domain.errors import RequestError, StoreError
from turnwired.store.memory import MemoryStore
from turnwired.store.port import ApprovalFilter, LogRow, RunFilter, SessionFilter, Store, StoredAgent
from turnwired.store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio

Request = Callable[[Store], Awaitable[object]]

_runs = st.sampled_from(["run_1", "run_2", "run_3"])
_sessions = st.sampled_from([None, "s", "t"])
_small = st.integers(1, 4)


@st.composite
def _create(draw: st.DrawFn) -> Request:
    new = new_run(
        draw(_runs),
        session_id=draw(_sessions),
        tenant=draw(st.sampled_from(["default", "other"])),
        request_id=draw(st.sampled_from(["", "", "q"])),
        digest=draw(st.sampled_from([b"d", b"e"])),
        time_ns=draw(_small),
        input_=(message("in"),),
    )
    return lambda store: store.create_run(new)


@st.composite
def _append(draw: st.DrawFn) -> Request:
    row_no = draw(_small)
    first = draw(st.sampled_from([row_no * 2 - 1, row_no * 2 - 1, row_no * 2 - 1, row_no]))
    body = draw(st.sampled_from([b"row", b"row", b"row", b"other"]))
    row = LogRow(draw(_runs), row_no, draw(st.integers(1, 3)), first, row_no * 2, body)
    end = draw(st.sampled_from([None, None, settlement(message("out"), hooks=("hook",))]))
    return lambda store: store.append(row, end)


@st.composite
def _next_row(draw: st.DrawFn) -> Request:
    """The row that follows, from the owner, so that logs grow."""
    run_id, end = draw(_runs), draw(st.sampled_from([None, None, None, settlement(message("out"), hooks=("hook",))]))
    made = draw(st.sampled_from(["", "", "waits", "asks", "answers", "always"]))

    async def append(store: Store) -> None:
        for tenant in ("default", "other"):
            run = await store.get_run(tenant, run_id)
            if run is not None:
                last, row_no = run.last_sequence, run.last_row_no + 1
                changed = changes(run, made) if made else None
                await store.append(LogRow(run_id, row_no, run.epoch, last + 1, row_no * 2, b"row"), end, changed)

    return append


@st.composite
def _read(draw: st.DrawFn) -> Request:
    run_id, number, session_id = draw(_runs), draw(st.integers(0, 9)), draw(st.sampled_from(["s", "t"]))
    reads: list[Request] = [
        lambda store: store.read_rows(run_id, number, 5),
        lambda store: store.first_sequence_after_epoch(run_id, number),
        lambda store: store.get_run("default", run_id),
        lambda store: store.load_messages("default", session_id),
        lambda store: store.session_exists("default", session_id),
        lambda store: store.list_runs(RunFilter("default", session_id=session_id), number + 1, ""),
        lambda store: store.take_over_unfinished(),
        lambda store: store.take_over(run_id),
        lambda store: store.get_session("default", session_id),
        lambda store: store.list_sessions(SessionFilter("default", agent_id="agent"), number + 1, ""),
        lambda store: store.list_messages("default", session_id, number + 1, ""),
        lambda store: store.delete_session("default", session_id),
        lambda store: store.put_agent(StoredAgent("default", session_id, number, b"body")),
        lambda store: store.get_agent("default", session_id, number or None),
        lambda store: store.newest_agents(),
        lambda store: store.pending_deliveries("hook", number + 1),
        lambda store: store.delivered("hook", run_id),
        lambda store: store.get_approval("default", run_id, "a1"),
        lambda store: store.list_approvals(ApprovalFilter("default", session_id=session_id), number + 1, ""),
        lambda store: store.list_approvals(ApprovalFilter("default", states=(ApprovalState.PENDING,)), number + 1, ""),
        lambda store: store.session_rules("default", session_id),
    ]
    return draw(st.sampled_from(reads))


async def _answer(request: Request, store: Store) -> object:
    try:
        return await request(store)
    except RequestError as error:
        return type(error), error.reason, error.metadata
    except StoreError as error:
        return type(error), str(error) if "contradicts" not in str(error) else ""


@pytest.mark.requirement("STORE-11")
@pytest.mark.slow
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(requests=st.lists(st.one_of(_create(), _append(), _next_row(), _next_row(), _read()), max_size=40))
async def test_any_requests_get_the_same_answers_from_every_store(requests: list[Request]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        memory, sqlite = MemoryStore(), SqliteStore(Path(directory) / "turnwire.db")
        for store in (memory, sqlite):
            await store.start()
        try:
            for request in requests:
                expected = await _answer(request, memory)
                found = await _answer(request, sqlite)
                if isinstance(found, tuple) and found[-1] == "":  # the same refusal in the database's words
                    expected = (expected[0], "") if isinstance(expected, tuple) else expected
                assert found == expected
        finally:
            await sqlite.aclose()
