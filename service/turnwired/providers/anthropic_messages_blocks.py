"""Content blocks of a Messages answer while they grow: what each one becomes. Knows no events and does no I/O.

Text, thinking and calls of our tools grow as parts. Everything else, such as a tool that the provider runs itself, is
kept whole and word for word.
"""

from __future__ import annotations

from typing import Any

import msgspec

from turnwired.domain.generation import NativeItem, ToolCallClosed
from turnwired.providers.anthropic_messages_fields import compact, verbatim
from turnwired.providers.batch import BatchBuilder, PartKind

# What the content of a native block is added to, where a delta does not name the field that it is for.
_DELTA_FIELDS = {"citations_delta": "citations"}
_DIRECT = {"type": "direct"}
_CALL_FIELDS = frozenset({"type", "id", "name", "input", "cache_control"})

CITATIONS = "citations"
"""The kind of the item that holds the citations of the text at its index, a JSON array."""

CALL_FIELDS = "tool_use"
"""The kind of the item that holds what the call at its index has beside id, name and input, a JSON object."""


class Block:
    """An open block. ``grows``: what its deltas are; None for a native one. ``size``: bytes that it holds back."""

    __slots__ = ("_citations", "_fields", "_input", "_text", "_value", "filled", "grows", "kind", "part", "size")

    def __init__(self, part: int, kind: str, grows: PartKind | None, value: dict[str, Any], text: bytes) -> None:
        """``value`` is the block as it began, ``text`` the same as bytes; only native blocks keep it."""
        self.part = part
        self.kind = kind
        self.grows = grows
        self.filled = False
        self.size = len(text) if grows is None else 0
        self._value = value
        self._text = text if grows is None else b""
        self._input: list[str] = []
        self._fields: dict[str, list[Any]] = {}
        self._citations: list[Any] = []

    @property
    def runs_at_provider(self) -> bool:
        """Whether the provider now runs a tool, silently."""
        return self.grows is None and self.kind.endswith("tool_use")

    @property
    def answered_by_provider(self) -> bool:
        """Whether a tool of the provider made this call, which then also decides what becomes of its turn."""
        caller = self._value.get("caller")
        return isinstance(caller, dict) and caller.get("type") != "direct"

    def cite(self, citation: object) -> None:
        """Take a citation of the text."""
        self._citations.append(citation)

    def take(self, delta: dict[str, Any], size: int) -> None:
        """Take a delta of a native block, of ``size`` bytes."""
        self.size += size
        kind = delta.get("type")
        fragment = delta.get("partial_json")
        if kind == "input_json_delta" and isinstance(fragment, str):
            self._input.append(fragment)
            return
        if isinstance(kind, str) and kind in _DELTA_FIELDS:
            self._fields.setdefault(_DELTA_FIELDS[kind], []).append([delta.get("citation")])
            return
        for name, value in delta.items():
            if name != "type" and value is not None:
                self._fields.setdefault(name, []).append(value)

    def close(self, batch: BatchBuilder, *, complete: bool) -> None:
        """Report what the end of the block gives; ``complete``: the provider ended it, and did not cut it."""
        if self.grows is PartKind.ARGUMENTS:
            self._close_call(batch, complete=complete)
        elif self.grows is PartKind.TEXT:
            if self.filled and self._citations:
                batch.add(NativeItem(self.part, CITATIONS, verbatim(b"", self._citations)))
        elif self.grows is None and complete and self.kind:
            batch.add(NativeItem(self.part, self.kind, self._whole()))

    def _close_call(self, batch: BatchBuilder, *, complete: bool) -> None:
        whole_input = self._value.get("input")
        # Plain bodies, servers that send no deltas, and calls without arguments.
        if not self.filled and (whole_input or (complete and isinstance(whole_input, dict))):
            batch.grow(PartKind.ARGUMENTS, self.part, compact(whole_input))
        more = {name: value for name, value in self._value.items() if name not in _CALL_FIELDS and value is not None}
        if more and more != {"caller": _DIRECT}:
            batch.add(NativeItem(self.part, CALL_FIELDS, verbatim(b"", more)))
        if complete:
            batch.add(ToolCallClosed(self.part))

    def _whole(self) -> str:
        """The block as it would have come in a plain body."""
        if not self._input and not self._fields:
            return verbatim(self._text, self._value)
        fields: dict[str, Any] = dict(self._value)
        try:
            fields.update(msgspec.json.decode(self._text, type=dict[str, msgspec.Raw]))
        except (msgspec.DecodeError, RecursionError):
            pass  # written anew from the value instead
        for name, pieces in self._fields.items():
            fields[name] = _joined(self._value.get(name), pieces)
        if arguments := "".join(self._input):
            # Arguments that were cut are no JSON; the block then keeps the empty ones that it began with.
            try:
                msgspec.json.decode(arguments)
                fields["input"] = msgspec.Raw(arguments.encode())
            except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
                pass
        try:
            return verbatim(msgspec.json.encode(fields), self._value)
        except (UnicodeEncodeError, RecursionError):
            return verbatim(b"", self._value)


def _joined(first: Any, pieces: list[Any]) -> Any:
    """What a field has become: texts and lists grow, anything else is replaced."""
    joined = list(first) if isinstance(first, list) else first
    for piece in pieces:
        if isinstance(joined, str) and isinstance(piece, str):
            joined += piece
        elif isinstance(joined, list) and isinstance(piece, list):
            joined.extend(piece)
        else:
            joined = list(piece) if isinstance(piece, list) else piece
    return joined
