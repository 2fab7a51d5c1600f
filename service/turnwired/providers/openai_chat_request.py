"""The body of a chat completions request, joined from kept bytes. Knows the profile's fields and no server by name.

A history of a megabyte is joined, never decoded or encoded again.
"""

from __future__ import annotations

from typing import Any

import msgspec

from turnwired.domain.failure import Reason
from turnwired.domain.tool import ToolChoiceMode
from turnwired.providers.errors import provider_failure
from turnwired.providers.openai_chat_json import response_format
from turnwired.providers.port import ModelRequest
from turnwired.providers.profiles import Profile, ToolCalling

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
        "max_tokens",
        "max_completion_tokens",
        "tool_choice",
        "parallel_tool_calls",
    }
)


def encode_body(request: ModelRequest, profile: Profile) -> bytes:
    """The request body. Raises ProviderError for what the profile's server cannot be asked."""
    fields: dict[str, Any] = {"stream": True}
    if profile.usage_option:
        fields["stream_options"] = {"include_usage": True}
    if request.max_output_tokens is not None:
        fields[profile.output_tokens_field] = request.max_output_tokens
    if request.reasoning_effort:
        if not profile.reasoning_effort_field:
            raise _unsupported(profile, "a reasoning effort")
        fields[profile.reasoning_effort_field] = request.reasoning_effort
    fields.update(_tool_fields(request, profile))
    if reserved := sorted(_RESERVED & request.provider_options.keys()):
        raise provider_failure(
            Reason.OPTION_NOT_SUPPORTED,
            f"The provider options {', '.join(reserved)} cannot be set directly: use the fields of the policy.",
            origin=profile.name,
        )
    fields.update(request.provider_options)
    kept = [piece for piece in (request.system, *request.messages) if piece] or [b""]
    # One join: a second copy of a megabyte costs as much as sending it.
    kept[0] = b'{"model":' + msgspec.json.encode(request.model) + b',"messages":[' + kept[0]
    kept[-1] += b"]," + msgspec.json.encode(fields)[1:]
    return b",".join(kept)


def _tool_fields(request: ModelRequest, profile: Profile) -> dict[str, Any]:
    match profile.tool_calling:
        case ToolCalling.NATIVE:
            if not request.tools:
                return {}
            fields: dict[str, Any] = {"tools": msgspec.Raw(request.tools)}
            choice = _tool_choice(request, profile)
            if choice is not None:
                fields["tool_choice"] = choice
            if request.parallel_tool_calls is not None and profile.parallel_tool_calls:
                fields["parallel_tool_calls"] = request.parallel_tool_calls
            return fields
        case ToolCalling.JSON_SCHEMA:
            if "response_format" not in request.provider_options:
                return {"response_format": response_format(request)}
            if request.tools:
                raise _unsupported(profile, "a response format beside tools")
            return {}


def _tool_choice(request: ModelRequest, profile: Profile) -> str | dict[str, Any] | None:
    choice = request.tool_choice
    if choice.routed_name is not None:
        if not profile.named_tool_choice:
            raise _unsupported(profile, "the choice of one tool")
        return {"type": "function", "function": {"name": choice.routed_name}}
    match choice.mode:
        case ToolChoiceMode.UNSPECIFIED | ToolChoiceMode.AUTO:
            return None  # what every server does anyway
        case ToolChoiceMode.NONE | ToolChoiceMode.REQUIRED:
            if choice.mode not in profile.tool_choice:
                raise _unsupported(profile, f"the tool choice {choice.mode}")
            return choice.mode.lower()


def _unsupported(profile: Profile, what: str) -> Exception:
    return provider_failure(
        Reason.OPTION_NOT_SUPPORTED,
        f"Provider {profile.name} does not support {what}: leave it out, or choose another provider.",
        origin=profile.name,
    )
