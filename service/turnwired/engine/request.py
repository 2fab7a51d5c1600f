"""What the model calls of one run have in common, made and checked before the run exists.

Knows the provider by its port. The messages, and what changes from iteration to iteration, are added by the execution.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace

from turnwired.domain.errors import FieldViolation, InvalidRequest
from turnwired.domain.failure import Reason
from turnwired.domain.model import GenerationOptions, ModelSelection
from turnwired.domain.run import Agent, TurnSpec
from turnwired.domain.tool import ToolChoice, ToolChoiceMode
from turnwired.engine.ports import CompileOutput
from turnwired.policy.bounds import Bounds
from turnwired.policy.options import inherited
from turnwired.providers.port import CallLimits, ModelProvider, ModelRequest
from turnwired.turn.setup import OutputCheck

NO_TOOLS = ToolChoice(ToolChoiceMode.NONE)
_OPTIONS = "turn.model.options."
_SCHEMA = "turn.output_format.json_schema"


def selected(asked: ModelSelection | None, default: ModelSelection) -> ModelSelection:
    """The model to call. Options that the request leaves open are the agent's only with the agent's own model."""
    if asked is None:
        return default
    own = not asked.provider and not asked.model
    return replace(
        asked,
        provider=asked.provider or default.provider,
        model=asked.model or (default.model if asked.provider in ("", default.provider) else ""),
        options=inherited(asked.options, default.options) if own else asked.options,
    )


def output_check(spec: TurnSpec, compile_output: CompileOutput) -> OutputCheck | None:
    """How the run's final answer is checked; None: free text. Raises InvalidRequest for a schema that is none."""
    if spec.output_format is None:
        return None
    check = compile_output(spec.output_format.json_schema)
    if isinstance(check, str):
        raise InvalidRequest([FieldViolation(_SCHEMA, check)])
    return check


def base_request(
    spec: TurnSpec, agent: Agent, model: ModelSelection, bounds: Bounds, choice: ToolChoice
) -> ModelRequest:
    """The request of the run's first model call without its messages and tools."""
    return ModelRequest(
        model=model.model,
        messages=(),
        # Who must not call tools is offered none: there is nothing to forbid.
        tool_choice=ToolChoice() if choice.mode is ToolChoiceMode.NONE else choice,
        parallel_tool_calls=False if bounds.max_parallel_calls == 1 else None,
        max_output_tokens=bounds.max_output_tokens,
        reasoning_effort=bounds.reasoning_effort,
        options=model.options,
        output_format=spec.output_format,
        cache_key=cache_key(spec, agent),
        provider_options=_provider_options(model),
        limits=CallLimits(
            total=bounds.iteration_timeout,
            first_event=bounds.first_event_timeout,
            idle=bounds.stream_idle_timeout,
            thinking_idle=bounds.thinking_idle_timeout,
        ),
    )


def require_supported(provider: ModelProvider, request: ModelRequest, spec: TurnSpec, agent: Agent) -> None:
    """Raises InvalidRequest (OPTION_NOT_SUPPORTED) for what the provider has no place for."""
    violations = provider.check(request)
    if violations:
        told = [_with_origin(violation, spec, agent) for violation in violations]
        raise InvalidRequest(told, Reason.OPTION_NOT_SUPPORTED)


def without_tools(provider: ModelProvider, request: ModelRequest) -> ModelRequest:
    """The request for an answer without calls.

    Tools that earlier requests had stay where the provider can be told not to call them: the prefix stays the same,
    and some providers refuse a history with calls of tools that they are not shown.
    """
    if not request.tools:
        return request
    forbidding = replace(request, tool_choice=NO_TOOLS, parallel_tool_calls=None)
    if not provider.check(forbidding):
        return forbidding
    return replace(request, tools=b"", offered=(), tool_choice=ToolChoice(), parallel_tool_calls=None)


def cache_key(spec: TurnSpec, agent: Agent) -> str:
    """Equal for requests that begin alike: those of a session, else those of an agent. Says nothing to a provider."""
    kind, name = ("session", spec.session_id) if spec.session_id is not None else ("agent", agent.agent_id)
    named = json.dumps([kind, spec.caller.tenant, name])
    return hashlib.sha256(named.encode()).hexdigest()[:32]


def _with_origin(violation: FieldViolation, spec: TurnSpec, agent: Agent) -> FieldViolation:
    """Says so when the value is not the request's but the agent's."""
    if not violation.field.startswith(_OPTIONS):
        return violation
    name = violation.field.removeprefix(_OPTIONS).partition(".")[0].partition("[")[0]
    asked = spec.model.options if spec.model is not None else GenerationOptions()
    if getattr(asked, name, None) != getattr(GenerationOptions(), name, None):
        return violation
    return FieldViolation(violation.field, f"{violation.description} (set in agents.{agent.agent_id}.options)")


def _provider_options(model: ModelSelection) -> Mapping[str, object]:
    options: object = json.loads(model.provider_options_json) if model.provider_options_json else {}
    return options if isinstance(options, dict) else {}  # the request was checked: it is an object
