"""A hook that the service under test loads by name: it writes down what it is told."""

from __future__ import annotations

import os
from pathlib import Path

from turnwired.engine.hooks import HookEvent, SettledRun


class Ledger:
    """A line for each event and each end."""

    def on_event(self, event: HookEvent) -> None:
        """An event."""
        self._write(f"event {event.event_id}")

    def on_settle(self, settled: SettledRun) -> None:
        """The end."""
        assert settled.run.outcome is not None
        self._write(f"settled {settled.record_id} {settled.run.outcome.kind.value}")

    def _write(self, line: str) -> None:
        with Path(os.environ["LEDGER"]).open("a", encoding="utf-8") as ledger:
            ledger.write(line + "\n")
