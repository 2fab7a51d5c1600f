"""Chat completions with tools under a JSON schema: for servers without native tool calls.

Every assistant turn is one JSON object, a call or the final answer (``json_tools`` says which), held to it by
``response_format``. History shows the model its earlier turns in the same form. Knows no server by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Failure, Reason
from turnwired.domain.generation import (
    FinishReason,
    GenerationStopped,
    IrregularityFound,
    MediaProduced,
    ModelItem,
    NativeItem,
    ReasoningChunk,
    RefusalChunk,
    ResponseIdentified,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallClosed,
    ToolCallOpened,
    UsageReported,
)
from turnwired.domain.message import Message, Role, ToolCall, ToolResult, ToolResultStatus
from turnwired.domain.tool import Tool
from turnwired.providers import openai_chat_messages as native
from turnwired.providers.batch import MAX_PARTS
from turnwired.providers.errors import WireError, protocol_error, provider_failure
from turnwired.providers.json_reader import JsonToolReader
from turnwired.providers.json_tools import answer_text, call_text, result_text, system_instructions, tool_call_schema
from turnwired.providers.openai_chat_fields import USUAL_FORM, AnswerForm
from turnwired.providers.openai_chat_parser import ChatParser
from turnwired.providers.parts import arguments_object, refused
from turnwired.providers.port import ModelRequest
from turnwired.providers.profiles import Profile
from turnwired.providers.schema_adaptation import adapted, for_tools


def encode_system(blocks: Sequence[str], tools: Sequence[Tool]) -> bytes:
    """The system message, with what may be called at its end."""
    return native.encode_system([*blocks, system_instructions(tools)])


def encode_message(message: Message, profile: Profile) -> bytes:
    """One message; an assistant's as the JSON that it wrote, results as the user's. Raises InvalidRequest."""
    match message.role:
        case Role.SYSTEM | Role.USER:
            return native.encode_message(message, profile)
        case Role.ASSISTANT:
            return _assistant(message, profile)
        case Role.TOOL:
            return _tool_results(message)


def turn_format(request: ModelRequest, profile: Profile) -> dict[str, Any]:
    """The response format of the turn asked for. Raises ProviderError when the tool choice leaves nothing to do."""
    offered = request.offered if request.tools else ()
    answer = request.output_format.json_schema if request.output_format is not None else ""
    try:
        schema = tool_call_schema(offered, request.tool_choice if offered else None, answer)
    except ValueError as error:
        raise provider_failure(Reason.INVALID_REQUEST, f"The tool choice cannot be met: {error}.") from None
    text = adapted(msgspec.json.encode(schema).decode(), for_tools(profile.schema_adaptations))
    named = {"name": "turn", "strict": True, "schema": msgspec.Raw(text.encode())}
    return {"type": "json_schema", "json_schema": named}


def _assistant(message: Message, profile: Profile) -> bytes:
    turns: list[str] = []
    texts: list[str] = []
    for part in message.parts:
        if isinstance(part.content, ToolCall):
            arguments = arguments_object(part.content.arguments_json)
            turns.append(call_text(part.content.tool.routed_name, arguments))
        elif text := native.assistant_text(part):
            texts.append(text)
    if texts:
        turns.insert(0, answer_text("".join(texts)))
    if not turns:
        return b""
    return msgspec.json.encode({"role": "assistant", "content": "\n".join(turns), **native.echoed(message, profile)})


def _tool_results(message: Message) -> bytes:
    """Results as one user message: these models know no tool role, and their templates want roles to alternate."""
    lines: list[str] = []
    for part in message.parts:
        if not isinstance(part.content, ToolResult):
            raise refused(part, f"a tool message cannot have a {type(part.content).__name__}")
        text, _ = native.result_text(part.content)
        lines.append(result_text(text) if part.content.status is ToolResultStatus.OK else text)
    return msgspec.json.encode({"role": "user", "content": "\n".join(lines)}) if lines else b""


class JsonToolParser:
    """A ChatParser whose text is read as JSON turns. Parts get positions of their own, in order of appearance."""

    __slots__ = ("_broken", "_called", "_flushed", "_inner", "_parts", "_reader")

    def __init__(self, status: int = 200, form: AnswerForm = USUAL_FORM, *, raw_answer: bool = False) -> None:
        """``form``: of the server's answers. ``raw_answer``: the answer is a JSON value and is given as its text."""
        self._inner = ChatParser(status, form)
        self._reader = JsonToolReader(raw_answer=raw_answer)
        self._parts: dict[tuple[bool, int], int] = {}
        self._called = False
        self._flushed = False
        self._broken: Failure | None = None

    @property
    def error(self) -> WireError | None:
        """What the provider reported."""
        return self._inner.error

    @property
    def broken(self) -> Failure | None:
        """Why the body cannot be understood."""
        return self._broken or self._inner.broken

    @property
    def ended(self) -> bool:
        """Whether the answer is over."""
        return self._broken is not None or self._inner.ended

    @property
    def finish_seen(self) -> bool:
        """Whether the provider said why it stopped."""
        return self._inner.finish_seen

    @property
    def content(self) -> bool:
        """Whether the last read brought content, also when its meaning is not known yet and it is held back."""
        return self._inner.content

    @property
    def thinking(self) -> bool:
        """Whether reasoning was the last that came."""
        return self._inner.thinking

    def feed(self, data: bytes) -> list[ModelItem]:
        """The items that ``data`` completes."""
        return self._read(self._inner.feed(data))

    def finish(self) -> list[ModelItem]:
        """The items that the end of the body completes."""
        return self._read(self._inner.finish())

    def _read(self, items: list[ModelItem]) -> list[ModelItem]:
        found: list[ModelItem] = []
        if self._broken is not None:
            return found
        try:
            for item in items:
                self._add(item, found)
            if self._inner.ended:
                self._flush(found)
        except ProviderError as error:
            self._broken = error.failure
        return found

    def _add(self, item: ModelItem, found: list[ModelItem]) -> None:
        if isinstance(item, TextChunk):
            found.extend(self._placed(piece, ours=True) for piece in self._reader.feed(item.text))
        elif isinstance(item, GenerationStopped):
            self._flush(found)
            calls = item.reason is FinishReason.STOP and self._called
            found.append(GenerationStopped(FinishReason.TOOL_CALLS, item.provider_reason) if calls else item)
        else:
            found.append(self._placed(item, ours=False))

    def _flush(self, found: list[ModelItem]) -> None:
        if not self._flushed:
            self._flushed = True
            found.extend(self._placed(piece, ours=True) for piece in self._reader.finish())

    def _placed(self, item: ModelItem, *, ours: bool) -> ModelItem:
        """The item at its position: the reader and the wire count their parts separately."""
        match item:
            case TextChunk(index, text):
                return TextChunk(self._part(index, ours), text)
            case ReasoningChunk(index):
                return replace(item, index=self._part(index, ours))
            case MediaProduced(index):
                return replace(item, index=self._part(index, ours))
            case RefusalChunk(index, text):
                return RefusalChunk(self._part(index, ours), text)
            case ToolCallOpened(index, call_id, name):
                self._called = True
                return ToolCallOpened(self._part(index, ours), call_id, name)
            case ToolArgumentsChunk(index, fragment):
                return ToolArgumentsChunk(self._part(index, ours), fragment)
            case ToolCallClosed(index):
                return ToolCallClosed(self._part(index, ours))
            case NativeItem(index, kind, json):
                return NativeItem(self._part(index, ours), kind, json)
            case IrregularityFound(damaged=damaged):
                return replace(item, damaged=tuple(self._part(index, ours) for index in damaged))
            case ResponseIdentified() | UsageReported() | GenerationStopped():
                return item

    def _part(self, index: int, ours: bool) -> int:
        part = self._parts.setdefault((ours, index), len(self._parts))
        if part >= MAX_PARTS:
            raise protocol_error(f"The provider sent more than {MAX_PARTS} parts in one answer.")
        return part
