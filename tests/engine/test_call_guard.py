"""A model call whose adapter does not keep to its time limit is ended by the engine; other waits do not count."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

import anyio
import pytest

from turnwired import Runtime, TurnResult
from turnwired.domain.failure import Reason
from turnwired.domain.generation import ModelItem, TextChunk
from turnwired.domain.outcome import OutcomeKind
from turnwired.engine import call_guard
from turnwired.providers.port import ModelRequest
from turnwired.testing import EventCollector, FakeClock, ScriptedProvider


@dataclass(slots=True)
class Careless(ScriptedProvider):
    """An adapter that never looks at its limits. ``stubborn``: it takes being cancelled for a hiccup, once."""

    said: bool = False
    stubborn: bool = False
    ended: int = 0

    async def generate(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelItem], None]:
        """Says something, or nothing, and is silent for ever."""
        self.requests.append(request)
        try:
            if self.said:
                yield [TextChunk(0, "Once upon")]
            if self.stubborn:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    pass
            await asyncio.Event().wait()
        finally:
            self.ended += 1


def run(provider: ScriptedProvider, seconds: float, **timeout: str) -> tuple[TurnResult, list[str]]:
    """A turn whose calls may take 50 s, after so many seconds."""
    clock, told = FakeClock(), EventCollector()

    async def main() -> TurnResult:
        policies = {"timeout": {"iteration": "50s", **timeout}, "retry": {"max_attempts": 1}}
        async with Runtime({}, providers={"scripted": provider}, environ={}) as runtime:
            turn = asyncio.create_task(runtime.run_turn("Tell me a story.", on_event=told, policies=policies))
            await told.until("iteration 1 started")
            await clock.advance(50)
            assert not turn.done(), "the adapter has a moment to say so itself"
            await clock.advance(seconds - 50)
            return await turn

    return clock.run(main()), told.lines()


@pytest.mark.requirement("ENGINE-40")
@pytest.mark.parametrize("said", [False, True])
@pytest.mark.parametrize("stubborn", [False, True])
def test_a_call_whose_adapter_ignores_its_limit_is_ended_and_its_connection_left(said: bool, stubborn: bool) -> None:
    provider = Careless([], said=said, stubborn=stubborn)
    result, _ = run(provider, 52)
    assert result.outcome.kind is OutcomeKind.ERRORED
    assert result.outcome.failure is not None
    assert result.outcome.failure.reason is Reason.PROVIDER_TIMEOUT
    assert "50 s (timeout.iteration)" in result.outcome.failure.message
    assert (result.outcome.partial, result.text) == (said, "Once upon" if said else "")
    assert provider.ended == 1


@pytest.mark.requirement("ENGINE-40")
def test_a_run_that_ends_earlier_by_its_own_limit_is_not_blamed_on_the_provider() -> None:
    result, _ = run(Careless([]), 52, run="50.5s")
    assert result.outcome.kind is OutcomeKind.BUDGET_EXCEEDED


@pytest.mark.requirement("ENGINE-40")
def test_what_the_engine_itself_waits_for_is_no_time_of_the_call() -> None:
    clock = FakeClock()

    async def main() -> float:
        with call_guard.watched(10.0) as call:
            await call_guard.not_counted(call, clock_moved(100))
            left = call.deadline - anyio.current_time()
            await clock_moved(9)
        return left

    async def clock_moved(seconds: float) -> None:
        moved = asyncio.create_task(clock.advance(seconds))
        await asyncio.wait([moved])

    assert clock.run(main()) == pytest.approx(10.0 + call_guard.MARGIN_SECONDS)


@pytest.mark.requirement("ENGINE-40")
def test_a_call_without_a_limit_goes_on_until_its_run_ends() -> None:
    result, _ = run(Careless([]), 3601, iteration="unbounded", run="3600s")
    assert result.outcome.kind is OutcomeKind.BUDGET_EXCEEDED
