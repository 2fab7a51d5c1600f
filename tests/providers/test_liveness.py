"""Time limits of a call, on a clock that the test turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from turnwired.providers.liveness import FINISH_GRACE, Limit, Liveness
from turnwired.providers.port import CallLimits


class Timer:
    """A timer of the clock."""

    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when, self.callback = when, callback
        self.live = True

    def cancel(self) -> None:
        """Never call back."""
        self.live = False


class Clock:
    """What Liveness asks of an event loop."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        """Seconds."""
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call back once the clock is there."""
        timer = Timer(when, callback)
        self.timers.append(timer)
        return timer

    def turn(self, seconds: float) -> None:
        """Let time pass and call what is due, in order."""
        end = self.now + seconds
        while due := sorted((t for t in self.timers if t.live and t.when <= end), key=lambda t: t.when):
            due[0].live = False
            self.now = max(self.now, due[0].when)
            due[0].callback()
        self.now = end


class Call:
    """A watched call."""

    def __init__(self, limits: CallLimits) -> None:
        self.clock = Clock()
        self.expired: list[float] = []
        loop = cast("asyncio.AbstractEventLoop", self.clock)
        self.live = Liveness(limits, lambda: self.expired.append(self.clock.now), loop)

    def silence(self, seconds: float) -> bool:
        """Whether a read that waits so long runs into a limit."""
        self.live.reading()
        self.clock.turn(seconds)
        self.live.read()
        return self.live.reached


LIMITS = CallLimits(total=100, first_event=10, idle=2, thinking_idle=30)


@pytest.mark.requirement("TRANSPORT-1")
def test_the_first_event_is_waited_for_so_long() -> None:
    call = Call(LIMITS)
    assert not call.silence(9.9)
    assert call.silence(0.2)
    assert (call.expired, call.live.limit) == ([10.0], Limit.FIRST_EVENT)


@pytest.mark.requirement("TRANSPORT-2")
def test_content_re_arms_the_idle_limit_and_nothing_else_does() -> None:
    call = Call(LIMITS)
    for _ in range(20):
        call.live.content()
        assert not call.silence(1.5)
    assert not call.silence(0.25)
    assert call.silence(0.5)
    assert (call.expired, call.live.limit) == ([30.5], Limit.IDLE)


@pytest.mark.requirement("TRANSPORT-1")
def test_thinking_may_be_silent_for_longer() -> None:
    call = Call(LIMITS)
    call.live.thinking()
    assert not call.silence(29)
    assert call.silence(2)
    assert call.live.limit is Limit.THINKING_IDLE


@pytest.mark.requirement("TRANSPORT-1")
def test_thinking_without_a_limit_of_its_own_is_idle() -> None:
    call = Call(CallLimits(idle=2))
    call.live.thinking()
    assert call.silence(3)
    assert call.live.limit is Limit.IDLE


@pytest.mark.requirement("TRANSPORT-1")
def test_content_cannot_push_the_total_out() -> None:
    call = Call(LIMITS)
    for _ in range(99):
        call.live.content()
        assert not call.silence(1)
    call.live.content()
    assert call.silence(1.5)
    assert (call.expired, call.live.limit) == ([100.0], Limit.TOTAL)


@pytest.mark.requirement("TRANSPORT-1")
def test_a_slow_consumer_is_no_silent_provider() -> None:
    call = Call(LIMITS)
    call.live.content()
    assert not call.silence(1)
    call.clock.turn(50)
    assert not call.live.reached
    assert not call.silence(0.04)  # what had come meanwhile is read now
    call.live.content()
    assert not call.silence(1.9)


@pytest.mark.requirement("TRANSPORT-1")
def test_a_shorter_limit_counts_at_once() -> None:
    call = Call(LIMITS)
    call.live.reading()
    call.live.content()
    assert call.silence(2.1)


@pytest.mark.requirement("TRANSPORT-7")
def test_after_the_finish_reason_there_is_a_short_grace_that_nothing_renews() -> None:
    call = Call(CallLimits())
    call.live.finishing()
    assert not call.silence(FINISH_GRACE - 1)
    call.live.finishing()
    assert call.silence(1.1)


@pytest.mark.requirement("TRANSPORT-1")
def test_without_limits_nothing_expires_and_a_stopped_call_keeps_no_timer() -> None:
    call = Call(CallLimits())
    assert not call.silence(1e6)
    watched = Call(LIMITS)
    watched.live.reading()
    watched.live.stop()
    watched.clock.turn(1e6)
    assert watched.expired == []
