"""Canonical messages and tools as the input items of a Responses request. Pure and deterministic: prompt caches live
from that. Knows the profile's fields and no server by name.

What the provider made itself (reasoning, its own tools) goes back word for word, in its order, and to it alone.
Source: OpenAI API reference, "Create a model response", ``input`` and ``tools``.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

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
from turnwired.providers.openai_chat_messages import call_id
from turnwired.providers.openai_responses_items import CITATIONS, CLIENT_ITEMS, ENVELOPE, REASONING
from turnwired.providers.parts import arguments_object, how_it_ended, is_text, plain_text, refused
from turnwired.providers.profiles import InputKind, Profile
from turnwired.providers.schema_adaptation import adapted, for_tools

WIRE = "openai.responses"
_NO_OUTPUT = "(no output)"
_NO_PARAMETERS = '{"type":"object","properties":{}}'
_AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}
_KINDS = {InputKind.IMAGE: "images", InputKind.PDF: "PDF documents", InputKind.AUDIO: "audio"}


def encode_system(blocks: Sequence[str]) -> bytes:
    """The ``instructions`` as a JSON string; b"" for none."""
    text = "\n\n".join(block for block in blocks if block)
    return _json(text) if text else b""


def encode_message(message: Message, profile: Profile) -> bytes:
    """One or more input items joined by commas; b"" for a message without content.

    Raises InvalidRequest naming the part when the wire or the model has no place for it.
    """
    match message.role:
        case Role.SYSTEM:
            text = "\n\n".join(text for part in message.parts if (text := plain_text(part, WIRE)))
            return _json({"role": "system", "content": text}) if text else b""
        case Role.USER:
            return _user(message, profile)
        case Role.ASSISTANT:
            return _Assistant(profile).encode(message)
        case Role.TOOL:
            return b",".join(_tool_result(part, profile) for part in message.parts)


def encode_tools(tools: Sequence[Tool], profile: Profile) -> bytes:
    """The ``tools`` array, in the given order. This wire is strict unless told otherwise, so that it is always told."""
    adaptations = for_tools(profile.schema_adaptations)
    return _json(
        [
            {
                "type": "function",
                "name": tool.ref.routed_name,
                "description": tool.description,
                "parameters": msgspec.Raw(adapted(tool.input_schema_json or _NO_PARAMETERS, adaptations).encode()),
                "strict": False,
            }
            for tool in tools
        ]
    )


def _user(message: Message, profile: Profile) -> bytes:
    content = [_user_part(part, profile) for part in message.parts]
    if not content:
        return b""
    if all(piece["type"] == "input_text" for piece in content):
        # Plain text is what every server takes; lists only some.
        return _json({"role": "user", "content": "\n\n".join(piece["text"] for piece in content)})
    return _json({"role": "user", "content": content})


def _user_part(part: Part, profile: Profile) -> dict[str, Any]:
    if isinstance(part.content, Blob) and (kind := _input_kind(part.content)) is not None:
        if kind not in profile.inputs:
            raise refused(part, f"provider {profile.name} takes no {_KINDS[kind]}")
        return _media(part, part.content, kind)
    return {"type": "input_text", "text": plain_text(part, WIRE)}


def _input_kind(blob: Blob) -> InputKind | None:
    if blob.media_type.startswith("image/"):
        return InputKind.IMAGE
    if blob.media_type == "application/pdf":
        return InputKind.PDF
    return InputKind.AUDIO if blob.media_type.startswith("audio/") else None


def _media(part: Part, blob: Blob, kind: InputKind) -> dict[str, Any]:
    encoded = base64.b64encode(blob.data).decode()
    url = f"data:{blob.media_type};base64,{encoded}" if blob.data else blob.uri
    if not url:
        raise refused(part, "the file has neither data nor an address")
    match kind:
        case InputKind.IMAGE:
            return {"type": "input_image", "image_url": url}
        case InputKind.PDF:
            if not blob.data:
                return {"type": "input_file", "file_url": url}
            return {"type": "input_file", "filename": _file_name(blob.uri), "file_data": url}
        case InputKind.AUDIO:
            if blob.media_type not in _AUDIO_FORMATS or not blob.data:
                raise refused(part, f"audio is sent as wav or mp3 data, not as {blob.media_type}")
            audio = {"data": encoded, "format": _AUDIO_FORMATS[blob.media_type]}
            return {"type": "input_audio", "input_audio": audio}


def _file_name(uri: str) -> str:
    name = urlsplit(uri).path.rpartition("/")[2]
    return name if name.lower().endswith(".pdf") else "document.pdf"


class _Assistant:
    """An assistant's turn as output items. Reasoning waits for the item that follows it: alone it is refused (400)."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._items: list[bytes] = []
        self._texts: list[str] = []
        self._reasoning: list[str] = []
        self._reasoned = False
        self._paired = True

    def encode(self, message: Message) -> bytes:
        """The items joined by commas. Raises InvalidRequest."""
        answered = _answered(message, self._profile.name)
        for part in message.parts:
            match part.content:
                case Reasoning() | Blob():
                    pass  # what there is to give back of either is in a block of its own
                case ToolCall(our_id, tool, arguments):
                    self._end_message()
                    item = {
                        "type": "function_call",
                        "call_id": call_id(our_id, self._profile.call_ids),
                        "name": tool.routed_name,
                        "arguments": arguments_object(arguments),
                    }
                    self._add(_json(item))
                case OpaqueBlock(provider=provider) as block:
                    if provider == self._profile.name:
                        self._native(part, block, answered)
                case _:
                    if text := plain_text(part, WIRE):
                        self._texts.append(text)
        self._end_message()
        return b",".join(self._items)

    def _native(self, part: Part, block: OpaqueBlock, answered: frozenset[str]) -> None:
        kind, value_json = block.kind, block.value_json
        if kind == CITATIONS:
            return
        if kind == ENVELOPE:
            self._end_message(_object(value_json))
            return
        self._end_message()
        if kind == REASONING:
            # Without any of these it is an id of something that nobody has kept.
            if any(_object(value_json).get(name) for name in ("encrypted_content", "content", "summary")):
                self._reasoning.append(value_json)
            else:
                self._paired = False
        elif kind not in CLIENT_ITEMS or _object(value_json).get("call_id") in answered:
            self._add(given_back(part, block, dict))
        else:  # nobody answered it, and the reasoning before it belongs to it
            self._reasoning.clear()
            self._paired = False

    def _end_message(self, envelope: dict[str, Any] | None = None) -> None:
        """Put the texts so far into messages: into one where it is known that they were one.

        A message's id and the reasoning before it refer to each other: both go back or none.
        """
        texts, self._texts = self._texts, []
        if envelope is None:
            for text in texts:
                self._add(_json(_message_of([text])))
        elif texts:
            reasoned = self._reasoned or bool(self._reasoning)
            kept = ("id", "phase") if reasoned and self._paired else ("phase",)
            self._add(_json(_message_of(texts) | {name: envelope[name] for name in kept if name in envelope}))

    def _add(self, item: bytes) -> None:
        if self._reasoning:
            self._items += [reasoning.encode() for reasoning in self._reasoning]
            self._reasoning = []
            self._reasoned = True
        self._items.append(item)


def _message_of(texts: Sequence[str]) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text} for text in texts]
    return {"type": "message", "role": "assistant", "content": content}


def _answered(message: Message, provider: str) -> frozenset[str]:
    """The call_ids of which the provider itself gave the output; a call without one would be refused."""
    found: set[str] = set()
    for part in message.parts:
        match part.content:
            case OpaqueBlock(kind, value_json, own) if own == provider and kind.endswith("_output"):
                call = _object(value_json).get("call_id")
                if isinstance(call, str):
                    found.add(call)
            case _:
                pass
    return frozenset(found)


def _tool_result(part: Part, profile: Profile) -> bytes:
    if not isinstance(part.content, ToolResult):
        raise refused(part, f"a tool message cannot have a {type(part.content).__name__}")
    result = part.content
    text, files = _result_content(result, profile)
    output: str | list[dict[str, Any]] = text or _NO_OUTPUT
    if files:
        output = [{"type": "input_text", "text": text}, *files] if text else files
    our_id = call_id(result.call_id, profile.call_ids)
    return _json({"type": "function_call_output", "call_id": our_id, "output": output})


def _result_content(result: ToolResult, profile: Profile) -> tuple[str, list[dict[str, Any]]]:
    """A result as text, and the files that the model can be shown.

    What cannot be given is named instead: a tool that returns a picture must not end the run of a blind model.
    """
    lines: list[str] = []
    files: list[dict[str, Any]] = []
    if intro := how_it_ended(result):
        lines.append(intro)
    for part in result.content:
        match part.content:
            case OpaqueBlock(_, value_json):
                lines.append(value_json)
            case Blob() as blob if _shown(blob, profile):
                files.append(
                    _media(part, blob, InputKind.IMAGE if blob.media_type.startswith("image/") else InputKind.PDF)
                )
            case Blob(media_type, data) if not is_text(media_type):
                lines.append(f"({len(data)} bytes of type {media_type or 'unknown'}, which this model cannot be shown)")
            case _:
                lines.append(plain_text(part, WIRE))
    if not result.content and result.structured_json is not None:
        lines.append(result.structured_json)
    return "\n".join(line for line in lines if line), files


def _shown(blob: Blob, profile: Profile) -> InputKind | None:
    """What a result can have of files: images and documents, no audio (400: unsupported MIME type)."""
    kind = _input_kind(blob)
    shown = kind is not InputKind.AUDIO and kind in profile.inputs and bool(blob.data or blob.uri)
    return kind if shown else None


def _object(value_json: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(value_json)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)
