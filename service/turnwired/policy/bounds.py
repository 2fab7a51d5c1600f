"""The effective policy as plain numbers: what the turn machine and the driver compare with. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from turnwired.domain.policy import (
    ArgumentValidation,
    CompletionMode,
    CountLimit,
    DurationLimit,
    EffectivePolicy,
    HistoryOverflowMode,
    LimitMode,
    MissingAttachmentMode,
    PolicyLayer,
    ToolErrorMode,
    ToolExecutionMode,
    WaitExpiryMode,
)
from turnwired.policy.budgets import Budget, budgets_of

T = TypeVar("T")

_HISTORY = "context.max_history_tokens"
_OUTPUT = "output.max_output_tokens"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Caps of one run, each a number or None (unbounded or left to the provider). Seconds, bytes, tokens, counts.

    Made by ``bounds_of(effective_policy)``; the loop bounds are always numbers. ``max_output_tokens`` is what has to be
    told to the provider: a limit that the model has by itself is not. Servers would count it as output to come, against
    the context, the credit or the rate limit. Nor is ``max_history_tokens`` the window of the model. A wire that cannot
    do without a number takes the profile's.
    """

    max_steps: int
    max_tool_calls: int
    max_tool_calls_per_tool: Mapping[str, int | None]
    repeated_call_threshold: int
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
    wait_timeout: float | None
    wait_expiry: WaitExpiryMode
    execution_mode: ToolExecutionMode
    completion_mode: CompletionMode
    reserved_output_tokens: int | None
    answer_at_step_bound: bool
    completion_prompt: str | None
    completion_hook: str | None
    completion_tools: bool
    max_history_tokens: int | None
    history_overflow: HistoryOverflowMode
    attachment_wait: float | None
    missing_attachments: MissingAttachmentMode
    budgets: tuple[Budget, ...] = ()


def bounds_of(effective: EffectivePolicy) -> Bounds:
    """The enforced caps of a merged policy. Raises ValueError for a policy that was not merged: a leaf is missing."""
    policy = effective.policy
    if policy.tool.argument_validation is None or policy.tool.error_mode is None:
        raise ValueError("not an effective policy: tool settings are missing")
    completion = policy.completion
    if completion.mode is None:
        raise ValueError("not an effective policy: completion settings are missing")
    return Bounds(
        max_steps=_count("loop.max_steps", policy.loop.max_steps),
        max_tool_calls=_count("loop.max_tool_calls", policy.loop.max_tool_calls),
        max_tool_calls_per_tool={
            name: _open_count(f"loop.max_tool_calls_per_tool.{name}", limit)
            for name, limit in policy.loop.max_tool_calls_per_tool.items()
        },
        repeated_call_threshold=_count("loop.repeated_call_threshold", policy.loop.repeated_call_threshold),
        max_parallel_calls=_count("tool.max_parallel_calls", policy.tool.max_parallel_calls),
        argument_validation=policy.tool.argument_validation,
        error_mode=policy.tool.error_mode,
        max_result_bytes=_open_count("tool.max_result_bytes", policy.tool.max_result_bytes),
        max_output_tokens=None
        if _is_native(effective, _OUTPUT)
        else _open_count(_OUTPUT, policy.output.max_output_tokens),
        reasoning_effort=policy.output.reasoning_effort or None,
        max_attempts=_count("retry.max_attempts", policy.retry.max_attempts),
        retry_initial_delay=_seconds("retry.initial_delay", policy.retry.initial_delay),
        retry_max_delay=_seconds("retry.max_delay", policy.retry.max_delay),
        run_timeout=_open_seconds("timeout.run", policy.timeout.run),
        iteration_timeout=_open_seconds("timeout.iteration", policy.timeout.iteration),
        first_event_timeout=_open_seconds("timeout.first_event", policy.timeout.first_event),
        stream_idle_timeout=_open_seconds("timeout.stream_idle", policy.timeout.stream_idle),
        thinking_idle_timeout=_open_seconds("timeout.thinking_idle", policy.timeout.thinking_idle),
        tool_call_timeout=_open_seconds("timeout.tool_call", policy.timeout.tool_call),
        wait_timeout=_open_seconds("timeout.wait", policy.timeout.wait),
        wait_expiry=_set("approval.wait_expiry", policy.approval.wait_expiry),
        execution_mode=_set("tool.execution_mode", policy.tool.execution_mode),
        completion_mode=completion.mode,
        reserved_output_tokens=_open_count("completion.reserved_output_tokens", completion.reserved_output_tokens),
        answer_at_step_bound=bool(completion.answer_at_step_bound),
        completion_prompt=completion.custom_prompt or None,
        completion_hook=completion.custom_hook or None,
        completion_tools=bool(completion.allow_tools),
        max_history_tokens=None
        if _is_native(effective, _HISTORY)
        else _open_count(_HISTORY, policy.context.max_history_tokens),
        history_overflow=policy.context.overflow_mode or HistoryOverflowMode.FAIL,
        attachment_wait=_open_seconds("context.attachment_wait", policy.context.attachment_wait),
        missing_attachments=policy.context.missing_attachments or MissingAttachmentMode.TELL,
        budgets=budgets_of(policy.budget),
    )


def _is_native(effective: EffectivePolicy, path: str) -> bool:
    return any(item.path == path and item.layer is PolicyLayer.PROVIDER_NATIVE for item in effective.provenance)


def _set(path: str, value: T | None) -> T:
    if value is None:
        raise ValueError(f"not an effective policy: {path} is missing")
    return value


def _count(path: str, limit: CountLimit | None) -> int:
    if limit is None or isinstance(limit, LimitMode):
        raise ValueError(f"not an effective policy: {path} has no number")
    return limit


def _open_count(path: str, limit: CountLimit | None) -> int | None:
    return None if _is_open(limit) else _count(path, limit)


def _seconds(path: str, limit: DurationLimit | None) -> float:
    if limit is None or isinstance(limit, LimitMode):
        raise ValueError(f"not an effective policy: {path} has no number")
    return float(limit)


def _open_seconds(path: str, limit: DurationLimit | None) -> float | None:
    return None if _is_open(limit) else _seconds(path, limit)


def _is_open(limit: DurationLimit | None) -> bool:
    return limit is LimitMode.UNBOUNDED or limit is LimitMode.PROVIDER_NATIVE
