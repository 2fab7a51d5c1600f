"""Sessions and agents in every store, by the same contract."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine
from store.builders import message, new_run, row, settlement

import turnwired.store as store_package
from turnwired.domain.errors import Conflict, InvalidRequest
from turnwired.domain.failure import Reason
from turnwired.domain.run import RunState
from turnwired.store.port import SessionFilter, Store, StoredAgent
from turnwired.store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio


async def turn(store: Store, run_id: str, session_id: str, time_ns: int, *, end: bool = True, **fields: object) -> None:
    """A run of a session from ``time_ns``, which ends one later."""
    new = new_run(run_id, session_id=session_id, time_ns=time_ns, input_=(message(f"in_{run_id}"),), **fields)  # type: ignore[arg-type]
    await store.create_run(new)
    if end:
        await store.append(row(run_id, 1), settlement(message(f"out_{run_id}"), time_ns=time_ns + 1))


async def ids(store: Store, query: SessionFilter, size: int = 10) -> list[str]:
    """The ids of all pages."""
    found: list[str] = []
    token = ""
    while True:
        page, token = await store.list_sessions(query, size, token)
        assert len(page) <= size
        found += [session.session_id for session in page]
        if not token:
            return found


@pytest.mark.requirement("TOOLX-20")
async def test_a_session_says_what_its_runs_and_messages_are(store: Store) -> None:
    await turn(store, "r1", "s", 10, labels={"a": "1"}, agent_id="first")
    await turn(store, "r2", "s", 20, labels={"a": "2"}, agent_id="second", end=False)
    session = await store.get_session("default", "s")
    assert session is not None
    assert (session.create_time_ns, session.update_time_ns) == (10, 20)
    assert (session.message_count, session.first_message) == (3, b"text")
    assert session.newest is not None
    assert (session.newest.run_id, session.newest.state) == ("r2", RunState.RUNNING)
    assert session.labels == {"a": "1"}
    assert session.summaries == (b"summary",)
    await store.append(row("r2", 1), settlement(time_ns=33))
    changed = await store.get_session("default", "s")
    assert changed is not None
    assert (changed.update_time_ns, changed.summaries) == (33, (b"summary", b"summary"))
    assert await store.get_session("other", "s") is None
    assert await store.get_session("default", "t") is None


@pytest.mark.requirement("TOOLX-20")
@pytest.mark.parametrize("size", [1, 2, 10])
async def test_sessions_are_listed_by_their_newest_change_in_pages_and_filtered(store: Store, size: int) -> None:
    for number, name in enumerate(["a", "b", "c", "d"]):
        await turn(store, f"r_{name}", name, 10 * number, labels={"kind": "odd" if number % 2 else "even"})
    await turn(store, "r_a2", "a", 100, agent_id="other", labels={"kind": "odd"})
    await turn(store, "r_x", "x", 500, tenant="elsewhere")
    assert await ids(store, SessionFilter("default"), size) == ["a", "d", "c", "b"]
    assert await ids(store, SessionFilter("default", agent_id="agent"), size) == ["d", "c", "b"]
    assert await ids(store, SessionFilter("default", labels={"kind": "even"}), size) == ["a", "c"]
    assert await ids(store, SessionFilter("default", "other", {"kind": "odd"}), size) == []
    with pytest.raises(InvalidRequest) as refused:
        await store.list_sessions(SessionFilter("default"), size, "no token")
    assert refused.value.reason is Reason.PAGE_TOKEN_INVALID


@pytest.mark.requirement("TOOLX-21")
async def test_messages_come_in_pages_oldest_first(store: Store) -> None:
    for number in range(3):
        await turn(store, f"r{number}", "s", number)
    found: list[str] = []
    token = ""
    pages = 0
    while pages == 0 or token:
        page, token = await store.list_messages("default", "s", 4, token)
        found += [item.message_id for item in page]
        pages += 1
    assert found == [item.message_id for item in await store.load_messages("default", "s")]
    assert (len(found), pages) == (6, 2)
    assert await store.list_messages("default", "nobody", 4, "") == ([], "")
    with pytest.raises(InvalidRequest):
        await store.list_messages("default", "s", 4, "?")


@pytest.mark.requirement("TOOLX-21")
async def test_a_session_is_deleted_whole_and_alone(store: Store) -> None:
    await turn(store, "r1", "s", 1, request_id="q", digest=b"d", labels={"a": "b"})
    await turn(store, "r2", "t", 2, request_id="p", digest=b"d")
    await store.delete_session("other", "s")
    assert await store.session_exists("default", "s")
    await store.delete_session("default", "s")
    await store.delete_session("default", "s")
    assert not await store.session_exists("default", "s")
    assert await store.load_messages("default", "s") == []
    assert await store.get_run("default", "r1") is None
    assert await store.read_rows("r1", 0, 1000) == []
    assert await store.get_run("default", "r2") is not None
    assert len(await store.load_messages("default", "t")) == 2
    await turn(store, "r3", "s", 3, request_id="q", digest=b"another")  # the key is free again
    assert len(await store.load_messages("default", "s")) == 2


@pytest.mark.requirement("TOOLX-21")
async def test_a_session_with_an_active_run_is_not_deleted(store: Store) -> None:
    await turn(store, "r1", "s", 1, end=False)
    with pytest.raises(Conflict) as busy:
        await store.delete_session("default", "s")
    assert (busy.value.reason, busy.value.metadata["active_run_id"]) == (Reason.SESSION_BUSY, "r1")
    assert await store.session_exists("default", "s")


@pytest.mark.requirement("TOOLX-31")
async def test_the_end_of_a_run_is_kept_for_each_hook_until_it_was_told(store: Store) -> None:
    for number, name in enumerate(["r1", "r2"]):
        await store.create_run(new_run(name, session_id=name))
        await store.append(row(name, 1), settlement(time_ns=number, hooks=("a", "b")))
    assert await store.pending_deliveries("a", 10) == [("default", "r1"), ("default", "r2")]
    assert await store.pending_deliveries("a", 1) == [("default", "r1")]
    await store.delivered("a", "r1")
    await store.delivered("a", "r1")
    assert await store.pending_deliveries("a", 10) == [("default", "r2")]
    assert len(await store.pending_deliveries("b", 10)) == 2
    assert await store.pending_deliveries("c", 10) == []
    await store.delete_session("default", "r2")
    assert await store.pending_deliveries("a", 10) == []


@pytest.mark.requirement("TOOLX-22")
async def test_every_revision_of_an_agent_is_kept_and_stored_once(store: Store) -> None:
    first, second = (StoredAgent("default", "a", number, f"body {number}".encode()) for number in (1, 2))
    assert await store.put_agent(first)
    assert not await store.put_agent(StoredAgent("default", "a", 1, b"somebody else's"))
    assert await store.put_agent(second)
    assert await store.put_agent(StoredAgent("other", "a", 1, b"elsewhere"))
    assert await store.get_agent("default", "a") == second
    assert await store.get_agent("default", "a", 1) == first
    assert await store.get_agent("default", "a", 3) is None
    assert await store.get_agent("default", "b") is None
    assert await store.newest_agents() == [second, StoredAgent("other", "a", 1, b"elsewhere")]


@pytest.mark.requirement("TOOLX-22")
async def test_of_many_that_store_the_same_revision_one_succeeds(store: Store) -> None:
    puts = [store.put_agent(StoredAgent("default", "a", 1, bytes([number]))) for number in range(20)]
    stored = await asyncio.gather(*puts)
    assert stored.count(True) == 1
    kept = await store.get_agent("default", "a")
    assert kept is not None
    assert kept.body == bytes([stored.index(True)])


@pytest.mark.requirement("TOOLX-20")
async def test_sessions_of_an_earlier_release_get_their_time_of_change(tmp_path: Path) -> None:
    path = tmp_path / "turnwire.db"
    config = Config()
    config.set_main_option("script_location", str(Path(store_package.__file__).parent / "migrations"))
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        connection.exec_driver_sql("INSERT INTO sessions VALUES ('default', 's', 10), ('default', 'empty', 5)")
        run = "INSERT INTO runs VALUES (?, 'default', 'agent', 'SETTLED', 1, ?, ?, 's', NULL, '{}', x'', x'')"
        connection.exec_driver_sql(run, [("r1", 10, 11), ("r2", 20, 23)])
    engine.dispose()
    store = SqliteStore(path)
    await store.start()
    sessions, _ = await store.list_sessions(SessionFilter("default"), 10, "")
    await store.aclose()
    assert [(session.session_id, session.update_time_ns) for session in sessions] == [("s", 23), ("empty", 5)]
