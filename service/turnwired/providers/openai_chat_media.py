"""Images, PDFs and audio in chat completions: as parts of a user message, and images that a model made. Pure.

Sources: OpenAI API reference, "Create chat completion", content parts; OpenRouter, "Image generation".
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from turnwired.domain.message import Blob
from turnwired.providers.profiles import InputKind, Profile

_AUDIO_FORMATS = {
    **dict.fromkeys(("audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave"), "wav"),
    **dict.fromkeys(("audio/mpeg", "audio/mp3", "audio/x-mp3"), "mp3"),
}
_NAMES = {InputKind.IMAGE: "images", InputKind.PDF: "PDFs", InputKind.AUDIO: "audio"}


class Unsendable(Exception):
    """A file has no place in a request; the text says why."""


def kind_of(media_type: str) -> InputKind | None:
    """Which kind of input a file is, or None for any other."""
    bare = media_type.partition(";")[0].strip().lower()
    if bare.startswith("image/"):
        return InputKind.IMAGE
    if bare == "application/pdf":
        return InputKind.PDF
    return InputKind.AUDIO if bare.startswith("audio/") else None


def content_part(blob: Blob, kind: InputKind, profile: Profile) -> dict[str, Any]:
    """A file as a content part. Raises Unsendable."""
    if kind not in profile.inputs:
        raise Unsendable(f"provider {profile.name} takes no {_NAMES[kind]}")
    bare = blob.media_type.partition(";")[0].strip().lower()
    match kind:
        case InputKind.IMAGE:
            if not blob.data and not blob.uri:
                raise Unsendable("the image has neither bytes nor an address")
            url = f"data:{bare};base64,{_encoded(blob.data)}" if blob.data else blob.uri
            return {"type": "image_url", "image_url": {"url": url}}
        case InputKind.PDF:
            if not blob.data:
                raise Unsendable("a PDF is sent with its bytes, not with its address")
            name = blob.uri.partition("?")[0].rpartition("/")[2]
            data = f"data:application/pdf;base64,{_encoded(blob.data)}"
            named = name if name.lower().endswith(".pdf") else "document.pdf"
            return {"type": "file", "file": {"filename": named, "file_data": data}}
        case InputKind.AUDIO:
            form = _AUDIO_FORMATS.get(bare)
            if form is None:
                raise Unsendable(f"audio is sent as audio/wav or audio/mpeg, not as {bare}")
            if not blob.data:
                raise Unsendable("audio is sent with its bytes, not with its address")
            return {"type": "input_audio", "input_audio": {"data": _encoded(blob.data), "format": form}}


def image_of(url: str) -> tuple[str, bytes] | None:
    """Media type and bytes of an image that came as a data URL; None for any other address.

    Raises ValueError for a data URL that cannot be read.
    """
    if not url.startswith("data:"):
        return None
    head, comma, data = url[5:].partition(",")
    media_type, *parameters = head.split(";")
    if not comma or "base64" not in parameters:
        raise ValueError("an image that is not base64")
    try:
        return media_type.strip().lower() or "image/png", base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise ValueError("an image whose base64 is damaged") from error


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
