"""What a run has been given before it begins: the seam between preparing and executing it."""

from __future__ import annotations

from dataclasses import dataclass

from turnwired.context.prompt import Prompt
from turnwired.domain.failure import Failure
from turnwired.domain.run import Run, TurnSpec
from turnwired.engine.budgets import Purse
from turnwired.policy.bounds import Bounds
from turnwired.providers.port import ModelProvider, ModelRequest
from turnwired.telemetry.port import RunTelemetry
from turnwired.tools.port import ToolView


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a run needs beside its machine. ``provider`` is None when preparation failed with ``failure``.

    ``request`` is what its model calls have in common. ``purse``: the budgets that bind the run; None: there are none.
    ``sessions``: its own, and those of the runs above it, whose totals it counts in.
    """

    spec: TurnSpec
    run: Run
    bounds: Bounds
    view: ToolView | None
    provider: ModelProvider | None
    prompt: Prompt | None
    request: ModelRequest
    telemetry: RunTelemetry
    failure: Failure | None = None
    purse: Purse | None = None
    sessions: tuple[str, ...] = ()
