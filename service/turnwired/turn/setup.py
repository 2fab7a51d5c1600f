"""What a turn machine is given at its start and never changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from turnwired.domain.attachment import Attachment
from turnwired.domain.event import RunStarted
from turnwired.domain.model import CheckedOutput, ModelSelection, TraceContext
from turnwired.domain.outcome import Notice
from turnwired.domain.policy import EffectivePolicy
from turnwired.domain.tool import ToolRef
from turnwired.domain.usage import Cost, Usage
from turnwired.policy.bounds import Bounds
from turnwired.policy.permissions import Permissions

OutputCheck = Callable[[str], CheckedOutput]
"""Holds the JSON text of an answer against the schema asked for. Pure."""


def unpriced(usage: Usage, duration_ns: int) -> Cost | None:
    """The price of usage that no rate card knows: none."""
    del usage, duration_ns
    return None


@dataclass(frozen=True, slots=True)
class TurnSetup:
    """What the run is, what bounds it and which tools it has.

    ``tools`` maps routed names to tools that may be called. ``offered`` names those that the model sees at first, in
    its order; None: all of them. ``price`` is pure: usage and nanoseconds of one call to its cost, None when there is
    no price.
    ``include_trace``: also when ANSWERED. ``notices`` follow RunStarted. ``check_output``: the final
    answer must be structured; None: it is free text. ``polling_tools``: routed names of tools that may be called again
    and again. ``permissions``: which calls run, which a person is asked about, which are denied.
    """

    run_id: str
    agent_id: str
    agent_revision: int
    model: ModelSelection
    effective_policy: EffectivePolicy
    bounds: Bounds
    tools: Mapping[str, ToolRef] = field(default_factory=dict[str, ToolRef])
    offered: tuple[str, ...] | None = None
    session_id: str | None = None
    parent_run_id: str | None = None
    input_message_ids: tuple[str, ...] = ()
    trace_context: TraceContext = field(default_factory=TraceContext)
    include_trace: bool = False
    notices: tuple[Notice, ...] = ()
    price: Callable[[Usage, int], Cost | None] = unpriced
    check_output: OutputCheck | None = None
    polling_tools: frozenset[str] = frozenset()
    permissions: Permissions = field(default_factory=Permissions)
    attachments: tuple[Attachment, ...] = ()

    def started(self) -> RunStarted:
        """The run's first event."""
        return RunStarted(
            run_id=self.run_id,
            agent_id=self.agent_id,
            agent_revision=self.agent_revision,
            model=self.model,
            effective_policy=self.effective_policy,
            tool_names=tuple(self.tools) if self.offered is None else self.offered,
            session_id=self.session_id,
            parent_run_id=self.parent_run_id,
            input_message_ids=self.input_message_ids,
            trace_context=self.trace_context,
        )
