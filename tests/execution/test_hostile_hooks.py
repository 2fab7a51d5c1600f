"""Hooks that do what no code of a deployment should: end the program, cancel themselves, never end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from execution.served import SECONDS, served
from execution.test_hooks import EAGER, Listening

from turnwired.domain.completion import CompletionRequest
from turnwired.domain.outcome import OutcomeKind
from turnwired.engine import hook_delivery
from turnwired.engine.completion import ask_hook
from turnwired.engine.hook_loading import hook_of
from turnwired.engine.hooks import Hook, HookEvent, Patience, SettledRun
from turnwired.testing.provider import answer

pytestmark = pytest.mark.anyio


class Uncatchable(BaseException):
    """What `except Exception` does not catch."""


def raises(error: Callable[[], BaseException]) -> Callable[[object], None]:
    """A function that raises, called in a thread."""

    def function(told: object) -> None:
        raise error()

    return function


def raises_in_the_loop(error: Callable[[], BaseException]) -> Callable[[object], object]:
    """The same, as a coroutine."""

    async def function(told: object) -> None:
        raise error()

    return function


async def cancels_itself(told: object) -> None:
    """End one's own task."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


ERRORS: list[Callable[[], BaseException]] = [
    SystemExit,
    KeyboardInterrupt,
    GeneratorExit,
    asyncio.CancelledError,
    Uncatchable,
    lambda: BaseExceptionGroup("of", [KeyboardInterrupt()]),
]


@pytest.mark.requirement("HOSTILE-12")
@pytest.mark.parametrize(
    "function",
    [*(raises(error) for error in ERRORS), *(raises_in_the_loop(error) for error in ERRORS), cancels_itself],
)
async def test_whatever_a_hook_raises_its_end_is_told_and_the_service_goes_on(
    function: Callable[[object], object],
) -> None:
    settled: asyncio.Queue[SettledRun] = asyncio.Queue()
    bad = Hook("bad", on_event=function, on_settle=settled.put, patience=EAGER)
    worse = Hook("worse", on_settle=function, patience=EAGER)
    good = Listening()
    async with served([answer("Yes."), answer("Still.")], hooks=[bad, worse, good.hook()]) as s:
        first = await s.run()
        assert (await asyncio.wait_for(settled.get(), SECONDS)).record_id == first.run_id
        second = await s.run()
        assert (await asyncio.wait_for(settled.get(), SECONDS)).record_id == second.run_id
        await s.engine.hooks.drain(SECONDS)
        assert s.engine.hooks.failed >= 4
    assert [told.record_id for told in good.settled] == [first.run_id, second.run_id]


@pytest.mark.requirement("HOSTILE-12")
async def test_a_hook_that_does_not_heed_its_cancellation_holds_up_no_run_and_no_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("turnwired.apart.UNWIND_SECONDS", 0.01)
    monkeypatch.setattr("turnwired.engine.service.HOOK_SECONDS", 0.1)
    monkeypatch.setattr(hook_delivery, "MOST_STRAY", 2)
    released = asyncio.Event()
    calls = 0

    class Stubborn:
        async def on_event(self, event: HookEvent) -> None:
            nonlocal calls
            calls += 1
            while not released.is_set():
                try:
                    await released.wait()
                except asyncio.CancelledError:
                    continue

    stubborn = replace(hook_of("stubborn", Stubborn()), patience=Patience(call=0.01, delay=0.0))
    good = Listening()
    async with asyncio.timeout(SECONDS):
        async with served([answer("Yes.")], hooks=[stubborn, good.hook()]) as s:
            seen = await s.run()
            await asyncio.wait_for(good.changed.wait(), SECONDS)
        released.set()
    assert [told.record_id for told in good.settled] == [seen.run_id]
    assert calls <= 2  # each of its calls still goes on: it is asked no more


@pytest.mark.requirement("HOSTILE-12")
@pytest.mark.parametrize("error", ERRORS)
async def test_whatever_a_completion_hook_raises_is_a_notice(error: Callable[[], BaseException]) -> None:
    def hook(request: CompletionRequest) -> str | None:
        raise error()

    request = CompletionRequest("run_1", "default", None, OutcomeKind.TOOL_ONLY, ())
    decided = await asyncio.wait_for(ask_hook(1, hook, request), SECONDS)
    assert decided.instruction is None
    assert decided.problem.startswith("The completion hook failed (")
