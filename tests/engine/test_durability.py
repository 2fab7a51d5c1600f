"""What must be durable first, and what happens when the store fails, another owner appears, or the process dies."""

from __future__ import annotations

import asyncio

import pytest

from engine.faults import FaultyStore
from engine.harness import CALLER, LIMIT, Reader, World, user, world
from turnwire.v1 import event_pb2
from turnwired.codec.event import decode_events
from turnwired.codec.frame import events_of, record_header
from turnwired.domain.errors import Unavailable
from turnwired.domain.event import Event, IterationStarted, RunFinished, TextDelta, ToolCallExecuting, ToolCallFinished
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import ToolResultStatus
from turnwired.domain.outcome import Notice, OutcomeKind
from turnwired.domain.policy import LoopPolicy, Policy, TimeoutPolicy
from turnwired.domain.run import Cursor, Run, RunState, TurnSpec
from turnwired.domain.trace import ToolCallTrace
from turnwired.engine import log as engine_log
from turnwired.engine import recovery as engine_recovery
from turnwired.store.port import LogRow, NewRun, RunFilter
from turnwired.testing.provider import answer, calls
from turnwired.testing.registry import Function
from turnwired.tools.port import ToolInvocation
from turnwired.turn.trace import trace_of

pytestmark = pytest.mark.anyio


async def ok(invocation: ToolInvocation) -> str:
    return "ok"


async def settle_loop(times: int = 50) -> None:
    """Let everything that can run do so."""
    for _ in range(times):
        await asyncio.sleep(0)


@pytest.mark.requirement("ENGINE-3", "ENGINE-4")
async def test_no_model_call_and_no_tool_starts_before_its_events_are_durable() -> None:
    gate = asyncio.Event()
    store = FaultyStore(gate=gate)
    async with world([calls(("ok", "{}")), answer("done")], {"ok": ok}, store=store) as w:
        _, reader, task = await w.start()
        for _ in range(4):  # each row held back in turn
            async with asyncio.timeout(LIMIT):
                await store.held.wait()
            await settle_loop()
            requests, executed, seen = len(w.provider.requests), len(w.registry.executed), len(reader.events)
            durable = sum(row.last_sequence - row.first_sequence + 1 for row in store.appended)
            assert requests <= count(store, IterationStarted)
            assert executed <= count(store, ToolCallExecuting)
            assert seen <= durable + len(reader.of(TextDelta))
            store.held.clear()
            gate.set()
            await settle_loop(3)
            gate.clear()
            if task.done():
                break
        gate.set()
        await task
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED


def kinds(store: FaultyStore) -> set[str]:
    """Kinds of the events that are durable."""
    return {event.WhichOneof("event") or "" for row in store.appended for event in events_of(row.body)}


def count(store: FaultyStore, kind: type[Event]) -> int:
    """How many events of the kind are durable."""
    return sum(isinstance(logged.event, kind) for row in store.appended for logged in decode_events(row.body))


@pytest.mark.requirement("ENGINE-4")
async def test_deltas_are_sent_before_they_are_durable() -> None:
    begin, end = asyncio.Event(), asyncio.Event()
    store = FaultyStore()
    async with world([[begin.wait, *answer("now")[:1], end.wait, *answer("later")]], store=store) as w:
        _, reader, task = await w.start()
        await reader.until(IterationStarted)
        store.gate = asyncio.Event()
        begin.set()
        await reader.until(TextDelta)
        assert "text_delta" not in kinds(store)
        end.set()
        store.gate.set()
        await task


@pytest.mark.requirement("ENGINE-5", "SCN-123")
async def test_a_store_that_fails_for_a_while_only_delays_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_log, "STORE_RETRY_SECONDS", 0.001)
    store = FaultyStore(fail_next=engine_log.STORE_ATTEMPTS - 1)
    async with world([answer("done")], store=store) as w:
        reader = await w.run()
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
    assert store.fail_next == 0


@pytest.mark.requirement("ENGINE-5", "SCN-123")
async def test_a_store_that_stays_away_is_told_to_readers_and_the_run_is_settled_at_the_next_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_log, "STORE_RETRY_SECONDS", 0.001)
    store = FaultyStore()
    gate = asyncio.Event()
    async with world([[gate.wait, *answer("never seen")]], store=store) as w:
        run_id, reader, task = await w.start(session_id="s")
        await first_event(reader)
        store.fail_next = 10**6
        gate.set()
        with pytest.raises(Unavailable) as caught:
            await task
        assert caught.value.reason is Reason.STORE_UNAVAILABLE
    assert not reader.of(RunFinished)
    store.fail_next = 0
    async with world([answer("again")], store=store) as w:
        run = await w.engine.get_run(CALLER, run_id)
        assert run.state is RunState.SETTLED
        assert run.outcome is not None
        assert run.outcome.failure is not None
        assert run.outcome.failure.reason is Reason.SERVER_RESTARTED
        again = await w.run(session_id="s")
        assert again.finished.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("ENGINE-20")
async def test_a_store_that_comes_back_gets_the_end_of_the_run_and_readers_go_back_to_what_was_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_log, "STORE_RETRY_SECONDS", 0.001)
    monkeypatch.setattr(engine_recovery, "RETRY_SECONDS", 0.001)
    store = FaultyStore()
    gate = asyncio.Event()
    async with world([[gate.wait, *answer("never stored")], answer("again")], store=store) as w:
        run_id, before, task = await w.start(session_id="s")
        await before.until(IterationStarted)
        store.fail_next = engine_log.STORE_ATTEMPTS + 3
        gate.set()
        with pytest.raises(Unavailable):
            await task
        assert before.of(TextDelta)
        run = await settled(w, run_id)
        after = Reader()
        await w.follow(run_id, after, before.cursor)
        again = await w.run(session_id="s")
    assert store.fail_next == 0
    assert run.outcome is not None
    assert run.outcome.failure is not None
    assert run.outcome.failure.reason is Reason.STORE_UNAVAILABLE
    assert after.frames[0].rewind_to_sequence == next(
        item.sequence for item in before.events if isinstance(item.event, IterationStarted)
    )
    assert {frame.epoch for frame in after.frames} == {2}
    assert "TextDelta" not in after.kinds()
    assert again.finished.outcome.kind is OutcomeKind.ANSWERED


async def settled(w: World, run_id: str) -> Run:
    """The run once it has settled; bounded by the test's own limit."""
    while True:
        run = await w.engine.get_run(CALLER, run_id)
        if run.state is RunState.SETTLED:
            return run
        await settle_loop(1)


async def first_event(reader: Reader) -> object:
    """The first event that a reader sees."""
    async with asyncio.timeout(LIMIT), reader.seen:
        await reader.seen.wait_for(lambda: bool(reader.events))
    return reader.events[0].event


@pytest.mark.requirement("ENGINE-6")
async def test_a_fenced_execution_records_nothing_more_and_readers_are_told_to_attach_again() -> None:
    store = FaultyStore()
    gate = asyncio.Event()
    async with world([[gate.wait, *answer("zombie")]], store=store) as w:
        _, reader, task = await w.start()
        await first_event(reader)
        rows = len(store.appended)
        store.fence = True
        gate.set()
        with pytest.raises(Unavailable):
            await task
        assert len(store.appended) == rows
    assert not reader.of(RunFinished)


@pytest.mark.requirement("ENGINE-7")
async def test_a_reader_that_falls_behind_reads_the_store_and_gets_the_same_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_log, "WINDOW_BYTES", 200)
    gate = asyncio.Event()
    async with world([[*answer(*"abcdefghij" * 20)[:200], gate.wait, *answer("z")]]) as w:
        run_id, fast, task = await w.start()
        await fast.until(TextDelta, 200)
        slow = Reader()
        slow_task = asyncio.create_task(w.follow(run_id, slow))
        gate.set()
        await task
        await slow_task
        stored = Reader()
        await w.follow(run_id, stored)
    assert fast.events == slow.events == stored.events
    assert [event.sequence for event in slow.events] == list(range(1, len(slow.events) + 1))


@pytest.mark.requirement("ENGINE-8", "ENGINE-9", "SCN-119")
async def test_an_orphan_is_settled_at_boot_and_a_cursor_ahead_of_it_is_rewound() -> None:
    started = asyncio.Event()

    async def begun(invocation: ToolInvocation) -> str:
        started.set()
        await asyncio.Event().wait()
        return ""

    store = FaultyStore()
    run_id, before = await crash_with_a_tool_running(store, begun, started)
    lost = Cursor(1, before.events[-1].sequence + 7)  # deltas that were sent and never stored
    async with world([answer("New turn.")], {"begun": begun}, store=store) as w:
        after, rewound = Reader(), Reader()
        await w.follow(run_id, after)
        await w.follow(run_id, rewound, lost)
        run = await w.engine.get_run(CALLER, run_id)
        trace = await w.engine.get_trace(CALLER, run_id)
        fresh = await w.run(session_id="s")
        said = w.provider.messages(0)
    assert after.events[: len(before.events)] == before.events
    finished = after.of(ToolCallFinished)
    assert [event.result.status for event in finished if isinstance(event, ToolCallFinished)] == [
        ToolResultStatus.OUTCOME_UNKNOWN
    ]
    assert after.finished.outcome.kind is OutcomeKind.ERRORED
    assert after.finished.outcome.failure is not None
    assert after.finished.outcome.failure.reason is Reason.SERVER_RESTARTED
    assert {frame.epoch for frame in after.frames} == {2}
    assert rewound.frames[0].rewind_to_sequence == before.events[-1].sequence
    assert rewound.events == after.events[len(before.events) :]
    assert run.outcome == after.finished.outcome
    assert trace == trace_of(after.events)
    assert fresh.finished.outcome.kind is OutcomeKind.ANSWERED
    roles = [message["role"] for message in said]
    assert roles == ["system", "USER", "ASSISTANT", "TOOL", "USER"]


async def crash_with_a_tool_running(store: FaultyStore, begun: Function, started: asyncio.Event) -> tuple[str, Reader]:
    """A run whose process dies while its tool runs: what is stored afterwards is all there is."""
    async with world([calls(("begun", "{}"))], {"begun": begun}, store=store) as w:
        run_id, reader, task = await w.start(session_id="s")
        async with asyncio.timeout(LIMIT):
            await started.wait()
        await reader.until(ToolCallExecuting)
        store.fence = True  # whatever this process does from here on reaches nobody
        w.engine.cancel_if_live(run_id, Failure(FailurePhase.MODEL, Reason.CANCELLED, "the process dies"))
        with pytest.raises(Unavailable):
            await task
    store.fence = False
    return run_id, reader


@pytest.mark.requirement("ENGINE-8")
async def test_a_run_that_died_before_its_first_event_is_settled_at_boot() -> None:
    store = FaultyStore()
    await store.start()
    await store.create_run(NewRun("run_never_begun", CALLER, "default", 1, session_id="s"))
    async with world([answer("Next.")], store=store) as w:
        run = await w.engine.get_run(CALLER, "run_never_begun")
        reader = Reader()
        await w.follow("run_never_begun", reader)
        fresh = await w.run(session_id="s")
    assert run.state is RunState.SETTLED
    assert reader.kinds()[-1] == "RunFinished"
    assert fresh.finished.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("ENGINE-10", "SCN-009")
async def test_a_fault_of_ours_settles_the_run_as_internal_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken() -> None:
        raise KeyError("a bug")

    async with world([[broken]]) as w:  # type: ignore[list-item]
        reader = await w.run()
    failure = reader.finished.outcome.failure
    assert failure is not None
    assert failure.reason is Reason.INTERNAL
    assert "a bug" not in failure.message
    assert "Traceback" not in failure.message
    assert "KeyError" in caplog.text
    assert "a bug" not in caplog.text


@pytest.mark.requirement("ENGINE-10")
async def test_a_fault_while_a_turn_is_accepted_is_its_callers_and_ends_no_other_run() -> None:
    gate = asyncio.Event()
    store = FaultyStore()
    async with world([[gate.wait, *answer("one")], answer("two")], store=store) as w:
        _, reader, task = await w.start()
        await first_event(reader)
        store.create_fault = KeyError("a bug")
        with pytest.raises(KeyError):
            await w.engine.start_turn(TurnSpec(CALLER, (user("two"),)))
        store.create_fault = None
        gate.set()
        await task
        assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
        assert (await w.run("two")).finished.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("ENGINE-18")
async def test_a_log_that_cannot_be_read_keeps_no_server_from_starting(caplog: pytest.LogCaptureFixture) -> None:
    store = FaultyStore()
    await store.start()
    for run_id in ("run_of_tomorrow", "run_of_today"):
        await store.create_run(NewRun(run_id, CALLER, "default", 1))
    unknown = event_pb2.RunEvent(sequence=1).SerializeToString() + b"\xfa\x3f\x00"  # an event of field 1023
    body = record_header(len(unknown)) + unknown
    await store.append(LogRow("run_of_tomorrow", 1, 1, 1, 1, body))
    async with world([answer("hello")], store=store) as w:
        assert (await w.run()).finished.outcome.kind is OutcomeKind.ANSWERED
        assert (await w.engine.get_run(CALLER, "run_of_today")).state is RunState.SETTLED
        assert (await w.engine.get_run(CALLER, "run_of_tomorrow")).state is RunState.RUNNING
    assert "run_of_tomorrow" in caplog.text


@pytest.mark.requirement("ENGINE-12")
async def test_the_time_limit_of_the_run_ends_it_and_names_itself() -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    async with world([[never]]) as w:
        reader = await w.run(policy=Policy(timeout=TimeoutPolicy(run=1.0)))
    assert reader.finished.outcome.kind is OutcomeKind.BUDGET_EXCEEDED
    assert reader.finished.outcome.limit_trip is not None
    assert reader.finished.outcome.limit_trip.policy_path == "timeout.run"


@pytest.mark.requirement("ENGINE-12")
def test_the_time_limit_of_the_run_holds_in_a_plain_event_loop() -> None:
    """The loop of the tests has what a timer's callback in production does not: a library to start tasks with."""

    async def hang(invocation: ToolInvocation) -> str:
        await asyncio.Event().wait()
        return ""

    async def main() -> Reader:
        async with world([calls(("hang", "{}"))], {"hang": hang}) as w:
            return await w.run(policy=Policy(timeout=TimeoutPolicy(run=1.0)))

    reader = asyncio.run(main())
    assert reader.finished.outcome.kind is OutcomeKind.BUDGET_EXCEEDED


@pytest.mark.requirement("ENGINE-1")
async def test_the_step_bound_of_the_request_holds() -> None:
    async with world([calls(("ok", "{}"))] * 3, {"ok": ok}) as w:
        reader = await w.run(policy=Policy(loop=LoopPolicy(max_steps=2)))
        assert len(w.provider.requests) == 2
    assert reader.finished.outcome.kind is OutcomeKind.MAX_STEPS


@pytest.mark.requirement("ENGINE-14")
async def test_an_idle_stream_gets_frames_without_events() -> None:
    gate = asyncio.Event()
    async with world([[gate.wait, *answer("done")]], heartbeat=0.01) as w:
        _, reader, task = await w.start()
        async with asyncio.timeout(LIMIT), reader.seen:
            await reader.seen.wait_for(lambda: sum(not frame.events for frame in reader.frames) >= 2)
        gate.set()
        await task
    beats = [frame for frame in reader.frames if not frame.events]
    assert all(frame.epoch == 1 and frame.through_sequence > 0 for frame in beats)


@pytest.mark.requirement("ENGINE-16")
@pytest.mark.parametrize("session_id", [None, "s"])
async def test_a_caller_that_leaves_while_its_turn_is_accepted_leaves_no_run_without_an_owner(
    session_id: str | None,
) -> None:
    gate = asyncio.Event()
    store = FaultyStore(create_gate=gate)
    async with world([answer("done")], store=store) as w:
        call = asyncio.create_task(w.engine.start_turn(TurnSpec(CALLER, (user("Hello"),), session_id=session_id)))
        async with asyncio.timeout(LIMIT):
            await store.held.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        gate.set()
        runs, _ = await w.engine.list_runs(RunFilter(CALLER.tenant), 10, "")
        while not runs:  # bounded by the test's own limit
            await settle_loop(1)
            runs, _ = await w.engine.list_runs(RunFilter(CALLER.tenant), 10, "")
        reader = Reader()
        await w.follow(runs[0].run_id, reader)
    kind = OutcomeKind.ABORTED if session_id is None else OutcomeKind.ANSWERED
    assert reader.finished.outcome.kind is kind


@pytest.mark.requirement("ENGINE-21", "SCN-145")
async def test_a_trace_too_large_for_a_message_is_cut_to_fit_and_says_so() -> None:
    async def large(invocation: ToolInvocation) -> str:
        return "x" * 60_000

    script = [calls(*[("large", "{}")] * 60), answer("done")]
    async with world(script, {"large": large}) as w:
        run_id, reader, task = await w.start(include_trace=True)
        await task
        read = await w.engine.get_trace(CALLER, run_id)
    whole = [event for event in reader.of(ToolCallFinished) if isinstance(event, ToolCallFinished)]
    assert all(event.result.original_size_bytes is None for event in whole)
    for trace in (reader.finished.trace, read):
        assert trace is not None
        results = [item.entry.result for item in trace.entries if isinstance(item.entry, ToolCallTrace)]
        assert len(results) == 60
        assert all(result is not None and result.original_size_bytes == 60_000 for result in results)
    assert max(frame.ByteSize() for frame in reader.frames) < 4 << 20


@pytest.mark.requirement("ENGINE-22")
async def test_what_a_run_goes_without_is_a_notice_in_its_log() -> None:
    gone = Failure(FailurePhase.TRANSPORT, Reason.MCP_UNAVAILABLE, "The server 'time' is down.", origin="time")
    async with world([answer("done")]) as w:
        w.registry.failures = (gone,)
        reader = await w.run()
    assert reader.kinds()[:3] == ["RunStarted", "Notice", "IterationStarted"]
    assert reader.of(Notice) == [Notice(gone.reason, gone.message, {"origin": "time"})]


@pytest.mark.requirement("ENGINE-36")
async def test_a_store_that_goes_away_is_noticed_logged_once_and_told(caplog: pytest.LogCaptureFixture) -> None:
    store = FaultyStore()
    told: list[bool] = []
    changed = asyncio.Event()

    async def tell(works: bool) -> None:
        told.append(works)
        changed.set()

    async with world([], store=store, heartbeat=0.01) as w:
        w.engine.on_store_change = tell
        store.gone = True
        for works in (False, True):
            async with asyncio.timeout(LIMIT):
                await changed.wait()
            changed.clear()
            assert told[-1] is works
            store.gone = False
    assert told == [False, True]
    assert caplog.text.count("the store cannot be used") == 1
