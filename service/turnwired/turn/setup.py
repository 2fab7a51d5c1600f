"""What a turn machine is given at its start and never changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from turnwired.domain.model import ModelSelection, TraceContext
from turnwired.domain.outcome import Notice
from turnwired.domain.policy import EffectivePolicy
from turnwired.domain.tool import ToolRef
from turnwired.domain.usage import Cost, Usage
from turnwired.policy.bounds import Bounds


def unpriced(usage: Usage, duration_ns: int) -> Cost | None:
    """The price of usage that no rate card knows: none."""
    del usage, duration_ns
    return None


@dataclass(frozen=True, slots=True)
class TurnSetup:
    """What the run is, what bounds it and which tools it has.

    ``tools`` maps routed names to tools, in the order in which the model sees them. ``price`` is pure: usage and
    nanoseconds of one call to its cost, None when there is no price.
    ``include_trace``: also when ANSWERED. ``notices`` follow RunStarted.
    """

    run_id: str
    agent_id: str
    agent_revision: int
    model: ModelSelection
    effective_policy: EffectivePolicy
    bounds: Bounds
    tools: Mapping[str, ToolRef] = field(default_factory=dict[str, ToolRef])
    session_id: str | None = None
    parent_run_id: str | None = None
    input_message_ids: tuple[str, ...] = ()
    trace_context: TraceContext = field(default_factory=TraceContext)
    include_trace: bool = False
    notices: tuple[Notice, ...] = ()
    price: Callable[[Usage, int], Cost | None] = unpriced
