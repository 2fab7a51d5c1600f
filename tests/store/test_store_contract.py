"""What every store does. A new store adds itself to ``conftest.STORES`` and passes this file unchanged."""

from __future__ import annotations

import asyncio

import pytest
from store.builders import make_run, message, new_run, row, settlement

from turnwired.domain.errors import Conflict, Fenced, InvalidRequest, StoreError, StoreUnavailable
from turnwired.domain.failure import Reason
from turnwired.domain.run import RunState
from turnwired.store.port import LogRow, RunFilter, Store

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("STORE-1")
async def test_a_created_run_reads_back_as_it_was_asked_for(store: Store) -> None:
    new = new_run("run_1", session_id="s", time_ns=5, labels={"team": "a"}, agent_id="helper", parent_run_id="run_0")
    created = await store.create_run(new)
    assert not created.existing
    run = created.run
    assert (run.run_id, run.tenant, run.agent_id, run.session_id) == ("run_1", "default", "helper", "s")
    assert (run.state, run.epoch, run.last_row_no, run.last_sequence) == (RunState.RUNNING, 1, 0, 0)
    assert (run.create_time_ns, run.settle_time_ns, run.parent_run_id) == (5, 0, "run_0")
    assert (run.labels, run.spec, run.summary) == ({"team": "a"}, b"spec of run_1", b"")
    assert await store.get_run("default", "run_1") == run


@pytest.mark.requirement("STORE-1")
async def test_a_session_is_made_with_its_first_run_and_holds_the_input_at_once(store: Store) -> None:
    assert not await store.session_exists("default", "s")
    assert await store.load_messages("default", "s") == []
    first, second = message("m1", b"one", run_id="run_1"), message("m2", b"two", run_id="run_1")
    await store.create_run(new_run("run_1", session_id="s", input_=(first, second)))
    assert await store.session_exists("default", "s")
    assert await store.load_messages("default", "s") == [first, second]


@pytest.mark.requirement("STORE-1")
async def test_a_run_of_no_session_stores_no_messages(store: Store) -> None:
    await store.create_run(new_run("run_1", input_=(message("m1"),)))
    await store.append(row("run_1", 1), settlement(message("m2")))
    run = await store.get_run("default", "run_1")
    assert run is not None
    assert run.state is RunState.SETTLED
    assert run.session_id is None


@pytest.mark.requirement("STORE-1")
async def test_a_run_id_that_exists_is_refused(store: Store) -> None:
    await store.create_run(new_run("run_1"))
    with pytest.raises(StoreError) as raised:
        await store.create_run(new_run("run_1", session_id="s"))
    assert not isinstance(raised.value, StoreUnavailable)
    assert not await store.session_exists("default", "s")


@pytest.mark.requirement("STORE-2")
async def test_a_repeated_request_id_gives_the_run_it_made_even_when_that_has_settled(store: Store) -> None:
    first = await store.create_run(new_run("run_1", session_id="s", request_id="q", digest=b"d"))
    again = await store.create_run(new_run("run_2", session_id="s", request_id="q", digest=b"d"))
    assert again.existing
    assert again.run == first.run
    await store.append(row("run_1", 1), settlement())
    late = await store.create_run(new_run("run_3", session_id="s", request_id="q", digest=b"d"))
    assert late.existing
    assert (late.run.run_id, late.run.state) == ("run_1", RunState.SETTLED)
    assert await store.get_run("default", "run_2") is None
    assert await store.get_run("default", "run_3") is None


@pytest.mark.requirement("STORE-2")
async def test_a_request_id_with_another_content_is_a_conflict_that_names_the_run(store: Store) -> None:
    await store.create_run(new_run("run_1", request_id="q", digest=b"d"))
    with pytest.raises(Conflict) as raised:
        await store.create_run(new_run("run_2", request_id="q", digest=b"other"))
    assert raised.value.reason is Reason.REQUEST_ID_REUSED
    assert raised.value.metadata["run_id"] == "run_1"


@pytest.mark.requirement("STORE-2")
async def test_runs_without_a_request_id_are_never_repeats(store: Store) -> None:
    first = await store.create_run(new_run("run_1", digest=b"d"))
    second = await store.create_run(new_run("run_2", digest=b"d"))
    assert not first.existing
    assert not second.existing


@pytest.mark.requirement("STORE-2")
async def test_of_many_same_requests_at_once_one_makes_the_run(store: Store) -> None:
    news = [new_run(f"run_{n}", session_id="s", request_id="q", digest=b"d") for n in range(20)]
    created = await asyncio.gather(*(store.create_run(new) for new in news))
    assert [outcome.existing for outcome in created].count(False) == 1
    assert len({outcome.run.run_id for outcome in created}) == 1


@pytest.mark.requirement("STORE-3")
async def test_a_busy_session_refuses_a_run_and_names_the_active_one(store: Store) -> None:
    await store.create_run(new_run("run_1", session_id="s", input_=(message("m1"),)))
    with pytest.raises(Conflict) as raised:
        await store.create_run(new_run("run_2", session_id="s", request_id="q", input_=(message("m2"),)))
    assert raised.value.reason is Reason.SESSION_BUSY
    assert raised.value.metadata["active_run_id"] == "run_1"
    assert await store.load_messages("default", "s") == [message("m1")]
    # The refused request left no key behind: it can be sent again.
    await store.append(row("run_1", 1), settlement())
    assert not (await store.create_run(new_run("run_2", session_id="s", request_id="q"))).existing


@pytest.mark.requirement("STORE-3")
async def test_of_many_runs_at_once_one_gets_the_session(store: Store) -> None:
    news = [new_run(f"run_{n}", session_id="s", input_=(message(f"m{n}"),)) for n in range(20)]
    outcomes = await asyncio.gather(*(store.create_run(new) for new in news), return_exceptions=True)
    busy = [outcome for outcome in outcomes if isinstance(outcome, Conflict)]
    assert len(busy) == 19
    (winner,) = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    assert {conflict.metadata["active_run_id"] for conflict in busy} == {winner.run.run_id}
    assert len(await store.load_messages("default", "s")) == 1


@pytest.mark.requirement("STORE-4")
async def test_rows_are_appended_in_order_and_seen_in_the_run(store: Store) -> None:
    await make_run(store, "run_1", rows=3)
    run = await store.get_run("default", "run_1")
    assert run is not None
    assert (run.last_row_no, run.last_sequence, run.state) == (3, 6, RunState.RUNNING)
    assert await store.read_rows("run_1", 0, 1000) == [row("run_1", n) for n in (1, 2, 3)]


@pytest.mark.requirement("STORE-4")
async def test_the_same_row_again_is_acknowledged_and_stored_once(store: Store) -> None:
    await make_run(store, "run_1", rows=3)
    await store.append(row("run_1", 2))
    await store.append(row("run_1", 3))
    assert len(await store.read_rows("run_1", 0, 1000)) == 3


@pytest.mark.requirement("STORE-4")
@pytest.mark.parametrize(
    "other",
    [
        row("run_1", 2, body=b"other"),
        row("run_1", 2, epoch=2),
        LogRow("run_1", 2, 1, 3, 5, b"row 2", b"facts"),
        LogRow("run_1", 2, 1, 3, 4, b"row 2", b"other"),
    ],
    ids=["body", "epoch", "sequences", "facts"],
)
async def test_another_row_of_a_number_that_exists_is_fenced(store: Store, other: LogRow) -> None:
    await make_run(store, "run_1", rows=2)
    with pytest.raises(Fenced):
        await store.append(other)
    assert await store.read_rows("run_1", 2, 1000) == [row("run_1", 2)]


@pytest.mark.requirement("STORE-4")
@pytest.mark.parametrize(
    "wrong",
    [
        row("run_1", 4),
        LogRow("run_1", 3, 1, 6, 7, b"gap in the sequences"),
        LogRow("run_1", 3, 1, 4, 7, b"sequences that are there already"),
        LogRow("run_1", 3, 1, 5, 4, b"no event"),
        LogRow("run_1", 0, 1, 1, 1, b"no number"),
        LogRow("run_1", 3, 0, 5, 6, b"no epoch"),
        row("run_unknown", 1),
    ],
    ids=["row_gap", "sequence_gap", "overlap", "empty", "row_0", "epoch_0", "no_run"],
)
async def test_a_row_that_does_not_follow_is_refused(store: Store, wrong: LogRow) -> None:
    await make_run(store, "run_1", rows=2)
    with pytest.raises(StoreError) as raised:
        await store.append(wrong)
    assert not isinstance(raised.value, StoreUnavailable | Fenced)
    assert len(await store.read_rows("run_1", 0, 1000)) == 2
    await store.append(row("run_1", 3))


@pytest.mark.requirement("STORE-5")
async def test_settling_writes_row_summary_messages_and_release_together(store: Store) -> None:
    await store.create_run(new_run("run_1", session_id="s", input_=(message("m1"), message("m2"))))
    await store.append(row("run_1", 1), settlement(message("m3"), message("m4"), time_ns=77))
    run = await store.get_run("default", "run_1")
    assert run is not None
    assert (run.state, run.settle_time_ns, run.summary, run.last_row_no) == (
        RunState.SETTLED,
        77,
        b"summary",
        1,
    )
    assert await store.load_messages("default", "s") == [message(f"m{n}") for n in (1, 2, 3, 4)]
    await store.create_run(new_run("run_2", session_id="s", input_=(message("m5"),)))
    assert await store.load_messages("default", "s") == [message(f"m{n}") for n in (1, 2, 3, 4, 5)]


@pytest.mark.requirement("STORE-5")
async def test_settling_again_is_acknowledged_and_changes_nothing(store: Store) -> None:
    await store.create_run(new_run("run_1", session_id="s"))
    await store.append(row("run_1", 1), settlement(message("m1"), time_ns=77))
    await store.append(row("run_1", 1), settlement(message("m1"), time_ns=88))
    run = await store.get_run("default", "run_1")
    assert run is not None
    assert run.settle_time_ns == 77
    assert await store.load_messages("default", "s") == [message("m1")]


@pytest.mark.requirement("STORE-5")
async def test_nothing_follows_a_settlement(store: Store) -> None:
    await make_run(store, "run_1", rows=2, settle=True)
    with pytest.raises(Fenced):
        await store.append(row("run_1", 3))
    with pytest.raises(Fenced):
        await store.append(row("run_1", 3), settlement())
    assert len(await store.read_rows("run_1", 0, 1000)) == 2


@pytest.mark.requirement("STORE-5")
async def test_a_settlement_that_is_fenced_settles_nothing(store: Store) -> None:
    await store.create_run(new_run("run_1", session_id="s"))
    await store.append(row("run_1", 1))
    with pytest.raises(Fenced):
        await store.append(row("run_1", 1, body=b"other"), settlement(message("m1")))
    with pytest.raises(StoreError):
        await store.append(row("run_1", 1), settlement(message("m1")))
    run = await store.get_run("default", "run_1")
    assert run is not None
    assert run.state is RunState.RUNNING
    assert await store.load_messages("default", "s") == []


@pytest.mark.requirement("STORE-6")
async def test_reading_from_every_cursor_gives_the_rows_that_hold_what_follows(store: Store) -> None:
    await store.create_run(new_run("run_1"))
    sizes = [1, 5, 2, 1, 1, 9, 3]
    rows: list[LogRow] = []
    last = 0
    for row_no, size in enumerate(sizes, 1):
        rows.append(LogRow("run_1", row_no, 1, last + 1, last + size, b"x" * size))
        last += size
        await store.append(rows[-1])
    for after in range(last + 2):
        assert await store.read_rows("run_1", after, 1000) == [r for r in rows if r.last_sequence > after]


@pytest.mark.requirement("STORE-6")
@pytest.mark.parametrize("max_bytes", [0, 1, 11, 12, 59, 1000])
async def test_bounded_parts_join_to_the_whole_log(store: Store, max_bytes: int) -> None:
    await store.create_run(new_run("run_1"))
    rows = [row("run_1", n, body=b"x" * (n % 3 + 5)) for n in range(1, 21)]
    for one in rows:
        await store.append(one)
    joined: list[LogRow] = []
    while part := await store.read_rows("run_1", joined[-1].last_sequence if joined else 0, max_bytes):
        assert len(part) == 1 or sum(len(r.body) for r in part) <= max_bytes
        joined.extend(part)
    assert joined == rows


@pytest.mark.requirement("STORE-6")
async def test_a_log_that_is_empty_or_unknown_reads_as_nothing(store: Store) -> None:
    await store.create_run(new_run("run_1"))
    for run_id in ("run_1", "run_unknown"):
        assert await store.read_rows(run_id, 0, 1000) == []
        assert await store.first_sequence_after_epoch(run_id, 0) is None


@pytest.mark.requirement("STORE-7")
async def test_a_takeover_raises_the_epoch_of_what_is_not_settled_and_only_that(store: Store) -> None:
    await store.create_run(new_run("run_2", time_ns=2))
    await store.create_run(new_run("run_1", time_ns=1, session_id="s"))
    await make_run(store, "run_done", rows=1, settle=True)
    await store.append(row("run_1", 1))
    taken = await store.take_over_unfinished()
    assert [(run.run_id, run.epoch, run.last_row_no) for run in taken] == [("run_1", 2, 1), ("run_2", 2, 0)]
    assert [run.epoch for run in await store.take_over_unfinished()] == [3, 3]
    done = await store.get_run("default", "run_done")
    assert done is not None
    assert done.epoch == 1


@pytest.mark.requirement("STORE-7")
async def test_one_run_is_taken_over_unless_it_is_settled(store: Store) -> None:
    await make_run(store, "run_1", rows=2)
    await make_run(store, "run_2", rows=1)
    await make_run(store, "run_done", rows=1, settle=True)
    taken = await store.take_over("run_1")
    assert taken is not None
    assert (taken.run_id, taken.epoch, taken.last_row_no) == ("run_1", 2, 2)
    assert taken == await store.get_run("default", "run_1")
    assert await store.take_over("run_done") is None
    assert await store.take_over("run_unknown") is None
    with pytest.raises(Fenced):
        await store.append(row("run_1", 3))
    await store.append(row("run_2", 2))


@pytest.mark.requirement("STORE-7")
async def test_whoever_wrote_before_a_takeover_is_fenced_though_the_new_owner_wrote_nothing(
    store: Store,
) -> None:
    await make_run(store, "run_1", rows=2)
    await store.take_over_unfinished()
    with pytest.raises(Fenced):
        await store.append(row("run_1", 3))
    with pytest.raises(Fenced):
        await store.append(row("run_1", 3), settlement())
    await store.append(row("run_1", 2))  # it is there: whoever asks is told so
    await store.append(row("run_1", 3, epoch=2))


@pytest.mark.requirement("STORE-7")
async def test_the_start_of_a_later_epoch_is_found(store: Store) -> None:
    await make_run(store, "run_1", rows=3)
    await store.take_over_unfinished()
    await store.take_over_unfinished()
    await store.append(row("run_1", 4, epoch=3))
    await store.append(row("run_1", 5, epoch=3))
    await store.take_over_unfinished()
    await store.append(row("run_1", 6, epoch=4), settlement())
    found = [await store.first_sequence_after_epoch("run_1", epoch) for epoch in range(6)]
    assert found == [1, 7, 7, 11, None, None]


@pytest.mark.requirement("STORE-8")
async def test_runs_are_listed_newest_first_in_pages_that_join(store: Store) -> None:
    times = [5, 5, 5, 1, 9, 7, 7, 3]
    for number, time_ns in enumerate(times):
        await store.create_run(new_run(f"run_{number}", time_ns=time_ns))
    expected = sorted(((time_ns, f"run_{n}") for n, time_ns in enumerate(times)), reverse=True)
    for page_size in (1, 2, 3, 8, 100):
        found: list[tuple[int, str]] = []
        token = ""
        while True:
            page, token = await store.list_runs(RunFilter("default"), page_size, token)
            assert 1 <= len(page) <= page_size
            found.extend((run.create_time_ns, run.run_id) for run in page)
            if not token:
                break
        assert found == expected


@pytest.mark.requirement("STORE-8")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (RunFilter("default"), ["run_5", "run_4", "run_3", "run_2", "run_1"]),
        (RunFilter("default", session_id="s"), ["run_3", "run_1"]),
        (RunFilter("default", agent_id="b"), ["run_4", "run_2"]),
        (RunFilter("default", states=(RunState.SETTLED,)), ["run_1"]),
        (RunFilter("default", states=(RunState.RUNNING,)), ["run_5", "run_4", "run_3", "run_2"]),
        (RunFilter("default", states=(RunState.WAITING, RunState.QUEUED)), []),
        (RunFilter("default", states=(RunState.RUNNING, RunState.SETTLED), session_id="s"), ["run_3", "run_1"]),
        (RunFilter("default", parent_run_id="run_1"), ["run_4"]),
        (RunFilter("default", labels={"team": "x"}), ["run_5", "run_2"]),
        (RunFilter("default", labels={"team": "x", "tier": "1"}), ["run_5"]),
        (RunFilter("default", labels={"team": "x"}, agent_id="b"), ["run_2"]),
        (RunFilter("default", session_id="unknown"), []),
        (RunFilter("other"), []),
    ],
)
async def test_runs_are_listed_by_any_combination_of_filters(
    store: Store, query: RunFilter, expected: list[str]
) -> None:
    await store.create_run(new_run("run_1", time_ns=1, session_id="s"))
    await store.append(row("run_1", 1), settlement())
    await store.create_run(new_run("run_2", time_ns=2, agent_id="b", labels={"team": "x"}))
    await store.create_run(new_run("run_3", time_ns=3, session_id="s", labels={"team": "y"}))
    await store.create_run(new_run("run_4", time_ns=4, agent_id="b", parent_run_id="run_1"))
    await store.create_run(new_run("run_5", time_ns=5, labels={"team": "x", "tier": "1"}))
    for page_size in (1, 10):
        page, token = await store.list_runs(query, page_size, "")
        found = [run.run_id for run in page]
        while token:
            page, token = await store.list_runs(query, page_size, token)
            found += [run.run_id for run in page]
        assert found == expected


@pytest.mark.requirement("STORE-8")
@pytest.mark.parametrize(
    "token", ["x", "=", "aGVsbG8", "LTE6cnVu", "MTo", "OnJ1bg", "\ud800", "MTIzNDU2Nzg5MDEyMzQ1Njc4OTA6cg"]
)
async def test_a_page_token_of_no_list_is_an_invalid_request(store: Store, token: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        await store.list_runs(RunFilter("default"), 10, token)
    assert [violation.field for violation in raised.value.violations] == ["page_token"]


@pytest.mark.requirement("STORE-9")
async def test_tenants_do_not_see_each_other(store: Store) -> None:
    mine = new_run("run_1", session_id="s", request_id="q", digest=b"d", input_=(message("m1"),))
    theirs = new_run("run_2", session_id="s", request_id="q", digest=b"e", tenant="other")
    await store.create_run(mine)
    assert not (await store.create_run(theirs)).existing
    assert await store.get_run("other", "run_1") is None
    assert await store.load_messages("other", "s") == []
    page, _ = await store.list_runs(RunFilter("other"), 10, "")
    assert [run.run_id for run in page] == ["run_2"]
    assert not await store.session_exists("third", "s")


@pytest.mark.requirement("STORE-9")
async def test_principals_of_a_tenant_have_their_own_request_ids(store: Store) -> None:
    await store.create_run(new_run("run_1", request_id="q", digest=b"d", principal="ann"))
    assert not (await store.create_run(new_run("run_2", request_id="q", digest=b"e", principal="bob"))).existing


@pytest.mark.requirement("STORE-10")
async def test_any_bytes_and_any_text_come_back_unchanged(store: Store) -> None:
    every = bytes(range(256)) * 3
    label = {"nul\0": "a\0b", "quote'\"": "\u2028 \U0001f600 {}[]", "": ""}
    odd = message("m\0", every)
    await store.create_run(new_run("run_1", session_id="s'\0", labels=label, input_=(odd,)))
    await store.append(LogRow("run_1", 1, 1, 1, 2**53 + 1, every, b"\0"))
    await store.append(LogRow("run_1", 2, 1, 2**53 + 2, 2**53 + 2, b"", b""), settlement(odd, time_ns=2**62))
    run = await store.get_run("default", "run_1")
    assert run is not None
    assert (run.labels, run.settle_time_ns) == (label, 2**62)
    assert [(r.body, r.last_sequence) for r in await store.read_rows("run_1", 0, 10_000)] == [
        (every, 2**53 + 1),
        (b"", 2**53 + 2),
    ]
    assert await store.load_messages("default", "s'\0") == [odd, odd]
    page, _ = await store.list_runs(RunFilter("default", labels=label), 1, "")
    assert [found.run_id for found in page] == ["run_1"]


@pytest.mark.requirement("STORE-10")
async def test_a_large_row_is_stored(store: Store) -> None:
    await store.create_run(new_run("run_1"))
    large = LogRow("run_1", 1, 1, 1, 1, b"\xff\0" * (4 << 20))
    await store.append(large)
    assert await store.read_rows("run_1", 0, 10) == [large]


@pytest.mark.requirement("STORE-12")
async def test_many_runs_live_at_once_and_every_log_is_whole(store: Store) -> None:
    async def live(number: int) -> None:
        run_id = f"run_{number}"
        await store.create_run(new_run(run_id, session_id=f"s{number % 150}_{number}"))
        for row_no in range(1, 6):
            await store.append(row(run_id, row_no), settlement(message(run_id)) if row_no == 5 else None)

    await asyncio.gather(*(live(number) for number in range(200)))
    for number in (0, 99, 199):
        assert await store.read_rows(f"run_{number}", 0, 1000) == [row(f"run_{number}", n) for n in range(1, 6)]
    page, token = await store.list_runs(RunFilter("default", states=(RunState.SETTLED,)), 500, "")
    assert (len(page), token) == (200, "")


@pytest.mark.requirement("STORE-12")
async def test_rows_of_one_run_handed_in_at_once_are_stored_in_order_and_once(store: Store) -> None:
    await store.create_run(new_run("run_1", session_id="s"))
    rows = [row("run_1", n) for n in range(1, 11)]
    twice = [one for one in rows for _ in range(2)]
    await asyncio.gather(*(store.append(one) for one in twice), store.append(row("run_1", 11), settlement()))
    assert await store.read_rows("run_1", 0, 1000) == [*rows, row("run_1", 11)]
    await store.create_run(new_run("run_2", session_id="s"))


@pytest.mark.requirement("STORE-12")
async def test_a_change_that_fails_harms_none_that_is_stored_with_it(store: Store) -> None:
    for number in range(10):
        await store.create_run(new_run(f"run_{number}", session_id=f"s{number}"))
    await store.append(row("run_0", 1))
    outcomes = await asyncio.gather(
        store.append(row("run_0", 1, body=b"other")),
        store.append(row("run_1", 1), settlement(message("m1"))),
        store.append(row("run_2", 7)),
        store.append(row("run_3", 1)),
        store.create_run(new_run("run_4")),
        store.create_run(new_run("run_new", session_id="new", input_=(message("m2"),))),
        store.create_run(new_run("run_busy", session_id="s5")),
        return_exceptions=True,
    )
    kinds = [type(outcome).__name__ for outcome in outcomes]
    assert kinds == ["Fenced", "NoneType", "StoreError", "NoneType", "StoreError", "RunCreated", "Conflict"]
    assert await store.load_messages("default", "s1") == [message("m1")]
    assert await store.load_messages("default", "new") == [message("m2")]
    assert len(await store.read_rows("run_3", 0, 1000)) == 1


@pytest.mark.requirement("STORE-14")
async def test_a_store_that_is_open_answers_a_ping(store: Store) -> None:
    await store.ping()
    await store.ping()


@pytest.mark.requirement("STORE-14")
async def test_a_store_that_is_closed_is_unavailable(store: Store) -> None:
    await store.create_run(new_run("run_1"))
    await store.aclose()
    await store.aclose()
    with pytest.raises(StoreUnavailable):
        await store.append(row("run_1", 1))
    with pytest.raises(StoreUnavailable):
        await store.get_run("default", "run_1")
    with pytest.raises(StoreUnavailable):
        await store.ping()


@pytest.mark.requirement("STORE-14")
async def test_a_store_that_is_started_again_has_what_it_had(store: Store) -> None:
    await make_run(store, "run_1", rows=3)
    await store.aclose()
    await store.start()
    assert len(await store.read_rows("run_1", 0, 1000)) == 3
    await store.append(row("run_1", 4))
