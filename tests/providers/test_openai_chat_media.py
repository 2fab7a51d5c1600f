"""Images, PDFs and audio over chat completions."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from providers.folding import Folded, fold, reads

from turnwired.domain.errors import InvalidRequest
from turnwired.domain.generation import MediaProduced
from turnwired.domain.message import Blob, Message, Part, Role, Text, ToolResult, ToolResultStatus
from turnwired.providers.openai_chat import OpenAIChat
from turnwired.providers.openai_chat_parser import MAX_IMAGES, ChatParser
from turnwired.providers.profiles import InputKind, Profile, Wire

SEEING = OpenAIChat(Profile("acme", Wire.OPENAI_CHAT, "acme", inputs=frozenset(InputKind)))
BLIND = OpenAIChat(Profile("blind", Wire.OPENAI_CHAT, "blind", inputs=frozenset()))
PNG = b"\x89PNG"
PNG_URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


def content(wire: OpenAIChat, blob: Blob) -> Any:
    """The content part of a file in a user message."""
    message = Message(Role.USER, (Part("p0", Text("see")), Part("p1", blob)))
    return json.loads(wire.encode_message(message))["content"][1]


@pytest.mark.requirement("CHAT-10")
@pytest.mark.parametrize(
    ("blob", "expected"),
    [
        (Blob("image/png", PNG), {"type": "image_url", "image_url": {"url": PNG_URL}}),
        (
            Blob("application/pdf", b"%PDF", "https://x.example/a/report.pdf?v=1"),
            {"type": "file", "file": {"filename": "report.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
        ),
        (
            Blob("application/pdf", b"%PDF"),
            {"type": "file", "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
        ),
        (Blob("audio/mpeg", b"ID3"), {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}}),
        (Blob("Audio/X-Wav; x=1", b"ID3"), {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "wav"}}),
    ],
)
def test_a_file_is_the_content_part_of_its_kind(blob: Blob, expected: dict[str, Any]) -> None:
    assert content(SEEING, blob) == expected
    with pytest.raises(InvalidRequest, match=r"parts\[p1\]: provider blind takes no"):
        content(BLIND, blob)


@pytest.mark.requirement("CHAT-10")
@pytest.mark.parametrize(
    ("blob", "why"),
    [
        (Blob("audio/ogg", b"x"), "audio/wav or audio/mpeg"),
        (Blob("audio/wav", b"", "https://x.example/a.wav"), "with its bytes"),
        (Blob("application/pdf", b"", "https://x.example/a.pdf"), "with its bytes"),
        (Blob("image/png", b""), "neither bytes nor an address"),
        (Blob("video/mp4", b"x"), "video/mp4"),
    ],
)
def test_a_file_that_the_wire_cannot_carry_is_refused_with_the_reason(blob: Blob, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        content(SEEING, blob)


@pytest.mark.requirement("CHAT-10")
def test_files_of_results_follow_as_the_users_or_are_named() -> None:
    parts = tuple(
        Part(str(i), blob)
        for i, blob in enumerate([Blob("application/pdf", b"%PDF"), Blob("audio/ogg", b"x"), Blob("image/png", PNG)])
    )
    message = Message(Role.TOOL, (Part("r", ToolResult("c1", ToolResultStatus.OK, parts)),))
    tool, user = json.loads(b"[" + SEEING.encode_message(message) + b"]")
    assert tool["content"] == "(1 bytes of type audio/ogg, which this model cannot be shown)"
    assert [part["type"] for part in user["content"]] == ["text", "file", "image_url"]
    [alone] = json.loads(b"[" + BLIND.encode_message(message) + b"]")
    assert alone["content"].count("cannot be shown") == 3


def answered(*deltas: dict[str, Any], size: int = 0) -> Folded:
    """The folded answer of a stream."""
    told: list[tuple[dict[str, Any], str | None]] = [*((delta, None) for delta in deltas), ({}, "stop")]
    events = [{"id": "r", "choices": [{"index": 0, "delta": delta, "finish_reason": why}]} for delta, why in told]
    return fold(
        ChatParser(), reads(b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events), size)
    )


def image(url: str) -> dict[str, Any]:
    """An image as OpenRouter gives it."""
    return {"type": "image_url", "image_url": {"url": url}, "index": 0}


@pytest.mark.requirement("CHAT-11")
@pytest.mark.parametrize("size", [0, 1])
def test_images_that_a_model_makes_are_parts_of_their_own_and_come_once(size: int) -> None:
    other = PNG_URL.replace("png", "webp")
    found = answered(
        {"content": "Here: ", "images": [image(PNG_URL)]},
        {"content": "and", "images": [image(other)]},
        {"content": "", "images": [image(PNG_URL), image(other)]},
        size=size,
    )
    assert found.media == [MediaProduced(1, "image/png", PNG), MediaProduced(3, "image/webp", PNG)]
    assert [text for _, text in found.parts.values()] == ["Here: ", "and"]


@pytest.mark.requirement("CHAT-11")
def test_images_of_a_plain_answer_and_in_its_content_are_media_too() -> None:
    message = {"role": "assistant", "content": [image(PNG_URL), {"type": "text", "text": "x"}], "images": None}
    body = json.dumps({"id": "r", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
    folded = fold(ChatParser(), [body.encode()])
    assert (folded.media, folded.text) == ([MediaProduced(0, "image/png", PNG)], "x")


@pytest.mark.requirement("CHAT-11")
def test_an_image_elsewhere_is_shown_by_its_address() -> None:
    assert answered({"images": [image("https://x.example/a.png")]}).text == "![image](https://x.example/a.png)"


@pytest.mark.requirement("CHAT-11")
@pytest.mark.parametrize("data", ["image/png,abc", "image/png;base64,A", "image/png;base64,!!!!", ""])
def test_a_damaged_image_is_a_protocol_error_that_keeps_what_came_before(data: str) -> None:
    folded = answered({"content": "a"}, {"images": [image(f"data:{data}")]})
    assert folded.broken
    assert (folded.text, folded.media, folded.stopped) == ("a", [], None)


@pytest.mark.requirement("CHAT-11", "CHAT-20")
def test_images_without_end_are_a_protocol_error() -> None:
    folded = answered({"images": [image(f"https://x.example/{i}") for i in range(MAX_IMAGES + 1)]})
    assert folded.broken
