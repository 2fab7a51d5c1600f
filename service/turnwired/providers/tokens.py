"""How many input tokens a request has, where the provider does not count itself: by a tokenizer, or by its size.

Neither is exact, and both say what they are: a provider frames messages and tools in its own way, and only OpenAI's
tokenizers are public in a package that needs no download. Knows the shape of no wire: it walks the encoded JSON.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Protocol

import anyio
import msgspec

from turnwired.providers.port import ModelRequest, TokenCount

BYTES_PER_TOKEN = 4
"""English text and JSON have about four bytes a token in the tokenizers in use."""
PACKAGE = "bpe_openai"
_MEDIA_TOKENS = 1000
"""For an image, a document or audio: providers charge some hundred to a few thousand."""
_FILE_BYTES = _MEDIA_TOKENS * BYTES_PER_TOKEN
"""Of base64: a shorter file counts by its size."""
_BLOCK = 500
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{%d}" % _BLOCK)
_MESSAGE_TOKENS = 4
_SLICE = 32 * 1024
"""Characters that are tokenized at once: about a millisecond in which no other thread runs."""
_MEDIA_KEYS = frozenset({"url", "image_url", "data", "file_data", "file_url"})
_SILENT_KEYS = frozenset(
    {"type", "role", "id", "call_id", "tool_call_id", "tool_use_id", "signature", "encrypted_content", "media_type"}
)


class Encoding(Protocol):
    """What is used of a tokenizer."""

    def encode_ordinary(self, text: str) -> Sequence[int]:
        """The tokens of a text, special ones read as text."""
        ...


def estimated(request: ModelRequest, why: str = "") -> TokenCount:
    """A rough count from the size of what is sent. ``why``: the reason that nothing better was to be had."""
    size, files = len(request.system) + len(request.tools), 0
    for piece in request.messages:
        found = _files(piece) if len(piece) > _FILE_BYTES else []
        size += len(piece) - sum(found)
        files += len(found)
    return TokenCount(
        -(-size // BYTES_PER_TOKEN) + files * _MEDIA_TOKENS, f"bytes / {BYTES_PER_TOKEN}{f' ({why})' if why else ''}"
    )


def measured_by_size(pieces: Sequence[bytes]) -> list[int]:
    """A rough count of each encoded message."""
    return [_tokens_of(piece) for piece in pieces]


def _tokens_of(piece: bytes) -> int:
    found = _files(piece) if len(piece) > _FILE_BYTES else []
    return -(-(len(piece) - sum(found)) // BYTES_PER_TOKEN) + len(found) * _MEDIA_TOKENS


async def measured(pieces: Sequence[bytes], encoding: str) -> Sequence[int]:
    """A tokenizer's count of each encoded message, on a worker thread; by size where its package is not installed."""
    if not encoding or importlib.util.find_spec(PACKAGE) is None:
        return measured_by_size(pieces)

    def count() -> list[int]:
        return [_count_piece(piece, _encoding(encoding)) for piece in pieces]

    return await anyio.to_thread.run_sync(count, abandon_on_cancel=True)


def _files(piece: bytes) -> list[int]:
    """Bytes of each long base64 text of a message: a picture is not charged like a letter of that length.

    Looked at in blocks, so that a megabyte of whatever text takes a millisecond; up to two blocks of a file are missed.
    """
    found: list[int] = []
    run = 0
    for at in range(0, len(piece) + _BLOCK, _BLOCK):
        if _BASE64.fullmatch(piece, at, at + _BLOCK):
            run += _BLOCK
            continue
        if run >= _FILE_BYTES:
            found.append(run)
        run = 0
    return found


async def tokenized(request: ModelRequest, encoding: str) -> TokenCount:
    """A count by a tokenizer, on a worker thread; by size where its package is not installed."""
    if importlib.util.find_spec(PACKAGE) is None:
        return estimated(request, "install turnwired[tokenizer] for a tokenizer's count")
    tokens = await anyio.to_thread.run_sync(_count, request, encoding, abandon_on_cancel=True)
    return TokenCount(tokens, f"tokenizer {encoding}")


def _count(request: ModelRequest, name: str) -> int:
    encoding = _encoding(name)
    total = 0
    for piece in (request.system, request.tools, *request.messages):
        if piece:
            total += _count_piece(piece, encoding)
    return total


@cache
def _encoding(name: str) -> Encoding:
    """The tokenizer, loaded once: 0.1 s and 80 MB."""
    import bpe_openai

    encoding: Encoding = bpe_openai.get_encoding(name)
    return encoding


def _count_piece(piece: bytes, encoding: Encoding) -> int:
    # A piece is objects joined by commas, or one array.
    values: Any = msgspec.json.decode(piece if piece.startswith(b"[") else b"[" + piece + b"]")
    total = 0
    for value in values:
        total += _MESSAGE_TOKENS
        for text in _texts(value):
            total += _MEDIA_TOKENS if text is None else _count_text(text, encoding)
    return total


def _count_text(text: str, encoding: Encoding) -> int:
    return sum(len(encoding.encode_ordinary(text[at : at + _SLICE])) for at in range(0, len(text), _SLICE))


def _texts(value: Any) -> Iterator[str | None]:
    """Every text that the model reads, None for a file. Keys count too where they are a schema's or arguments'."""
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, list):
            stack.extend(reversed(item))
        elif isinstance(item, dict):
            for key, inner in item.items():
                if isinstance(inner, str) and key in _MEDIA_KEYS:
                    yield None
                elif key not in _SILENT_KEYS or not isinstance(inner, str):
                    yield key
                    stack.append(inner)
        elif isinstance(item, int | float):
            yield str(item)
