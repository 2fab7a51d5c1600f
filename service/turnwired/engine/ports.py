"""What the engine is wired with. ``app.py`` and tests fill it; nothing here knows an adapter."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from turnwired.domain.completion import CompletionHook
from turnwired.domain.model import ModelSelection
from turnwired.domain.policy import Policy
from turnwired.domain.run import Agent
from turnwired.domain.usage import Cost, Usage
from turnwired.engine.hooks import Hook
from turnwired.policy.merge import Layer
from turnwired.providers.port import ModelProvider
from turnwired.store.port import Store
from turnwired.telemetry.port import Telemetry
from turnwired.tools.port import ToolRegistry
from turnwired.turn.setup import OutputCheck

PriceOf = Callable[[ModelSelection], Awaitable[Callable[[Usage, int], Cost | None]]]
"""Finds the price of a model; what it gives is pure."""


CompileOutput = Callable[[str], OutputCheck | str]
"""The check of answers for a JSON Schema, or in words why it cannot be used."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Limits of the whole process. ``default_agent`` runs when a request names none.

    ``max_run_depth``: how many runs may stand above a run that is made on behalf of another. ``leave_waiting``: the end
    of the process leaves runs that wait for their callers to the next one; off where the store does not outlive the
    process. ``polling_tools``: routed names of tools that may be called again and again with the same arguments.
    ``principals`` are those that agents may run as, with their roles, and ``tenants`` theirs.
    """

    default_agent: str
    max_active_runs: int = 2000
    max_run_depth: int = 4
    heartbeat_seconds: float = 15.0
    leave_waiting: bool = True
    deployment_policy: Policy = field(default_factory=Policy)
    deployment_ref: str = ""
    ceiling: Layer | None = None
    polling_tools: frozenset[str] = frozenset()
    principals: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    tenants: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Wiring:
    """The adapters and data that the engine works with."""

    config: EngineConfig
    agents: Mapping[str, Agent]
    providers: Mapping[str, ModelProvider]
    default_model: ModelSelection
    registry: ToolRegistry
    store: Store
    telemetry: Telemetry
    price_of: PriceOf
    compile_output: CompileOutput
    hooks: tuple[Hook, ...] = ()
    random: Callable[[], float] = random.random
    completion_hooks: Mapping[str, CompletionHook] = field(default_factory=dict[str, CompletionHook])
