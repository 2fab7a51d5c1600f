"""The effective policy as plain numbers: what the turn machine and the driver compare with. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from turnwired.domain.policy import ArgumentValidation, ToolErrorMode


@dataclass(frozen=True, slots=True)
class Bounds:
    """Caps of one run, each a number or None (unbounded or left to the provider). Seconds, bytes, tokens, counts.

    Made by ``bounds_of(effective_policy)``; the loop bounds are always numbers.
    """

    max_steps: int
    max_tool_calls: int
    max_parallel_calls: int
    argument_validation: ArgumentValidation
    error_mode: ToolErrorMode
    max_result_bytes: int | None
    max_output_tokens: int | None
    reasoning_effort: str | None
    max_attempts: int
    retry_initial_delay: float
    retry_max_delay: float
    run_timeout: float | None
    iteration_timeout: float | None
    first_event_timeout: float | None
    stream_idle_timeout: float | None
    thinking_idle_timeout: float | None
    tool_call_timeout: float | None
