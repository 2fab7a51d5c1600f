"""What a text delta does in the machine: no more for a long answer than for a short one. Counts, so that no computer is
too busy for it; microseconds are the benchmark's (bench/micro.py).
"""

from __future__ import annotations

import sys
import tracemalloc
from types import FrameType

import pytest
from turn.machinekit import Driven

from turnwired.domain.generation import TextChunk
from turnwired.turn.facts import ModelProduced

SHORT, LONG = 10, 10_000
TEXT = "a few words of an answer "


def driven(deltas: int) -> Driven:
    """A machine whose answer has so many deltas."""
    machine = Driven()
    for _ in range(deltas):
        machine.produced(TextChunk(0, TEXT))
    return machine


def python_calls(machine: Driven) -> int:
    """Functions of ours that one more delta calls."""
    fact = ModelProduced(1, 1, (TextChunk(0, TEXT),))
    calls = 0

    def count(frame: FrameType, what: str, value: object) -> None:
        nonlocal calls
        # Not those of whoever watches the garbage collector, which may run at any time.
        calls += what == "call" and "turnwired" in frame.f_code.co_filename

    feed = machine.machine.feed
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        feed(fact)
    finally:
        sys.setprofile(before)
    return calls


def bytes_at_once(machine: Driven) -> int:
    """The most memory that one more delta takes while it is handled; the least of some, since lists grow in leaps."""
    feed = machine.machine.feed
    facts = [ModelProduced(1, 1, (TextChunk(0, TEXT),)) for _ in range(8)]
    found: list[int] = []
    tracemalloc.start()
    try:
        for fact in facts:
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            feed(fact)
            found.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    return min(found)


@pytest.mark.requirement("TURN-25")
def test_a_text_delta_calls_as_little_in_a_long_answer_as_in_a_short_one() -> None:
    short = python_calls(driven(SHORT))
    assert 0 < short <= 10
    assert python_calls(driven(LONG)) == short


@pytest.mark.requirement("TURN-25")
def test_a_text_delta_copies_nothing_of_the_answer_so_far() -> None:
    short, long = bytes_at_once(driven(SHORT)), bytes_at_once(driven(LONG))
    assert long <= short + 100, f"the answer has {LONG * len(TEXT)} characters"
