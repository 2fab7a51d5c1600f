"""Reads the JSON turn of a model without native tool calls, piece by piece, as the items that every wire gives. Pure.

The turn is what ``turnwired.providers.json_tools`` describes: ``{"tool": NAME, "arguments": {...}}`` or
``{"tool": "none", "answer": TEXT}``. Text streams while it is written and so do arguments, however the text was cut.
A runtime that ignores the grammar gives plain text or other JSON: that is the model's answer, shown as it came.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from turnwired.domain.generation import ModelItem, TextChunk, ToolArgumentsChunk, ToolCallClosed, ToolCallOpened
from turnwired.providers.json_tools import NO_TOOL

_WHITESPACE: Final = " \t\r\n"
_ESCAPES: Final = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


class JsonToolReader:
    """One model answer. ``feed`` what arrives, then ``finish``; parts are counted in order from ``first_part``.

    An object cut short leaves its call open: nothing here says that a call is complete before its last bracket came.
    """

    def __init__(self, first_part: int = 0, *, raw_answer: bool = False) -> None:
        """``raw_answer``: the answer is a JSON value, given as its JSON text even where it is a string."""
        self._raw_answer = raw_answer
        self._state = _State.OUTSIDE
        self._part = first_part
        self._object = _Object()

    def feed(self, text: str) -> list[ModelItem]:
        """Return the items that ``text`` completes or continues: at most one chunk for each part it touches."""
        items: list[ModelItem] = []
        position = 0
        while position < len(text):
            start, state = position, self._state
            position = self._step(text, position, items)
            if state is not _State.OUTSIDE and self._object.uncommitted is not None:
                self._object.uncommitted.append(text[start:position])
        return _joined(items)

    def finish(self) -> list[ModelItem]:
        """Return what was held back for want of its meaning."""
        items: list[ModelItem] = []
        if self._state is _State.ANSWER and (rest := self._object.string.finish()):
            items.append(TextChunk(self._part, rest))
        elif self._state not in (_State.OUTSIDE, _State.PLAIN) and self._object.uncommitted:
            self._plain("".join(self._object.uncommitted), items)
        self._state = _State.OUTSIDE
        self._object.uncommitted = None
        return _joined(items)

    # One method for each state: it consumes from `position` and returns where it stopped.

    def _step(self, text: str, position: int, items: list[ModelItem]) -> int:
        match self._state:
            case _State.OUTSIDE:
                return self._outside(text, position, items)
            case _State.PLAIN:
                items.append(TextChunk(self._part, text[position:]))
                return len(text)
            case _State.MEMBER:
                return self._member(text, position, items)
            case _State.KEY:
                position, done = self._object.string.feed(text, position)
                if done:
                    self._object.key = self._object.string.take()
                    self._state = _State.COLON
                return position
            case _State.COLON:
                return self._colon(text, position, items)
            case _State.VALUE:
                return self._value(text, position, items)
            case _State.ANSWER:
                position, done = self._object.string.feed(text, position)
                items.append(TextChunk(self._part, self._object.string.take()))
                if done:
                    self._state = _State.MEMBER
                return position
            case _State.RAW:
                return self._raw(text, position, items)

    def _outside(self, text: str, position: int, items: list[ModelItem]) -> int:
        """Between objects: a bracket begins one, space is nothing, anything else is the answer in plain text."""
        if text[position] in _WHITESPACE:
            return position + 1
        if text[position] != "{":
            return self._broken(position, items)
        self._object = _Object()
        self._object.uncommitted = ["{"]
        self._state = _State.MEMBER
        return position + 1

    def _member(self, text: str, position: int, items: list[ModelItem]) -> int:
        match text[position]:
            case '"':
                self._object.string = _StringReader()
                self._state = _State.KEY
            case "}":
                self._end_object(items)
            case "," | " " | "\t" | "\r" | "\n":
                pass
            case _:
                return self._broken(position, items)
        return position + 1

    def _colon(self, text: str, position: int, items: list[ModelItem]) -> int:
        if text[position] == ":":
            self._state = _State.VALUE
        elif text[position] not in _WHITESPACE:
            return self._broken(position, items)
        return position + 1

    def _value(self, text: str, position: int, items: list[ModelItem]) -> int:
        character = text[position]
        if character in _WHITESPACE:
            return position + 1
        if self._object.key == "answer" and character == '"' and not self._raw_answer:
            self._open_text()
            self._object.string = _StringReader()
            self._state = _State.ANSWER
            return position + 1
        if self._object.key == "arguments" and character == "{" and self._object.name:
            self._open_call(items)
        self._object.scan = ValueScanner()
        self._state = _State.RAW
        return position

    def _raw(self, text: str, position: int, items: list[ModelItem]) -> int:
        end, done = self._object.scan.feed(text, position)
        piece = text[position:end]
        if self._object.call_open and self._object.key == "arguments":
            items.append(ToolArgumentsChunk(self._part, piece))
        else:
            self._object.pieces.append(piece)
        if done:
            value, self._object.pieces = "".join(self._object.pieces), []
            self._state = _State.MEMBER
            self._take(value, items)
        return end

    # What a whole value means.

    def _take(self, raw: str, items: list[ModelItem]) -> None:
        match self._object.key:
            case "tool":
                name = _text_of(raw)
                self._object.name = "" if name == NO_TOOL else name
                self._object.named = True
            case "arguments" if self._object.call_open:
                items.append(ToolCallClosed(self._part))
                self._part += 1
                self._object.call_open = False
                self._object.called = True
            case "arguments":
                self._object.arguments = _text_of(raw) if raw.startswith('"') else raw
            case "answer":
                self._open_text()
                items.append(TextChunk(self._part, raw))
            case _:  # a key that nobody asked for, such as a model's "thought"
                pass

    def _end_object(self, items: list[ModelItem]) -> None:
        if self._object.name and not self._object.called:
            # The arguments came before the name, as a string, or not at all.
            self._open_call(items)
            items.append(ToolArgumentsChunk(self._part, self._object.arguments or "{}"))
            items.append(ToolCallClosed(self._part))
            self._part += 1
        elif self._object.answering:
            self._part += 1
        elif self._object.uncommitted is not None and not self._object.named:
            # JSON, but not ours: the model answers with an object of its own.
            self._plain("".join(self._object.uncommitted) + "}", items)
            self._part += 1
        self._object = _Object()
        self._state = _State.OUTSIDE

    def _open_call(self, items: list[ModelItem]) -> None:
        if self._object.answering:
            self._part += 1
            self._object.answering = False
        self._object.uncommitted = None
        self._object.call_open = True
        items.append(ToolCallOpened(self._part, "", self._object.name))

    def _open_text(self) -> None:
        self._object.uncommitted = None
        self._object.answering = True

    def _plain(self, text: str, items: list[ModelItem]) -> None:
        self._object.uncommitted = None
        items.append(TextChunk(self._part, text))

    def _broken(self, position: int, items: list[ModelItem]) -> int:
        """Give up on JSON for the rest of this answer; nothing of what the model wrote is lost."""
        if self._object.uncommitted:
            self._plain("".join(self._object.uncommitted), items)
        self._object.uncommitted = None
        self._state = _State.PLAIN
        return position


class _State(Enum):
    OUTSIDE = auto()
    PLAIN = auto()
    MEMBER = auto()
    KEY = auto()
    COLON = auto()
    VALUE = auto()
    ANSWER = auto()
    RAW = auto()


class _StringReader:
    """Decodes a JSON string from behind its opening quote."""

    def __init__(self) -> None:
        self._decoded: list[str] = []
        self._escape = ""
        self._high = ""  # first half of a surrogate pair

    def feed(self, text: str, position: int) -> tuple[int, bool]:
        """Consume from ``position``; returns where it stopped, and whether that is behind the closing quote."""
        while position < len(text):
            if self._escape:
                self._escape += text[position]
                position += 1
                self._end_escape()
                continue
            end = position
            while end < len(text) and text[end] not in '"\\':
                end += 1
            if end > position:
                self._put(text[position:end])
            if end == len(text):
                return end, False
            position = end + 1
            if text[end] == '"':
                self._end_pair()
                return position, True
            self._escape = "\\"
        return position, False

    def take(self) -> str:
        """Return what was decoded since the last time."""
        decoded = "".join(self._decoded)
        self._decoded.clear()
        return decoded

    def finish(self) -> str:
        """Return what is left of a string that was cut; half an escape is lost with the other half."""
        self._end_pair()
        return self.take()

    def _end_escape(self) -> None:
        kind = self._escape[1]
        if kind != "u":
            self._put(_ESCAPES.get(kind, self._escape))
        elif len(self._escape) < 6:
            return
        else:
            self._put_unit(self._escape[2:])
        self._escape = ""

    def _put_unit(self, digits: str) -> None:
        try:
            unit = int(digits, 16)
        except ValueError:
            self._put(_REPLACEMENT)
            return
        if 0xDC00 <= unit <= 0xDFFF and self._high:
            pair = self._high + chr(unit)
            self._high = ""
            self._decoded.append(pair.encode("utf-16", "surrogatepass").decode("utf-16"))
        elif 0xD800 <= unit <= 0xDBFF:
            self._end_pair()
            self._high = chr(unit)
        else:
            self._put(_REPLACEMENT if 0xDC00 <= unit <= 0xDFFF else chr(unit))

    def _put(self, text: str) -> None:
        self._end_pair()
        self._decoded.append(text)

    def _end_pair(self) -> None:
        if self._high:
            self._decoded.append(_REPLACEMENT)
            self._high = ""


class ValueScanner:
    """Finds the end of any JSON value without decoding it."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._begun = False

    def feed(self, text: str, position: int) -> tuple[int, bool]:
        """Consume from ``position``; returns where it stopped, and whether the value ends there."""
        while position < len(text):
            character = text[position]
            if self._in_string:
                if self._end_of_string(character) and not self._depth:
                    return position + 1, True
            elif self._begun and not self._depth and character in ",}] \t\r\n":
                return position, True  # the end of a number or a word, which has no closing sign of its own
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if not self._depth:
                    return position + 1, True
            elif character == '"':
                self._in_string = True
            self._begun = True
            position += 1
        return position, False

    def _end_of_string(self, character: str) -> bool:
        if self._escaped:
            self._escaped = False
        elif character == "\\":
            self._escaped = True
        elif character == '"':
            self._in_string = False
            return True
        return False


@dataclass(slots=True)
class _Object:
    """What is known of the object being read.

    ``uncommitted``: its text, while it may turn out to be no turn of ours. ``pieces``: of the value being read.
    ``arguments``: those that came before the name. ``called``, ``answering``: what it gave so far.
    """

    uncommitted: list[str] | None = None
    string: _StringReader = field(default_factory=_StringReader)
    scan: ValueScanner = field(default_factory=ValueScanner)
    pieces: list[str] = field(default_factory=list[str])
    key: str = ""
    name: str = ""
    named: bool = False
    arguments: str = ""
    call_open: bool = False
    called: bool = False
    answering: bool = False


def _text_of(raw: str) -> str:
    try:
        value: object = json.loads(raw, strict=False)
    except (ValueError, RecursionError):
        return raw
    if not isinstance(value, str):
        return raw
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # half a pair cannot be stored


def _joined(items: list[ModelItem]) -> list[ModelItem]:
    """Join neighbouring chunks of one part and drop empty ones: a batch is small, whatever the chunking."""
    joined: list[ModelItem] = []
    for item in items:
        match item, joined[-1] if joined else None:
            case TextChunk(text=""), _:
                pass
            case ToolArgumentsChunk(fragment=""), _:
                pass
            case TextChunk(index, text), TextChunk(last, before) if index == last:
                joined[-1] = TextChunk(index, before + text)
            case ToolArgumentsChunk(index, fragment), ToolArgumentsChunk(last, before) if index == last:
                joined[-1] = ToolArgumentsChunk(index, before + fragment)
            case _:
                joined.append(item)
    return joined
