"""What a run has been given before it begins: the seam between preparing and executing it."""

from __future__ import annotations

from dataclasses import dataclass, field

from turnwired.context.prompt import Prompt
from turnwired.domain.failure import Failure
from turnwired.domain.run import Caller, Run, TurnSpec
from turnwired.engine.budgets import Purse
from turnwired.engine.run_tools import RunTools
from turnwired.policy.bounds import Bounds
from turnwired.providers.port import ModelProvider, ModelRequest
from turnwired.telemetry.port import RunTelemetry
from turnwired.turn.effects import CallModel
from turnwired.turn.facts import ToolsRevised

MAX_RESULT_BYTES = 3 << 20
"""Bytes of one result, whatever the policy says: an event must fit the 4 MiB that gRPC clients take by default."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a run needs beside its machine. ``provider`` is None when preparation failed with ``failure``.

    ``request`` is what its model calls have in common. ``purse``: the budgets that bind the run; None: there are none.
    ``sessions``: its own, and those of the runs above it, whose totals it counts in. ``acting``: as whom it calls
    tools.
    """

    spec: TurnSpec
    run: Run
    bounds: Bounds
    tools: RunTools | None
    provider: ModelProvider | None
    prompt: Prompt | None
    request: ModelRequest
    telemetry: RunTelemetry
    failure: Failure | None = None
    purse: Purse | None = None
    sessions: tuple[str, ...] = ()
    acting: Caller = field(default_factory=Caller)

    @property
    def longest_result(self) -> int:
        """Bytes of the longest result of a call of this run."""
        return min(self.bounds.max_result_bytes or MAX_RESULT_BYTES, MAX_RESULT_BYTES)

    async def revised(self, call: CallModel) -> ToolsRevised | None:
        """Take over, between two iterations, what changed of the tools. None: nothing did."""
        tools, prompt = self.tools, self.prompt
        if tools is None or prompt is None or call.iteration == 1 or call.attempt > 1 or not call.offer_tools:
            return None
        changes = await tools.revise()
        if changes is None:
            return None
        if any(change.added or change.updated for change in changes):
            prompt.offer(tools.shown)
        self.telemetry.tools_known(tools.view.tools)
        return ToolsRevised(call.iteration, call.attempt, tools.refs, changes)
