"""How large requests and answers are, and how large an answer may get. Knows neither log nor provider."""

from __future__ import annotations

from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.generation import (
    MediaProduced,
    ModelItem,
    NativeItem,
    ReasoningChunk,
    TextChunk,
    ToolArgumentsChunk,
)
from turnwired.providers.port import ModelRequest

MAX_ANSWER_CHARACTERS = 3 << 20
"""Most that one answer of a model may say, several times what the largest models can. A provider that goes on without
an end would fill the memory, and every event has to fit into a message of gRPC (4 MiB by default)."""
ITEM_CHARACTERS = 64
"""What an item that comes whole counts beside its text, so that there is no end of empty ones either."""


def request_size(request: ModelRequest) -> int:
    """Bytes of what the request says, its frame left out."""
    return len(request.system) + len(request.tools) + sum(map(len, request.messages))


def characters(item: ModelItem) -> int:
    """What an item counts against ``MAX_ANSWER_CHARACTERS``."""
    match item:
        case TextChunk() | ReasoningChunk():
            return len(item.text)
        case ToolArgumentsChunk():
            return len(item.fragment)
        case NativeItem():
            return ITEM_CHARACTERS + len(item.json)
        case MediaProduced():
            return ITEM_CHARACTERS
        case _:
            return 0


def too_long() -> Failure:
    """Why an answer was ended that did not end by itself."""
    return Failure(
        FailurePhase.MODEL,
        Reason.PROVIDER_PROTOCOL_ERROR,
        f"The provider's answer does not end: it has more than {MAX_ANSWER_CHARACTERS} characters. What it said until "
        "then is kept; set output.max_output_tokens if the provider keeps to it.",
    )
