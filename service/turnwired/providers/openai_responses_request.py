"""The body of a Responses request, joined from kept bytes, and what of a request the wire has no place for. Knows the
profile's fields and no server by name.

Nothing is kept at the provider (``store`` false): reasoning comes back encrypted and is given back with the history. A
history of a megabyte is joined, never decoded or encoded again. Source: OpenAI API reference, "Create a model response"
and "Get input token counts".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from turnwired.domain.errors import FieldViolation
from turnwired.domain.failure import Reason
from turnwired.domain.model import GenerationOptions, OutputFormat, ThinkingMode
from turnwired.domain.tool import ToolChoiceMode
from turnwired.providers.errors import provider_failure
from turnwired.providers.output_instruction import output_instruction
from turnwired.providers.port import ModelRequest
from turnwired.providers.profiles import Profile, PromptCache, StructuredOutput
from turnwired.providers.schema_adaptation import strict_form

# What options must not replace: it is decided elsewhere, and a limit that an option lifts would be no limit.
RESERVED = frozenset(
    {
        "model",
        "input",
        "instructions",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "max_output_tokens",
        "stream",
        "background",
        "conversation",
        "previous_response_id",
        "prompt",
    }
)
OPTIONS = ("temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty", "seed", "stop_sequences")
"""Options that a profile may name a field for; thinking is told by the effort."""
_OPTION_FIELDS = {"temperature": "temperature", "top_p": "top_p"}
_OPTIONS_PATH = "turn.model.options"
_NONE = "none"
_EFFORT_OF_ENABLED = "medium"
_COUNTED = ("tools", "tool_choice", "parallel_tool_calls", "reasoning", "text")
_DEFAULT_NAME = "answer"
_NAME = re.compile(r"[^A-Za-z0-9_-]")


def violations(request: ModelRequest, profile: Profile) -> list[FieldViolation]:
    """What of the request the wire or the profile's server has no place for, each with what to do."""
    return [
        *_option_violations(request.options, profile),
        *_thinking_violations(request, profile),
        *_choice_violations(request, profile),
        *_provider_option_violations(request),
    ]


def encode_body(request: ModelRequest, profile: Profile) -> bytes:
    """The request body. Raises ProviderError for what the profile's server cannot be asked."""
    if found := violations(request, profile):
        raise provider_failure(
            Reason.OPTION_NOT_SUPPORTED,
            "; ".join(f"{violation.field} {violation.description}" for violation in found) + ".",
            origin=profile.name,
        )
    fields: dict[str, Any] = {**profile.body_fields, "stream": True, "store": False}
    if profile.include:
        fields["include"] = list(profile.include)
    if request.max_output_tokens is not None:
        fields["max_output_tokens"] = request.max_output_tokens
    if request.cache_key and profile.prompt_cache is PromptCache.KEY:
        fields["prompt_cache_key"] = request.cache_key
    fields.update(_asked(request, profile))
    fields = _merged(fields, request.provider_options)
    return _joined(request, profile, fields)


def encode_count(request: ModelRequest, profile: Profile) -> bytes:
    """The body of the question how many input tokens the request has."""
    asked = _merged(_asked(request, profile), request.provider_options)
    counted_fields = {name: asked[name] for name in _COUNTED if name in asked}
    return _joined(request, profile, {**profile.body_fields, **counted_fields})


def counted(value: object) -> int | None:
    """The number in the answer to that question."""
    tokens = value.get("input_tokens") if isinstance(value, dict) else None
    return tokens if type(tokens) is int and tokens >= 0 else None


def _joined(request: ModelRequest, profile: Profile, fields: Mapping[str, Any]) -> bytes:
    head = b"{"
    if profile.model_in_body:
        head += b'"model":' + msgspec.json.encode(request.model) + b","
    if instructions := _instructions(request, profile):
        head += b'"instructions":' + instructions + b","
    if fields:
        head += msgspec.json.encode(fields)[1:-1] + b","
    kept = [piece for piece in request.messages if piece] or [b""]
    # One join: a second copy of a megabyte costs as much as sending it.
    kept[0] = head + b'"input":[' + kept[0]
    kept[-1] += b"]}"
    return b",".join(kept)


def _asked(request: ModelRequest, profile: Profile) -> dict[str, Any]:
    """What the request asks for, as far as the server's answer depends on it."""
    fields: dict[str, Any] = {}
    for name, value in _options(request.options):
        if wire_name := _wire_name(name, profile):
            fields[wire_name] = value
    if effort := _effort(request):
        fields["reasoning"] = {"effort": effort}
    if request.tools:
        fields["tools"] = msgspec.Raw(request.tools)
        choice = _tool_choice(request)
        if choice is not None:
            fields["tool_choice"] = choice
        if request.parallel_tool_calls is not None and profile.parallel_tool_calls:
            fields["parallel_tool_calls"] = request.parallel_tool_calls
    if request.output_format is not None and _held(request, profile):
        form = _format(request.output_format, profile)
        fields.update({"text": {"format": form}} if form else {})
    return fields


def _merged(fields: dict[str, Any], options: Mapping[str, object]) -> dict[str, Any]:
    """Options come last. Objects of both are merged, so that a summary of reasoning does not take its effort away."""
    for name, value in options.items():
        ours = fields.get(name)
        if isinstance(ours, dict) and isinstance(value, Mapping):
            fields[name] = {**ours, **value}
        elif isinstance(ours, list) and isinstance(value, list):
            fields[name] = [*ours, *(entry for entry in value if entry not in ours)]
        else:
            fields[name] = value
    return fields


def _instructions(request: ModelRequest, profile: Profile) -> bytes:
    """The system blocks, and the schema in words where the server cannot be held to it otherwise."""
    wanted = request.output_format
    by_itself = profile.structured_output is StructuredOutput.JSON_SCHEMA and _held(request, profile)
    if wanted is None or by_itself:
        return request.system
    told = msgspec.json.encode(output_instruction(wanted, tools=bool(request.tools)))
    return request.system[:-1] + b"\\n\\n" + told[1:] if request.system else told


def _held(request: ModelRequest, profile: Profile) -> bool:
    """Whether the server takes a format beside what the request offers."""
    return profile.structured_output_with_tools or not request.tools


def _format(wanted: OutputFormat, profile: Profile) -> dict[str, Any] | None:
    match profile.structured_output:
        case StructuredOutput.JSON_SCHEMA:
            schema, strict = strict_form(
                wanted.json_schema,
                profile.schema_adaptations,
                profile.strict_optional_properties,
                profile.strict_unions,
            )
            name = _NAME.sub("_", wanted.name)[:64] or _DEFAULT_NAME
            return {"type": "json_schema", "name": name, "schema": msgspec.Raw(schema.encode()), "strict": strict}
        case StructuredOutput.JSON_OBJECT:
            return {"type": "json_object"}
        case StructuredOutput.PROMPT:
            return None


def _effort(request: ModelRequest) -> str:
    match request.options.thinking.mode:
        case ThinkingMode.DISABLED:
            return _NONE
        case ThinkingMode.ENABLED:
            # Newer models do not reason unless told how much.
            return request.reasoning_effort or _EFFORT_OF_ENABLED
        case ThinkingMode.UNSPECIFIED | ThinkingMode.ADAPTIVE:  # reasoning adapts by itself on this wire
            return request.reasoning_effort or ""


def _tool_choice(request: ModelRequest) -> str | dict[str, Any] | None:
    choice = request.tool_choice
    if choice.routed_name is not None:
        return {"type": "function", "name": choice.routed_name}
    match choice.mode:
        case ToolChoiceMode.UNSPECIFIED | ToolChoiceMode.AUTO:
            return None  # what every server does anyway
        case ToolChoiceMode.NONE | ToolChoiceMode.REQUIRED:
            return choice.mode.lower()


# --- What cannot be told ----------------------------------------------------------------------------------------------


def _options(options: GenerationOptions) -> Iterator[tuple[str, object]]:
    for name in OPTIONS:
        value: object = getattr(options, name)
        if value is not None and value != ():
            yield name, value


def _wire_name(name: str, profile: Profile) -> str:
    return profile.option_fields.get(name, _OPTION_FIELDS.get(name, ""))


def _option_violations(options: GenerationOptions, profile: Profile) -> Iterator[FieldViolation]:
    for name, _ in _options(options):
        if not _wire_name(name, profile):
            yield FieldViolation(f"{_OPTIONS_PATH}.{name}", f"has no place at provider {profile.name}: leave it out")


def _thinking_violations(request: ModelRequest, profile: Profile) -> Iterator[FieldViolation]:
    thinking, path = request.options.thinking, f"{_OPTIONS_PATH}.thinking"
    where = f"has no place at provider {profile.name}"
    if not profile.reasoning_effort_field:
        if thinking.mode is not ThinkingMode.UNSPECIFIED:
            yield FieldViolation(f"{path}.mode", f"{where}: leave it out")
        if request.reasoning_effort:
            yield FieldViolation("turn.policy.output.reasoning_effort", f"{where}: leave it out")
    elif thinking.mode is ThinkingMode.DISABLED and request.reasoning_effort not in {None, "", _NONE}:
        yield FieldViolation(f"{path}.mode", "is DISABLED while output.reasoning_effort asks for reasoning: set one")
    if thinking.budget_tokens is not None:
        yield FieldViolation(f"{path}.budget_tokens", f"{where}: set output.reasoning_effort instead")


def _choice_violations(request: ModelRequest, profile: Profile) -> Iterator[FieldViolation]:
    choice, path = request.tool_choice, "turn.tools.choice"
    if choice.routed_name is not None:
        if not profile.named_tool_choice:
            yield FieldViolation(path, f"provider {profile.name} cannot be told to call one tool: narrow the tools")
    elif choice.mode in {ToolChoiceMode.NONE, ToolChoiceMode.REQUIRED} and choice.mode not in profile.tool_choice:
        yield FieldViolation(path, f"provider {profile.name} does not know the choice {choice.mode}: leave it out")


def _provider_option_violations(request: ModelRequest) -> Iterator[FieldViolation]:
    path = "turn.model.provider_options_json"
    for name in sorted(RESERVED & request.provider_options.keys()):
        yield FieldViolation(path, f"cannot set {name} directly: use the fields of the turn and the policy")
    text = request.provider_options.get("text")
    if request.output_format is not None and isinstance(text, Mapping) and "format" in text:
        yield FieldViolation(path, "cannot set text.format beside an output format: set one")
