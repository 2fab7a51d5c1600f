"""Which model, how it generates, and what shape its answer takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnwired.codec.enums import THINKING_MODE
from turnwired.domain.model import GenerationOptions, ModelSelection, OutputFormat, Thinking, ThinkingMode

if TYPE_CHECKING:
    from turnwire.v1 import model_pb2

NO_OPTIONS = GenerationOptions()
_OPTIONS = ("temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty", "seed")


def model_to_pb(value: ModelSelection, out: model_pb2.ModelSelection) -> None:
    """All fields; options that say nothing stay an unset message."""
    out.SetInParent()
    out.provider = value.provider
    out.model = value.model
    if value.provider_options_json is not None:
        out.provider_options_json = value.provider_options_json
    if value.options is not NO_OPTIONS and value.options != NO_OPTIONS:
        options_to_pb(value.options, out.options)


def model_from_pb(message: model_pb2.ModelSelection) -> ModelSelection:
    """All fields; provider and model may be empty."""
    return ModelSelection(
        message.provider,
        message.model,
        message.provider_options_json if message.HasField("provider_options_json") else None,
        options_from_pb(message.options) if message.HasField("options") else NO_OPTIONS,
    )


def options_to_pb(value: GenerationOptions, out: model_pb2.GenerationOptions) -> None:
    """What is set."""
    for name in _OPTIONS:
        if (found := getattr(value, name)) is not None:
            setattr(out, name, found)
    out.stop_sequences.extend(value.stop_sequences)
    if value.thinking != Thinking():
        if value.thinking.mode is not ThinkingMode.UNSPECIFIED:
            out.thinking.mode = THINKING_MODE.to_wire[value.thinking.mode]
        if value.thinking.budget_tokens is not None:
            out.thinking.budget_tokens = value.thinking.budget_tokens


def options_from_pb(message: model_pb2.GenerationOptions) -> GenerationOptions:
    """What is set. Raises CodecError for a mode of a newer contract."""
    thinking = message.thinking
    return GenerationOptions(
        temperature=message.temperature if message.HasField("temperature") else None,
        top_p=message.top_p if message.HasField("top_p") else None,
        top_k=message.top_k if message.HasField("top_k") else None,
        frequency_penalty=message.frequency_penalty if message.HasField("frequency_penalty") else None,
        presence_penalty=message.presence_penalty if message.HasField("presence_penalty") else None,
        seed=message.seed if message.HasField("seed") else None,
        stop_sequences=tuple(message.stop_sequences),
        thinking=Thinking(
            THINKING_MODE.from_wire_or_none(thinking.mode, "options.thinking.mode") or ThinkingMode.UNSPECIFIED,
            thinking.budget_tokens if thinking.HasField("budget_tokens") else None,
        ),
    )


def output_format_to_pb(value: OutputFormat, out: model_pb2.OutputFormat) -> None:
    """All fields."""
    out.SetInParent()
    out.json_schema = value.json_schema
    out.name = value.name


def output_format_from_pb(message: model_pb2.OutputFormat) -> OutputFormat:
    """All fields."""
    return OutputFormat(message.json_schema, message.name)
