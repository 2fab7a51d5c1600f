"""What a text delta costs in the machine. The bound is loose, so that a busy computer does not fail it."""

from __future__ import annotations

import time

import pytest
from turn.machinekit import Driven

from turnwired.domain.generation import TextChunk
from turnwired.turn.facts import ModelProduced

BATCHES = 5_000
MICROSECONDS = 40.0
"""About 3 are measured on an idle computer; a copy of the state or of the text so far would cost hundreds."""


def microseconds_per_feed(batches: int = BATCHES) -> float:
    """The best of five runs of one-chunk batches."""
    facts = [ModelProduced(1, 1, (TextChunk(0, f"word {n} "),)) for n in range(batches)]
    best = float("inf")
    for _ in range(5):
        feed = Driven().machine.feed
        began = time.perf_counter()
        for fact in facts:
            feed(fact)
        best = min(best, time.perf_counter() - began)
    return best / batches * 1e6


@pytest.mark.requirement("TURN-25")
def test_a_text_delta_passes_the_machine_in_a_few_microseconds() -> None:
    assert microseconds_per_feed() < MICROSECONDS


@pytest.mark.requirement("TURN-25")
def test_the_cost_of_a_delta_does_not_grow_with_the_answer() -> None:
    short, long = microseconds_per_feed(500), microseconds_per_feed(10_000)
    assert long < short * 5
