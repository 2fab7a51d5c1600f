"""The crossing between the loop and the threads: bounds, cancellation, and what a broken performer does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from turnwired.domain.errors import StoreUnavailable
from turnwired.store.sqlite.worker import Job, Worker

pytestmark = pytest.mark.anyio


class Held:
    """A performer that does nothing until it is let go, and then echoes. Records what it was given."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.taken = threading.Event()
        self.batches: list[list[str]] = []
        self.closed = False

    def perform(self, jobs: Sequence[Job[str]]) -> None:
        self.taken.set()
        assert self.go.wait(20)
        self.batches.append([job.work for job in jobs])
        for job in jobs:
            if job.work == "bad":
                raise RuntimeError("broken")
            job.result = job.work

    def close(self) -> None:
        self.closed = True


@asynccontextmanager
async def held_worker(
    *, max_pending: int = 100, max_bytes: int = 1000, wait_seconds: float = 20, batch: int = 100
) -> AsyncIterator[tuple[Worker[str], Held]]:
    held = Held()
    worker = Worker(
        [held],
        name="test",
        subject="the database x",
        batch=batch,
        max_pending=max_pending,
        max_pending_bytes=max_bytes,
        wait_seconds=wait_seconds,
    )
    try:
        yield worker, held
    finally:
        held.go.set()
        await worker.aclose(20)


async def _taken(held: Held) -> None:
    assert await asyncio.to_thread(held.taken.wait, 20)


async def _settled(worker: Worker[str], pending: int) -> None:
    """Let every task run as far as it can while the performer holds still."""
    for _ in range(10):
        await asyncio.sleep(0)
    assert worker._pending == pending


@pytest.mark.requirement("STORE-12")
async def test_what_piles_up_behind_a_batch_is_the_next_batch() -> None:
    async with held_worker(batch=3) as (worker, held):
        first = asyncio.create_task(worker.do("a", 1))
        await _taken(held)
        rest = [asyncio.create_task(worker.do(name, 1)) for name in "bcdef"]
        await _settled(worker, 6)
        held.go.set()
        assert list(await asyncio.gather(first, *rest)) == list("abcdef")
        assert held.batches == [["a"], ["b", "c", "d"], ["e", "f"]]


@pytest.mark.requirement("STORE-15")
@pytest.mark.parametrize(("max_pending", "max_bytes"), [(2, 1000), (100, 10)])
async def test_beyond_its_bound_the_store_makes_callers_wait_in_turn(max_pending: int, max_bytes: int) -> None:
    async with held_worker(max_pending=max_pending, max_bytes=max_bytes) as (worker, held):
        tasks = [asyncio.create_task(worker.do(name, 5)) for name in "abcdefg"]
        await _taken(held)
        await _settled(worker, 2)
        held.go.set()
        assert await asyncio.gather(*tasks) == list("abcdefg")
        assert [name for batch in held.batches for name in batch] == list("abcdefg")
        assert (worker._pending, worker._pending_bytes) == (0, 0)


@pytest.mark.requirement("STORE-15")
async def test_a_change_larger_than_the_bound_is_taken_alone() -> None:
    async with held_worker(max_bytes=10) as (worker, held):
        held.go.set()
        assert list(await asyncio.gather(worker.do("a", 50), worker.do("b", 60))) == ["a", "b"]
        assert (worker._pending, worker._pending_bytes) == (0, 0)


@pytest.mark.requirement("STORE-15")
async def test_an_answer_that_does_not_come_is_an_error_that_says_what_to_check() -> None:
    async with held_worker(wait_seconds=0.05) as (worker, held):
        with pytest.raises(StoreUnavailable, match=r"the database x did not answer within 0.05 s: check its disk"):
            await worker.do("a", 1)
        held.go.set()
        assert await worker.do("b", 1) == "b"


@pytest.mark.requirement("STORE-15")
async def test_room_that_does_not_come_is_an_error_that_says_what_to_check() -> None:
    async with held_worker(max_pending=1, wait_seconds=0.05) as (worker, held):
        outcomes = await asyncio.gather(worker.do("a", 1), worker.do("b", 1), return_exceptions=True)
        assert [str(outcome)[:14] for outcome in outcomes] == ["the database x", "the database x"]
        assert "more changes waiting" in str(outcomes[1])
        held.go.set()
        assert await worker.do("c", 1) == "c"
        assert worker._pending == 0


@pytest.mark.requirement("STORE-13")
async def test_a_change_cancelled_before_it_is_taken_is_not_done() -> None:
    async with held_worker() as (worker, held):
        first = asyncio.create_task(worker.do("a", 1))
        await _taken(held)
        second, third = (asyncio.create_task(worker.do(name, 1)) for name in "bc")
        await _settled(worker, 3)
        second.cancel()
        await _settled(worker, 3)
        held.go.set()
        assert list(await asyncio.gather(first, third)) == ["a", "c"]
        assert second.cancelled()
        assert held.batches == [["a"], ["c"]]
        assert worker._pending == 0


@pytest.mark.requirement("STORE-13")
async def test_a_change_cancelled_while_it_is_done_is_done_and_not_reported() -> None:
    async with held_worker() as (worker, held):
        first = asyncio.create_task(worker.do("a", 1))
        await _taken(held)
        first.cancel()
        held.go.set()
        assert await worker.do("b", 1) == "b"
        assert first.cancelled()
        assert held.batches == [["a"], ["b"]]


@pytest.mark.requirement("STORE-13", "STORE-15")
async def test_a_caller_cancelled_while_it_waits_for_room_takes_none() -> None:
    async with held_worker(max_pending=1) as (worker, held):
        first = asyncio.create_task(worker.do("a", 1))
        await _taken(held)
        waiting = [asyncio.create_task(worker.do(name, 1)) for name in "bc"]
        await _settled(worker, 1)
        waiting[0].cancel()
        await _settled(worker, 1)
        held.go.set()
        assert list(await asyncio.gather(first, waiting[1])) == ["a", "c"]
        assert (worker._pending, worker._pending_bytes) == (0, 0)


@pytest.mark.requirement("STORE-13", "STORE-15")
async def test_a_caller_cancelled_just_as_it_gets_room_gives_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async with held_worker(max_pending=1) as (worker, held):
        first = asyncio.create_task(worker.do("a", 1))
        await _taken(held)
        second = asyncio.create_task(worker.do("b", 1))
        await _settled(worker, 1)
        finish = worker._finish

        def finish_and_cancel(jobs: Sequence[Job[str]]) -> None:
            finish(jobs)
            second.cancel()

        monkeypatch.setattr(worker, "_finish", finish_and_cancel)
        held.go.set()
        assert await first == "a"
        await asyncio.gather(second, return_exceptions=True)
        assert second.cancelled()
        assert await worker.do("c", 1) == "c"
        assert held.batches == [["a"], ["c"]]
        assert (worker._pending, worker._pending_bytes) == (0, 0)


@pytest.mark.requirement("STORE-14")
async def test_a_performer_that_breaks_is_an_error_to_who_waits_and_not_the_end_of_the_thread() -> None:
    async with held_worker() as (worker, held):
        held.go.set()
        with pytest.raises(StoreUnavailable, match=r"the database x failed: RuntimeError: broken"):
            await worker.do("bad", 1)
        assert await worker.do("b", 1) == "b"


@pytest.mark.requirement("STORE-15")
async def test_closing_does_what_was_handed_in_and_refuses_more() -> None:
    async with held_worker() as (worker, held):
        tasks = [asyncio.create_task(worker.do(name, 1)) for name in "abc"]
        await _settled(worker, 3)
        held.go.set()
        await worker.aclose(20)
        assert await asyncio.gather(*tasks) == list("abc")
        assert held.closed
        with pytest.raises(StoreUnavailable, match="closed"):
            await worker.do("d", 1)


@pytest.mark.requirement("STORE-15")
async def test_closing_gives_up_on_a_thread_that_hangs_and_tells_who_waits() -> None:
    async with held_worker() as (worker, held):
        task = asyncio.create_task(worker.do("a", 1))
        await _taken(held)
        with pytest.raises(StoreUnavailable, match=r"did not finish within 0.01 s"):
            await worker.aclose(0.01)
        with pytest.raises(StoreUnavailable, match="was closed before it answered"):
            await task
