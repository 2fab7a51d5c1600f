"""An assistant's turn as the turn machine keeps it, put together the plain way: for tests of what goes back."""

from __future__ import annotations

from collections.abc import Sequence

from turnwired.domain.generation import (
    MediaProduced,
    ModelItem,
    NativeItem,
    ReasoningChunk,
    RefusalChunk,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallOpened,
)
from turnwired.domain.message import Blob, Content, Message, OpaqueBlock, Part, Reasoning, Role, Text, ToolCall
from turnwired.domain.tool import ToolRef, ToolSource


def message_of(items: Sequence[ModelItem], provider: str) -> Message:
    """Parts in the order in which they began; a native item right behind what has its index, else a part of its own.

    Calls get the ids ``ours-<index>``.
    """
    placed: list[tuple[int, Content]] = []
    for item in items:
        match item:
            case TextChunk(index, text) | RefusalChunk(index, text):
                _grow(placed, index, Text(_text(placed, index) + text))
            case ReasoningChunk(index, text):
                _grow(placed, index, Reasoning(_text(placed, index) + text, provider=provider))
            case ToolCallOpened(index, _, name):
                placed.append((index, ToolCall(f"ours-{index}", ToolRef(name, name, ToolSource.LOCAL), "")))
            case ToolArgumentsChunk(index, fragment):
                at = _at(placed, index)
                call = placed[at][1]
                assert isinstance(call, ToolCall)
                placed[at] = (index, ToolCall(call.call_id, call.tool, call.arguments_json + fragment))
            case MediaProduced(index, media_type, data):
                placed.append((index, Blob(media_type, data)))
            case NativeItem(index, kind, value):
                behind = [at for at, (known, _) in enumerate(placed) if known == index]
                placed.insert(behind[-1] + 1 if behind else len(placed), (index, OpaqueBlock(kind, value, provider)))
            case _:
                pass
    return Message(Role.ASSISTANT, tuple(Part(f"p{at}", content) for at, (_, content) in enumerate(placed)))


def _at(placed: Sequence[tuple[int, Content]], index: int) -> int:
    return next((at for at, (known, _) in enumerate(placed) if known == index), -1)


def _text(placed: Sequence[tuple[int, Content]], index: int) -> str:
    at = _at(placed, index)
    content = placed[at][1] if at >= 0 else None
    return content.text if isinstance(content, Text | Reasoning) else ""


def _grow(placed: list[tuple[int, Content]], index: int, content: Content) -> None:
    at = _at(placed, index)
    if at >= 0:
        placed[at] = (index, content)
    else:
        placed.append((index, content))
