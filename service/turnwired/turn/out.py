"""Where the machine and its parts put their answer to one fact."""

from __future__ import annotations

from collections.abc import Iterable

from turnwired.domain.event import Event
from turnwired.turn.effects import Effect, Emitted, Step

NOTHING = Step()
"""The answer to a fact that changes nothing."""


class Out:
    """Collects the events and effects of one step, in order."""

    __slots__ = ("_effects", "_events", "iteration")

    def __init__(self, iteration: int) -> None:
        self.iteration = iteration
        self._events: list[Emitted] = []
        self._effects: list[Effect] = []

    def emit(self, event: Event) -> None:
        """Add an event of the current iteration."""
        self._events.append(Emitted(self.iteration, event))

    def emit_all(self, events: Iterable[Event]) -> None:
        """Add events of the current iteration."""
        for event in events:
            self._events.append(Emitted(self.iteration, event))

    def emit_for_run(self, event: Event) -> None:
        """Add an event that belongs to no iteration."""
        self._events.append(Emitted(0, event))

    def do(self, effect: Effect) -> None:
        """Add an effect."""
        self._effects.append(effect)

    def step(self) -> Step:
        """All of it."""
        if not self._events and not self._effects:
            return NOTHING
        return Step(tuple(self._events), tuple(self._effects))
