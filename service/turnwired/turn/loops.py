"""Whether a call goes round in circles: the same calls with the same results, over and over. Pure, and of bounded size.

Repetition is a property of sequences: one call again and again, or a short cycle of calls. A call that is repeated and
gives something new is no circle; neither are equal calls side by side in one answer. What is done about a circle, and
by whom, is not said here.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from turnwired.domain.message import ToolResult

MAX_PERIOD = 4
"""Calls of the longest cycle that is seen."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """What repeats: a cycle of ``period`` calls, ``times`` times before this call, which begins or goes on with it."""

    period: int
    times: int


@dataclass(frozen=True, slots=True)
class _Done:
    call: bytes
    result: bytes


class Loops:
    """The calls of one run as far back as matters.

    ``threshold``: repetitions after which the next equal call is a circle; 0: none ever is. Calls of the tools
    ``polling`` (routed names) are never one, and no part of one.
    """

    def __init__(self, threshold: int, polling: Collection[str] = ()) -> None:
        self._threshold = threshold
        self._polling = polling
        self._done: deque[_Done] = deque(maxlen=max(threshold, 2) * MAX_PERIOD if threshold else 0)
        self._polled = 0

    def repeated(self, calls: Sequence[tuple[str, str]]) -> list[Repetition | None]:
        """For each call of one answer (name and arguments), in order, what it goes on repeating; None: it does not."""
        found: list[Repetition | None] = [None] * len(calls)
        if not self._threshold or len(self._done) < self._threshold:
            return found
        keys = [_key(name, arguments) for name, arguments in calls]
        done = tuple(self._done)
        for period in range(1, MAX_PERIOD + 1):
            times = self._threshold if period == 1 else max(self._threshold, 2)
            cycle = _cycle(done, period, times)
            if cycle is None:
                continue
            for place, key in enumerate(keys):
                if key != cycle[place % period]:
                    break  # here the cycle is left
                if found[place] is None and calls[place][0] not in self._polling:
                    found[place] = Repetition(period, times)
        return found

    def finished(self, name: str, arguments: str, result: ToolResult) -> None:
        """A call has its result."""
        if not self._threshold:
            return
        if name in self._polling:
            self._polled += 1
            self._done.append(_Done(_key(name, arguments), b"%d" % self._polled))  # never the same twice
            return
        content = (result.status.value, result.structured_json, [part.content for part in result.content])
        self._done.append(_Done(_key(name, arguments), _digest(repr(content))))


def _cycle(done: Sequence[_Done], period: int, times: int) -> list[bytes] | None:
    """The calls of the cycle that the last ones went through so many times; None when they did not."""
    length = period * times
    if len(done) < length:
        return None
    window = done[-length:]
    if any(window[place] != window[place - period] for place in range(period, length)):
        return None
    return [each.call for each in window[:period]]


def _key(name: str, arguments: str) -> bytes:
    """Equal for calls of one name whose arguments are equal as JSON, or equal text where they are none."""
    try:
        canonical = json.dumps(json.loads(arguments), sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        canonical = f"text {arguments}"
    return _digest(f"{name}\n{canonical}")


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
