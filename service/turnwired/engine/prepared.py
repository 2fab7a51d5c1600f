"""What a run has been given before it begins: the seam between preparing and executing it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from turnwired.context.prompt import Prompt
from turnwired.domain.failure import Failure
from turnwired.domain.run import Run, TurnSpec
from turnwired.policy.bounds import Bounds
from turnwired.providers.port import ModelProvider
from turnwired.telemetry.port import RunTelemetry
from turnwired.tools.port import ToolView


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a run needs beside its machine. ``provider`` is None when preparation failed with ``failure``."""

    spec: TurnSpec
    run: Run
    bounds: Bounds
    view: ToolView | None
    provider: ModelProvider | None
    prompt: Prompt | None
    telemetry: RunTelemetry
    failure: Failure | None = None
    provider_options: Mapping[str, object] = field(default_factory=dict[str, object])
