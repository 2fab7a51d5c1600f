"""The request of a run as it grows: system blocks, history and the run's own messages, each encoded once.

The request of an iteration is the one before plus new pieces at the end, so prompt caches hold and no message is
encoded twice. Knows providers only by their port's encoder methods, given as a protocol here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Protocol

from turnwired.context.history import History, Piece
from turnwired.domain.message import Message
from turnwired.domain.tool import Tool


class Encoder(Protocol):
    """How a wire encodes the pieces of a request (see ``turnwired.providers.port.ModelProvider``)."""

    def encode_system(self, blocks: Sequence[str], tools: Sequence[Tool]) -> bytes:
        """System blocks."""
        ...

    def encode_message(self, message: Message) -> bytes:
        """One message."""
        ...

    def encode_tools(self, tools: Sequence[Tool]) -> bytes:
        """The tools offered."""
        ...


class Prompt:
    """The growing request of one run, for one provider."""

    def __init__(self, encoder: Encoder, instructions: Sequence[str], tools: Sequence[Tool]) -> None:
        self._encoder = encoder
        self._instructions = instructions
        self.history = History()
        self.offer(tools)

    def offer(self, tools: Sequence[Tool]) -> None:
        """Offer these tools from now on. Tools behind those that were offered leave the beginning as it was."""
        self.offered = tuple(tools)
        self.tools = self._encoder.encode_tools(tools) if tools else b""
        self.system = self._encoder.encode_system(self._instructions, tools)

    def extend(self, messages: Iterable[Message]) -> None:
        """Encode messages of this run and put them at the end."""
        self.history.add([Piece(self._encoder.encode_message(message), message.role) for message in messages])

    def messages(self) -> Sequence[bytes]:
        """What is sent of the messages so far, without the system blocks."""
        return self.history.sent()


class EncodedMessages:
    """A bounded cache of encoded session messages, so that a long conversation is not encoded again each turn.

    Keys are (provider, run id or session, message id); the least recently used bytes go first. With them their tokens
    are kept, so that these are not counted again either.
    """

    def __init__(self, max_bytes: int = 64 << 20) -> None:
        self._max = max_bytes
        self._size = 0
        self._items: OrderedDict[tuple[str, str, str], Piece] = OrderedDict()

    def get(self, key: tuple[str, str, str]) -> Piece | None:
        """The piece, if it is still kept."""
        piece = self._items.get(key)
        if piece is not None:
            self._items.move_to_end(key)
        return piece

    def put(self, key: tuple[str, str, str], piece: Piece) -> None:
        """Keep the piece while there is room."""
        old = self._items.pop(key, None)
        if old is not None:
            self._size -= len(old.data)
        self._items[key] = piece
        self._size += len(piece.data)
        while self._size > self._max and self._items:
            _, dropped = self._items.popitem(last=False)
            self._size -= len(dropped.data)
