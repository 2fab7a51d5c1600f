"""The tool-calling mode ``json_schema``: a provider around a provider whose model has no tool calls of its own.

Works on canonical messages, so that it fits every wire: the tools are told in the system message, calls and results are
shown as text, the next turn is asked for under a schema, and its text is read back as calls. See
``turnwired.providers.json_tools`` for the texts and why they are so.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace

import msgspec

from turnwired.domain.failure import Reason
from turnwired.domain.generation import GenerationStopped, ModelItem, TextChunk
from turnwired.domain.message import Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from turnwired.domain.tool import Tool, ToolChoice, ToolChoiceMode
from turnwired.providers import json_tools
from turnwired.providers.errors import provider_failure
from turnwired.providers.json_reader import JsonToolReader
from turnwired.providers.json_tools import ToolExample
from turnwired.providers.openai_chat_messages import arguments_object, result_text
from turnwired.providers.port import ModelProvider, ModelRequest, ProviderInfo

_RESPONSE_FORMAT = "response_format"
_AS_ENCODED = frozenset({ToolChoiceMode.UNSPECIFIED, ToolChoiceMode.AUTO})


class JsonModeProvider:
    """A ModelProvider that makes tool calls out of constrained text."""

    def __init__(self, inner: ModelProvider, examples: Iterable[ToolExample] = ()) -> None:
        """``examples`` stand before every conversation; those of tools that are not offered are left out."""
        self._inner = inner
        self._examples = tuple(examples)

    @property
    def info(self) -> ProviderInfo:
        """That of the provider inside."""
        return self._inner.info

    def encode_system(self, blocks: Sequence[str], tools: Sequence[Tool]) -> bytes:
        """The system message with the tools told, then the examples."""
        pieces = [self._inner.encode_system([*blocks, json_tools.system_instructions(tools)], ())]
        for role, text in json_tools.example_messages(self._examples, tools):
            pieces.append(self._inner.encode_message(Message(role, (Part("example", Text(text)),))))
        return b",".join(piece for piece in pieces if piece)

    def encode_message(self, message: Message) -> bytes:
        """One message with calls and results as text. Raises InvalidRequest."""
        match message.role:
            case Role.ASSISTANT:
                return self._inner.encode_message(_turn_shown(message))
            case Role.TOOL:
                return self._inner.encode_message(_results_shown(message))
            case Role.SYSTEM | Role.USER:
                return self._inner.encode_message(message)

    def encode_tools(self, tools: Sequence[Tool]) -> bytes:
        """What the next turn is asked for."""
        return _response_format(tools, ToolChoice())

    async def generate(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelItem], None]:
        """Call the model inside and give its calls as calls. Raises ProviderError."""
        reader: JsonToolReader | None = None
        async with aclosing(self._inner.generate(self._constrained(request))) as batches:
            async for batch in batches:
                items: list[ModelItem] = []
                for item in batch:
                    match item:
                        case TextChunk(index, text):
                            # Calls come where the text is: behind whatever the model wrote before.
                            reader = reader or JsonToolReader(index)
                            items += reader.feed(text)
                        case GenerationStopped():
                            items += reader.finish() if reader else ()
                            items.append(item)
                        case _:
                            items.append(item)
                if items:
                    yield items
        if reader and (rest := reader.finish()):
            yield rest

    async def aclose(self) -> None:
        """Close the provider inside."""
        await self._inner.aclose()

    def _constrained(self, request: ModelRequest) -> ModelRequest:
        if _RESPONSE_FORMAT in request.provider_options:
            raise self._unsupported("A response format of your own cannot be combined with tool calls")
        choice = request.tool_choice
        if request.tools and choice.routed_name is None and choice.mode in _AS_ENCODED:
            wanted = request.tools
        else:
            try:
                wanted = _response_format(request.offered if request.tools else (), choice)
            except ValueError as error:
                raise self._unsupported(str(error).capitalize()) from error
        options = {**request.provider_options, _RESPONSE_FORMAT: msgspec.Raw(wanted)}
        return replace(
            request,
            tools=b"",
            offered=(),
            tool_choice=ToolChoice(),
            parallel_tool_calls=None,  # one object is one call
            provider_options=options,
        )

    def _unsupported(self, what: str) -> Exception:
        name = self._inner.info.name
        message = f"{what} (provider {name} calls tools by JSON schema)."
        return provider_failure(Reason.OPTION_NOT_SUPPORTED, message, origin=name)


def _response_format(tools: Sequence[Tool], choice: ToolChoice) -> bytes:
    schema = json_tools.tool_call_schema(tools, choice)
    wanted = {"type": "json_schema", "json_schema": {"name": "turn", "strict": True, "schema": schema}}
    return json.dumps(wanted, ensure_ascii=False, separators=(",", ":")).encode()


def _turn_shown(message: Message) -> Message:
    """The model's earlier turn in the form in which it is asked to write. Reasoning is not part of that form."""
    lines: list[str] = []
    others: list[Part] = []
    for part in message.parts:
        match part.content:
            case Text(text):
                lines.append(json_tools.answer_text(text))
            case ToolCall(_, tool, arguments):
                lines.append(json_tools.call_text(tool.routed_name, arguments_object(arguments)))
            case Reasoning():
                pass
            case _:
                others.append(part)
    shown = [Part("turn", Text("\n".join(lines)))] if lines else []
    return replace(message, parts=(*shown, *others))


def _results_shown(message: Message) -> Message:
    lines: list[str] = []
    others: list[Part] = []
    for part in message.parts:
        if isinstance(part.content, ToolResult):
            lines.append(json_tools.result_text(result_text(part.content, images=False)[0]))
        else:
            others.append(part)
    shown = Part("results", Text("\n\n".join(lines)))
    return replace(message, role=Role.USER, parts=(shown, *others))
