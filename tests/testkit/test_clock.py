"""The fake clock: timers in order, the engine's among them, and no test that hangs."""

from __future__ import annotations

import asyncio
import time

import anyio
import pytest

from turnwired import Runtime
from turnwired.domain.failure import Reason
from turnwired.domain.generation import ReasoningChunk, TextChunk
from turnwired.domain.outcome import OutcomeKind
from turnwired.testing import ClockStuck, EventCollector, FakeClock, ScriptedProvider, answer, fails


@pytest.mark.requirement("KIT-14")
def test_timers_run_at_their_time_and_in_order_and_no_real_time_passes() -> None:
    clock = FakeClock()
    told: list[tuple[str, float]] = []

    async def sleeper(name: str, *delays: float) -> None:
        for delay in delays:
            await anyio.sleep(delay)
            told.append((name, clock.now))

    async def main() -> None:
        tasks = [asyncio.create_task(sleeper("a", 10, 10)), asyncio.create_task(sleeper("b", 15, 86_400 * 3))]
        await clock.advance(9.5)
        assert told == []
        await clock.advance(10.5)
        assert told == [("a", 10.0), ("b", 15.0), ("a", 20.0)]
        await clock.advance(86_400 * 4)
        await asyncio.gather(*tasks)

    began = time.monotonic()
    clock.run(main())
    assert told[-1] == ("b", 15.0 + 86_400 * 3)
    assert clock.now == 20.0 + 86_400 * 4
    assert time.monotonic() - began < 5


@pytest.mark.requirement("KIT-14")
def test_time_stands_still_while_threads_work() -> None:
    clock = FakeClock()

    async def main() -> float:
        async with asyncio.timeout(0.01):  # of the clock's seconds, none of which pass
            await asyncio.to_thread(time.sleep, 0.05)
        return clock.now

    assert clock.run(main()) == 0.0


@pytest.mark.requirement("KIT-14")
def test_time_goes_forward_only_and_once_at_a_time() -> None:
    clock = FakeClock()

    async def main() -> None:
        with pytest.raises(ValueError, match="does not go back"):
            await clock.advance(-1)
        first = asyncio.create_task(clock.advance(1))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="already"):
            await clock.advance(1)
        await first

    clock.run(main())
    assert clock.now == 1


@pytest.mark.requirement("KIT-15")
def test_a_wait_for_time_that_nobody_moves_is_an_error() -> None:
    async def main() -> None:
        await anyio.sleep(1)

    with pytest.raises(ClockStuck, match="advance"):
        FakeClock(patience=0.05).run(main())


def scripted(*script: object) -> Runtime:
    """A runtime over a scripted model."""
    provider = ScriptedProvider(list(script))  # type: ignore[arg-type]
    return Runtime({}, providers={"scripted": provider}, environ={})


@pytest.mark.requirement("KIT-14", "KIT-16")
def test_the_engine_waits_between_attempts_by_the_clock() -> None:
    clock = FakeClock()
    told = EventCollector()

    async def main() -> None:
        refused = [fails(Reason.PROVIDER_RATE_LIMITED, retryable=True, retry_after=20.0)]
        async with scripted(refused, answer("At last.")) as runtime:
            turn = asyncio.create_task(runtime.run_turn("x", on_event=told))
            await told.until("attempt 1 failed (MODEL/PROVIDER_RATE_LIMITED), tried again")
            await clock.advance(19)
            assert told.lines()[-1] == "attempt 1 failed (MODEL/PROVIDER_RATE_LIMITED), tried again"
            await clock.advance(7)  # what the provider asked for is lengthened by a quarter at most
            assert (await turn).text == "At last."

    clock.run(main())


@pytest.mark.requirement("KIT-14", "KIT-16")
def test_a_run_that_lasts_half_an_hour_meets_its_limit_in_an_instant() -> None:
    clock = FakeClock()

    told = EventCollector()

    async def forever() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        async with scripted([forever]) as runtime:
            patient = {"timeout": {"first_event": "unbounded", "iteration": "unbounded"}}
            turn = asyncio.create_task(runtime.run_turn("x", on_event=told, policies=patient))
            await told.until("iteration 1 started")
            await clock.advance(1799)
            assert not turn.done()
            await clock.advance(5)
            outcome = (await turn).outcome
            assert outcome.kind is OutcomeKind.BUDGET_EXCEEDED
            assert outcome.limit_trip is not None
            assert outcome.limit_trip.policy_path == "timeout.run"

    clock.run(main())


async def forever() -> None:
    """Say nothing more."""
    await asyncio.Event().wait()


@pytest.mark.requirement("KIT-32")
@pytest.mark.parametrize(
    ("script", "limits", "seconds"),
    [
        ([forever], {"first_event": "100s"}, 100),
        ([forever], {"iteration": "90s", "first_event": "unbounded"}, 90),
        ([[TextChunk(0, "Well")], forever], {"stream_idle": "30s", "first_event": "5s"}, 30),
        ([[TextChunk(0, "Well")], forever], {"iteration": "40s", "stream_idle": "unbounded"}, 40),
        ([[ReasoningChunk(0, "Hm")], forever], {"thinking_idle": "70s", "stream_idle": "5s"}, 70),
    ],
)
def test_a_scripted_model_that_is_silent_meets_the_limits_of_its_call(
    script: list[object], limits: dict[str, str], seconds: int
) -> None:
    clock, told = FakeClock(), EventCollector()

    async def main() -> None:
        async with scripted(script) as runtime:
            policies = {"timeout": limits, "retry": {"max_attempts": 1}}
            turn = asyncio.create_task(runtime.run_turn("x", on_event=told, policies=policies))
            await told.until("iteration 1 started")
            await clock.advance(seconds - 1)
            assert not turn.done()
            await clock.advance(2)
            failure = (await turn).outcome.failure
            assert failure is not None
            assert failure.reason is Reason.PROVIDER_TIMEOUT

    clock.run(main())


@pytest.mark.requirement("KIT-32")
def test_what_a_gate_raises_itself_is_no_limit_of_the_call() -> None:
    async def late() -> None:
        raise TimeoutError("the test's own")

    async def main() -> None:
        async with scripted([late]) as runtime:
            failure = (await runtime.run_turn("x")).outcome.failure
            assert failure is not None
            assert failure.reason is Reason.INTERNAL

    FakeClock().run(main())
