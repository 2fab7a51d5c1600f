"""Canonical messages and tools as the JSON of chat completions. Pure and deterministic: prompt caches live from that.

Source: OpenAI API reference, "Create chat completion", request body.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from turnwired.domain.message import (
    Blob,
    Message,
    OpaqueBlock,
    Part,
    Reasoning,
    Role,
    ToolCall,
    ToolResult,
)
from turnwired.domain.tool import Tool
from turnwired.providers.given_back import given_back
from turnwired.providers.openai_chat_media import Unsendable, content_part, kind_of
from turnwired.providers.openai_chat_native import CALL_EXTRA, MESSAGE_EXTRA, REASONING_DETAILS
from turnwired.providers.parts import arguments_object, how_it_ended, is_text, plain_text, refused
from turnwired.providers.profiles import CallIdForm, Profile
from turnwired.providers.schema_adaptation import adapted, for_tools

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_WIRE = "chat completions"
_NO_OUTPUT = "(no output)"
_NO_PARAMETERS = '{"type":"object","properties":{}}'
_THINKING_PARTS = "content.thinking"


def encode_system(blocks: Sequence[str]) -> bytes:
    """One system message of all blocks that say something; b"" for none."""
    text = "\n\n".join(block for block in blocks if block)
    return _json({"role": "system", "content": text}) if text else b""


def encode_message(message: Message, profile: Profile) -> bytes:
    """One or more message objects joined by commas; b"" for a message without content.

    Raises InvalidRequest naming the part when the wire has no place for it.
    """
    match message.role:
        case Role.SYSTEM:
            return encode_system([plain_text(part, _WIRE) for part in message.parts])
        case Role.USER:
            return _user(message, profile)
        case Role.ASSISTANT:
            return _assistant(message, profile)
        case Role.TOOL:
            return _tool_results(message, profile)


def encode_tools(tools: Sequence[Tool], profile: Profile) -> bytes:
    """The ``tools`` array, in the given order, the schemas as the server takes them."""
    adaptations = for_tools(profile.schema_adaptations)
    return _json(
        [
            {
                "type": "function",
                "function": {
                    "name": tool.ref.routed_name,
                    "description": tool.description,
                    "parameters": _raw(adapted(tool.input_schema_json or _NO_PARAMETERS, adaptations)),
                },
            }
            for tool in tools
        ]
    )


def call_id(call_id: str, form: CallIdForm) -> str:
    """Our id of a call as the server takes it; the same id gives the same text in call and result."""
    match form:
        case CallIdForm.ANY:
            return call_id
        case CallIdForm.ALPHANUMERIC_9:
            number = int.from_bytes(hashlib.sha256(call_id.encode()).digest()[:8], "big")
            return "".join(_ALPHABET[number // 36**place % 36] for place in range(9))


def _user(message: Message, profile: Profile) -> bytes:
    content = [_user_part(part, profile) for part in message.parts]
    if not content:
        return b""
    if all(piece["type"] == "text" for piece in content):
        # Plain text is what every server takes; lists only some.
        return _json({"role": "user", "content": "\n\n".join(piece["text"] for piece in content)})
    return _json({"role": "user", "content": content})


def _user_part(part: Part, profile: Profile) -> dict[str, Any]:
    if isinstance(part.content, Blob) and (kind := kind_of(part.content.media_type)) is not None:
        try:
            return content_part(part.content, kind, profile)
        except Unsendable as error:
            raise refused(part, str(error)) from None
    return {"type": "text", "text": plain_text(part, _WIRE)}


def assistant_text(part: Part) -> str:
    """What an assistant said, as text; empty for what has no place there: files that it made, and what is native."""
    match part.content:
        case Reasoning() | OpaqueBlock():
            return ""
        case Blob(media_type) if not is_text(media_type):
            return ""
        case _:
            return plain_text(part, _WIRE)


class _Turn:
    """One assistant message while it is put together. Only what ``profile`` itself gave goes back to it as native."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._content: list[dict[str, Any]] = []
        self._reasoning: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._natives: dict[str, msgspec.Raw] = {}
        self._files: list[str] = []

    def add(self, part: Part, before: Part | None) -> None:
        """Take the next part."""
        name = self._profile.name
        match part.content:
            case Reasoning(text, provider=provider):
                if provider == name and text:
                    self._reasoning.append(text)
                    if self._profile.reasoning_echo_field == _THINKING_PARTS:
                        self._content.append({"type": "thinking", "thinking": [{"type": "text", "text": text}]})
            case ToolCall(our_id, tool, arguments):
                function = {"name": tool.routed_name, "arguments": arguments_object(arguments)}
                our_id = call_id(our_id, self._profile.call_ids)
                self._calls.append({"id": our_id, "type": "function", "function": function})
            case OpaqueBlock(provider=provider) as block:
                if provider == name:
                    self._add_native(part, block, before)
            case Blob(media_type) if not is_text(media_type):
                self._files.append(media_type)
            case _:
                if text := assistant_text(part):
                    self._content.append({"type": "text", "text": text})

    def _add_native(self, part: Part, block: OpaqueBlock, before: Part | None) -> None:
        if block.kind == CALL_EXTRA and before is not None and isinstance(before.content, ToolCall):
            self._calls[-1][CALL_EXTRA] = msgspec.Raw(given_back(part, block, dict))
        elif block.kind == REASONING_DETAILS:
            self._natives[REASONING_DETAILS] = msgspec.Raw(given_back(part, block, list))
        elif block.kind == MESSAGE_EXTRA:
            self._natives["extra_content"] = msgspec.Raw(given_back(part, block, dict))

    def echoed(self) -> dict[str, Any]:
        """What the provider wants back beside the content and the calls."""
        echo = self._profile.reasoning_echo_field
        if not echo or echo == _THINKING_PARTS or not self._reasoning:
            return dict(self._natives)
        return {echo: "".join(self._reasoning), **self._natives}

    def encoded(self) -> bytes:
        """The message; b"" for one that says nothing."""
        said = [piece for piece in self._content if piece["type"] == "text"]
        if not said and not self._calls:
            if not self._files:
                return b""
            # The wire has no place for files that a model made, and a turn must not be missing.
            self._content.append({"type": "text", "text": f"({', '.join(self._files)})"})
            said = self._content[-1:]
        text = "".join(piece["text"] for piece in said)
        encoded: dict[str, Any] = {"role": "assistant", "content": text or None}
        if self._profile.reasoning_echo_field == _THINKING_PARTS and self._reasoning:
            encoded["content"] = self._content
        encoded |= self.echoed()
        if self._calls:
            encoded["tool_calls"] = self._calls
        return _json(encoded)


def echoed(message: Message, profile: Profile) -> dict[str, Any]:
    """What of an assistant's turn goes back to its provider beside what it said."""
    turn = _Turn(profile)
    for part in message.parts:
        if isinstance(part.content, Reasoning | OpaqueBlock):
            turn.add(part, None)
    return turn.echoed()


def _assistant(message: Message, profile: Profile) -> bytes:
    turn = _Turn(profile)
    for before, part in zip((None, *message.parts), message.parts, strict=False):
        turn.add(part, before)
    return turn.encoded()


def _tool_results(message: Message, profile: Profile) -> bytes:
    """A ``tool`` message for each result, then the files of all of them as the user's: the wire has no other place."""
    encoded: list[bytes] = []
    files: list[dict[str, Any]] = []
    for part in message.parts:
        if not isinstance(part.content, ToolResult):
            raise refused(part, f"a tool message cannot have a {type(part.content).__name__}")
        text, found = result_text(part.content, profile)
        our_id = call_id(part.content.call_id, profile.call_ids)
        encoded.append(_json({"role": "tool", "tool_call_id": our_id, "content": text}))
        files += [{"type": "text", "text": f"Files of tool call {our_id}:"}, *found] if found else []
    if files:
        encoded.append(_json({"role": "user", "content": files}))
    return b",".join(encoded)


def result_text(result: ToolResult, profile: Profile | None = None) -> tuple[str, list[dict[str, Any]]]:
    """A result as text for the model, and its files as content parts when it can be shown them.

    What cannot be given is named instead: a tool that returns a picture must not end the run of a blind model.
    ``profile``: of the server that may take files; None: text alone.
    """
    files: list[dict[str, Any]] = []
    lines: list[str] = []
    if intro := how_it_ended(result):
        lines.append(intro)
    for part in result.content:
        match part.content:
            case OpaqueBlock(_, value_json):
                lines.append(value_json)
            case Blob(media_type, data) as blob if not is_text(media_type):
                kind = kind_of(media_type)
                try:
                    if profile is None or kind is None:
                        raise Unsendable
                    files.append(content_part(blob, kind, profile))
                except Unsendable:
                    shown = f"{len(data)} bytes of type {media_type or 'unknown'}"
                    lines.append(f"({shown}, which this model cannot be shown)")
            case _:
                lines.append(plain_text(part, _WIRE))
    if not result.content and result.structured_json is not None:
        lines.append(result.structured_json)
    text = "\n".join(line for line in lines if line)
    return text or ("(see the file below)" if files else _NO_OUTPUT), files


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)


def _raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())
