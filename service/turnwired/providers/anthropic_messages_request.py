"""The body of a Messages request, joined from kept bytes, and what a profile's server cannot be asked. Pure.

Knows the profile's fields and no server by name. A history of a megabyte is joined, never decoded or encoded again.
Source: Anthropic API reference, "Messages" and "Count tokens in a Message".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from turnwired.domain.errors import FieldViolation
from turnwired.domain.failure import Reason
from turnwired.domain.model import GenerationOptions, ThinkingMode
from turnwired.domain.tool import ToolChoiceMode
from turnwired.providers.anthropic_messages_content import CACHE_HERE
from turnwired.providers.errors import provider_failure
from turnwired.providers.output_instruction import output_instruction
from turnwired.providers.port import ModelRequest
from turnwired.providers.profiles import Profile, PromptCache, StructuredOutput
from turnwired.providers.schema_adaptation import strict_form

DEFAULT_MAX_TOKENS = 4096
MIN_THINKING_TOKENS = 1024

# What options must not replace: it is decided elsewhere, and a limit that an option lifts would be no limit. ``tools``
# may add what the provider runs itself.
_RESERVED = frozenset({"model", "messages", "system", "max_tokens", "stream", "tool_choice", "stop_sequences"})
# Under anthropic-version 2026-10-21 the API answers 400 to sampling parameters; where a server has them, its profile
# names them.
_OPTION_FIELDS = {"stop_sequences": "stop_sequences", "thinking": "thinking"}
_OPTIONS = ("temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty", "seed")
_COUNTED = ("thinking", "output_config")
KNOWN_OPTIONS = (*_OPTIONS, *_OPTION_FIELDS)
"""Options that a profile may name a field for."""


def encode_body(request: ModelRequest, profile: Profile) -> bytes:
    """The request body. Raises ProviderError for what the profile's server cannot be asked."""
    violations = violations_of(request, profile)
    if violations:
        raise provider_failure(
            Reason.OPTION_NOT_SUPPORTED,
            "; ".join(f"{violation.field}: {violation.description}" for violation in violations),
            origin=profile.name,
        )
    fields: dict[str, Any] = {
        **profile.body_fields,
        "max_tokens": max_tokens(request, profile),
        "stream": True,
        **_fields(request, profile),
    }
    return _joined(request, profile, fields)


def encode_count(request: ModelRequest, profile: Profile) -> bytes:
    """The body of the question for input tokens: without what only the answer depends on."""
    asked = _fields(request, profile)
    names = ("tools", "tool_choice", *_COUNTED)
    return _joined(request, profile, {**profile.body_fields, **{name: asked[name] for name in names if name in asked}})


def max_tokens(request: ModelRequest, profile: Profile) -> int:
    """The output limit, which this wire demands: the request's, else what the model can, else a common one."""
    return request.max_output_tokens or profile.limits_of(request.model).output_tokens or DEFAULT_MAX_TOKENS


def violations_of(request: ModelRequest, profile: Profile) -> Sequence[FieldViolation]:
    """What of the request the profile's server has no place for, and what to do."""
    found = [*_option_violations(request.options, profile), *_thinking_violations(request, profile)]
    name = profile.name
    if request.reasoning_effort and not profile.reasoning_effort_field:
        found.append(_violation("turn.policy.output.reasoning_effort", f"{name} cannot be told it: leave it out"))
    choice = request.tool_choice
    if choice.routed_name is not None:
        if not profile.named_tool_choice:
            found.append(_violation("turn.tools.choice", f"{name} cannot be told to call one tool: use a mode"))
    elif choice.mode not in {ToolChoiceMode.UNSPECIFIED, ToolChoiceMode.AUTO, *profile.tool_choice}:
        found.append(_violation("turn.tools.choice", f"{name} does not obey {choice.mode}: leave it out"))
    where = "turn.model.provider_options_json"
    if reserved := sorted(_RESERVED & request.provider_options.keys()):
        found.append(_violation(where, f"{', '.join(reserved)} cannot be set directly: use the fields of the policy"))
    if not _run_by_provider(request.provider_options.get("tools", [])):
        found.append(_violation(f"{where}.tools", "only tools with a type that the provider runs: declare others"))
    return found


def _option_violations(options: GenerationOptions, profile: Profile) -> list[FieldViolation]:
    found = [
        _violation(
            f"turn.model.options.{name}",
            f"{profile.name} does not take it: leave it out, or name its field in option_fields of the profile",
        )
        for name in _OPTIONS
        if getattr(options, name) is not None and not _option_field(name, profile)
    ]
    if options.stop_sequences and not _option_field("stop_sequences", profile):
        found.append(_violation("turn.model.options.stop_sequences", f"{profile.name} takes none: leave them out"))
    return found


def _thinking_violations(request: ModelRequest, profile: Profile) -> list[FieldViolation]:
    thinking = request.options.thinking
    where = "turn.model.options.thinking"
    if thinking.mode is ThinkingMode.UNSPECIFIED:
        return []
    if not _option_field("thinking", profile):
        return [_violation(where, f"{profile.name} cannot be told whether to think: leave it out")]
    if thinking.mode is ThinkingMode.DISABLED:
        return []
    found: list[FieldViolation] = []
    choice = request.tool_choice
    if choice.routed_name is not None or choice.mode is ToolChoiceMode.REQUIRED:
        found.append(_violation("turn.tools.choice", "a model that thinks cannot be made to call a tool: use AUTO"))
    if thinking.mode is ThinkingMode.ENABLED:
        limit = max_tokens(request, profile)
        budget = _budget(request, profile)
        if not MIN_THINKING_TOKENS <= budget < limit:
            rule = (
                f"at least {MIN_THINKING_TOKENS} and less than the output limit of {limit} tokens: change one of them"
            )
            found.append(_violation(f"{where}.budget_tokens", rule))
    return found


def _budget(request: ModelRequest, profile: Profile) -> int:
    """The tokens for thinking, which this wire demands: what was asked for, else half of the output."""
    budget = request.options.thinking.budget_tokens
    return max(MIN_THINKING_TOKENS, max_tokens(request, profile) // 2) if budget is None else budget


# --- fields ----------------------------------------------------------------------------------------------------------


def _fields(request: ModelRequest, profile: Profile) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name in _OPTIONS:
        if (value := getattr(request.options, name)) is not None:
            fields[_option_field(name, profile)] = value
    if request.options.stop_sequences:
        fields[_option_field("stop_sequences", profile)] = request.options.stop_sequences
    if thinking := _thinking(request, profile):
        fields[_option_field("thinking", profile)] = thinking
    if output := _output_config(request, profile):
        fields["output_config"] = output
    if profile.prompt_cache is PromptCache.BREAKPOINTS:
        fields["cache_control"] = (
            CACHE_HERE  # moves with the last block, behind the one at the end of the system blocks
        )
    options = dict(request.provider_options)
    fields.update(_tools(request, profile, options.pop("tools", [])))
    given = options.get("output_config")
    if isinstance(given, Mapping) and output:
        options["output_config"] = {**output, **given}
    return {**fields, **options}


def _thinking(request: ModelRequest, profile: Profile) -> dict[str, Any]:
    match request.options.thinking.mode:
        case ThinkingMode.UNSPECIFIED:
            return {}
        case ThinkingMode.ADAPTIVE:
            return {"type": "adaptive"}
        case ThinkingMode.ENABLED:
            return {"type": "enabled", "budget_tokens": _budget(request, profile)}
        case ThinkingMode.DISABLED:
            return {"type": "disabled"}


def _output_config(request: ModelRequest, profile: Profile) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if request.reasoning_effort:
        config["effort"] = request.reasoning_effort
    if schema := _enforceable(request, profile):
        config["format"] = {"type": "json_schema", "schema": msgspec.Raw(schema.encode())}
    return config


def _enforceable(request: ModelRequest, profile: Profile) -> str:
    """The schema that the server holds the answer to; "" when it is to be explained in words instead.

    A schema whose strict form would say something else, such as a map of free keys, is explained: this wire knows no
    form that is half strict.
    """
    wanted, beside = request.output_format, profile.structured_output_with_tools or not request.tools
    if wanted is None or not beside or profile.structured_output is not StructuredOutput.JSON_SCHEMA:
        return ""
    schema, strict = strict_form(
        wanted.json_schema, profile.schema_adaptations, profile.strict_optional_properties, profile.strict_unions
    )
    return schema if strict else ""


def _tools(request: ModelRequest, profile: Profile, own: object) -> dict[str, Any]:
    """Our tools in their order, and behind them those that the provider runs."""
    entries = [msgspec.json.encode(tool) for tool in own] if isinstance(own, list) else []
    ours = request.tools[1:-1].strip()
    if not ours and not entries:
        return {}
    fields: dict[str, Any] = {"tools": msgspec.Raw(b"[" + b",".join([*([ours] if ours else []), *entries]) + b"]")}
    choice: dict[str, Any] = {}
    if request.tool_choice.routed_name is not None:
        choice = {"type": "tool", "name": request.tool_choice.routed_name}
    else:
        match request.tool_choice.mode:
            case ToolChoiceMode.UNSPECIFIED | ToolChoiceMode.AUTO:
                pass  # what every server does anyway
            case ToolChoiceMode.NONE:
                choice = {"type": "none"}
            case ToolChoiceMode.REQUIRED:
                choice = {"type": "any"}
    if request.parallel_tool_calls is False and profile.parallel_tool_calls and choice.get("type") != "none":
        choice = {**(choice or {"type": "auto"}), "disable_parallel_tool_use": True}
    return {**fields, "tool_choice": choice} if choice else fields


def _run_by_provider(tools: object) -> bool:
    return isinstance(tools, list) and all(
        isinstance(tool, Mapping) and isinstance(tool.get("type"), str) and tool["type"] != "custom" for tool in tools
    )


def _option_field(name: str, profile: Profile) -> str:
    return profile.option_fields.get(name, _OPTION_FIELDS.get(name, ""))


def _joined(request: ModelRequest, profile: Profile, fields: Mapping[str, Any]) -> bytes:
    head = b'{"model":' + msgspec.json.encode(request.model) + b"," if profile.model_in_body else b"{"
    system = [request.system] if request.system else []
    if request.output_format is not None and not _enforceable(request, profile):
        text = output_instruction(request.output_format, tools=bool(request.tools))
        system.append(msgspec.json.encode({"type": "text", "text": text}))
    if system:
        head += b'"system":[' + b",".join(system) + b"],"
    kept = [piece for piece in request.messages if piece] or [b""]
    # One join: a second copy of a megabyte costs as much as sending it.
    kept[0] = head + b'"messages":[' + kept[0]
    rest = msgspec.json.encode(fields)[1:]
    kept[-1] += b"]" + rest if rest == b"}" else b"]," + rest
    return b",".join(kept)


def _violation(field: str, description: str) -> FieldViolation:
    return FieldViolation(field, f"{description}.")
