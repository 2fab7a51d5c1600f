"""The body of a chat completions request, joined from kept bytes. Knows the profile's fields and no server by name.

A history of a megabyte is joined, never decoded or encoded again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from turnwired.domain.errors import ConfigError, FieldViolation
from turnwired.domain.failure import Reason
from turnwired.domain.model import OutputFormat
from turnwired.domain.tool import ToolChoiceMode
from turnwired.providers.errors import provider_failure
from turnwired.providers.openai_chat_json import turn_format
from turnwired.providers.openai_chat_native import joined
from turnwired.providers.openai_chat_options import option_places, put, put_options, untold
from turnwired.providers.output_instruction import output_instruction
from turnwired.providers.port import ModelRequest
from turnwired.providers.profiles import Profile, PromptCache, StructuredOutput, ToolCalling
from turnwired.providers.schema_adaptation import strict_form

# What options must not replace: it is decided elsewhere, and a limit that an option lifts would be no limit.
_RESERVED = frozenset(
    {
        "model",
        "messages",
        "tools",
        "functions",
        "stream",
        "stream_options",
        "n",
        "best_of",  # more answers, of which one is seen and all are paid
        "n_predict",  # llama.cpp: the output limit under another name, which wins
        "n_cmpl",
        "max_tokens",
        "max_completion_tokens",
        "tool_choice",
        "parallel_tool_calls",
    }
)
_SYSTEM = b'{"role":"system","content":"'
_OPTIONS = "turn.model.provider_options_json"
_CHOICE = "turn.tools.choice"
_EFFORT = "turn.policy.output.reasoning_effort"
_FORMAT = "turn.output_format"


class ChatRequests:
    """Makes the requests of one profile."""

    def __init__(self, profile: Profile) -> None:
        """Raises ConfigError for a profile whose fields cannot be read."""
        self._profile = profile
        self._places = option_places(profile)
        self._by_schema = profile.tool_calling is ToolCalling.JSON_SCHEMA
        if profile.prompt_cache is PromptCache.BREAKPOINTS:
            raise ConfigError(f"providers.{profile.name}.prompt_cache: chat completions know key or none.")
        self._reserved = _RESERVED | {profile.output_tokens_field.partition(".")[0]}

    def violations(self, request: ModelRequest) -> list[FieldViolation]:
        """What of the request the server cannot be asked, as paths below the turn."""
        profile = self._profile
        found = untold(request.options, self._places)
        if request.reasoning_effort and not profile.reasoning_effort_field:
            found.append(_unsupported(profile, _EFFORT, "a reasoning effort"))
        if reserved := sorted(self._reserved & request.provider_options.keys()):
            names = ", ".join(reserved)
            told = f"The provider options {names} cannot be set directly: use the fields of the policy."
            found.append(FieldViolation(_OPTIONS, told))
        if "response_format" in request.provider_options:
            if request.output_format is not None:
                told = "A response format among the provider options beside an output format: leave one of them out."
                found.append(FieldViolation(_FORMAT, told))
            elif self._by_schema and request.tools:
                found.append(_unsupported(profile, _OPTIONS, "a response format beside tools"))
        if not self._by_schema:
            found += self._unmet_choice(request)
        return found

    def _unmet_choice(self, request: ModelRequest) -> list[FieldViolation]:
        """The tool choice that native calls cannot obey. NONE needs no obedience where no tools are sent."""
        profile, choice = self._profile, request.tool_choice
        if choice.routed_name is not None:
            return [] if profile.named_tool_choice else [_unsupported(profile, _CHOICE, "the choice of one tool")]
        match choice.mode:
            case ToolChoiceMode.UNSPECIFIED | ToolChoiceMode.AUTO:
                return []
            case ToolChoiceMode.NONE if not request.tools:
                return []
            case ToolChoiceMode.NONE | ToolChoiceMode.REQUIRED:
                if choice.mode in profile.tool_choice:
                    return []
                return [_unsupported(profile, _CHOICE, f"the tool choice {choice.mode}")]

    def body(self, request: ModelRequest) -> bytes:
        """The request body. Raises ProviderError for what the server cannot be asked."""
        profile = self._profile
        if found := self.violations(request):
            message = " ".join(violation.description for violation in found)
            raise provider_failure(Reason.OPTION_NOT_SUPPORTED, message, origin=profile.name)
        fields: dict[str, Any] = {**profile.body_fields, "stream": True}
        if profile.usage_option:
            fields["stream_options"] = {"include_usage": True}
        if request.max_output_tokens is not None:
            put(fields, tuple(profile.output_tokens_field.split(".")), request.max_output_tokens)
        if request.reasoning_effort:
            put(fields, tuple(profile.reasoning_effort_field.split(".")), request.reasoning_effort)
        put_options(fields, request.options, self._places)
        if profile.prompt_cache is PromptCache.KEY and request.cache_key:
            fields["prompt_cache_key"] = request.cache_key
        system = request.system
        if self._by_schema:
            if "response_format" not in request.provider_options:
                fields["response_format"] = turn_format(request, profile)
        else:
            fields.update(self._tool_fields(request))
            if request.output_format is not None:
                system = self._put_output(fields, system, request.output_format, tools=bool(request.tools))
        fields = joined(fields, request.provider_options)
        return _joined_body(request.model if profile.model_in_body else None, [system, *request.messages], fields)

    def _tool_fields(self, request: ModelRequest) -> dict[str, Any]:
        if not request.tools:
            return {}
        fields: dict[str, Any] = {"tools": msgspec.Raw(request.tools)}
        choice = request.tool_choice
        if choice.routed_name is not None:
            fields["tool_choice"] = {"type": "function", "function": {"name": choice.routed_name}}
        elif choice.mode in {ToolChoiceMode.NONE, ToolChoiceMode.REQUIRED}:  # AUTO is what every server does anyway
            fields["tool_choice"] = choice.mode.lower()
        if request.parallel_tool_calls is not None and self._profile.parallel_tool_calls:
            fields["parallel_tool_calls"] = request.parallel_tool_calls
        return fields

    def _put_output(self, fields: dict[str, Any], system: bytes, wanted: OutputFormat, *, tools: bool) -> bytes:
        """Hold the answer to a schema in the server's way; returns the system message with what has to be said."""
        profile = self._profile
        held = not tools or profile.structured_output_with_tools
        match profile.structured_output:
            case StructuredOutput.JSON_SCHEMA if held:
                schema, strict = strict_form(
                    wanted.json_schema,
                    profile.schema_adaptations,
                    profile.strict_optional_properties,
                    profile.strict_unions,
                )
                named = {"name": wanted.name or "answer", "strict": strict, "schema": msgspec.Raw(schema.encode())}
                fields["response_format"] = {"type": "json_schema", "json_schema": named}
                return system
            case StructuredOutput.JSON_OBJECT if held:
                fields["response_format"] = {"type": "json_object"}
            case StructuredOutput.JSON_SCHEMA | StructuredOutput.JSON_OBJECT | StructuredOutput.PROMPT:
                pass
        return with_instruction(system, output_instruction(wanted, tools=tools))


def with_instruction(system: bytes, instruction: str) -> bytes:
    """The encoded system message with a paragraph at its end; a message of its own where there is none.

    Messages that follow it stay as they are. The system message is one that this wire encoded: its content is its last
    member and a string.
    """
    pieces = msgspec.json.decode(b"[" + system + b"]", type=list[msgspec.Raw])
    first, rest = (bytes(pieces[0]), pieces[1:]) if pieces else (b"", [])
    if first.startswith(_SYSTEM):
        first = first[:-2] + msgspec.json.encode(f"\n\n{instruction}")[1:] + b"}"
    else:
        first, rest = msgspec.json.encode({"role": "system", "content": instruction}), pieces
    return b",".join([first, *map(bytes, rest)])


def _joined_body(model: str | None, pieces: Sequence[bytes], fields: dict[str, Any]) -> bytes:
    kept = [piece for piece in pieces if piece] or [b""]
    # One join: a second copy of a megabyte costs as much as sending it.
    head = b"{" if model is None else b'{"model":' + msgspec.json.encode(model) + b","
    kept[0] = head + b'"messages":[' + kept[0]
    kept[-1] += b"]," + msgspec.json.encode(fields)[1:]
    return b",".join(kept)


def _unsupported(profile: Profile, field: str, what: str) -> FieldViolation:
    told = f"Provider {profile.name} does not support {what}: leave it out, or choose another provider."
    return FieldViolation(field, told)
