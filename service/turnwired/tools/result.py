"""What a tool gave, made fit to be stored, sent and shown to a model: cleaned, capped, numbered.

The one place where results enter a run, whatever their source. Pure.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Final, assert_never, cast

import orjson

from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import (
    MAX_RESULT_PARTS,
    AttachmentRef,
    Blob,
    Content,
    Data,
    OpaqueBlock,
    Part,
    Reasoning,
    ResourceLink,
    Text,
    ToolCall,
    ToolResult,
    ToolResultStatus,
)
from turnwired.domain.text import clean_text
from turnwired.tools.port import ProgressReporter, ToolOutput

MAX_PROGRESS: Final = 1000
"""Characters of what a tool says of its progress."""
_UNCLEAN_ESCAPE: Final = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
_SECRETS: Final = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/_.~=-]{8,}"), r"\1 [redacted]"),
    (re.compile(r"(://[^/\s:@]*):[^/\s@]+@"), r"\1:[redacted]@"),
    (
        # From the first character of a run of them only: tried from each, a long run would take its length squared.
        re.compile(
            r"(?i)(?<![\w-])([\w-]*(?:api[_-]?key|token|secret|passwd|password))(['\"]?\s*[=:]\s*)(['\"]?)[^\s'\",;&]+"
        ),
        r"\1\2\3[redacted]",
    ),
    (re.compile(r"\b(?:sk|pk|ghp|gho|xox[abp]|AKIA)[-_A-Za-z0-9]{16,}"), "[redacted]"),
)


def clean_json(text: str) -> str:
    """The JSON text, with strings in it cleaned as ``clean_text`` does. Text that is no JSON is cleaned as text."""
    text = clean_text(text)
    if _UNCLEAN_ESCAPE.search(text) is None:
        return text
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(_clean_value(value), ensure_ascii=False, separators=(",", ":"))


def redact(text: str, limit: int = 2000) -> str:
    """Foreign words about a failure, clipped and without what looks like a credential."""
    text = clean_text(text[:limit])
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def clean_progress(report: ProgressReporter) -> ProgressReporter:
    """Takes what any tool reports: numbers that are none are left out, words are cleaned and cut."""

    def cleaned(done: float, total: float | None, words: str) -> None:
        if math.isfinite(done):
            known = total if total is not None and math.isfinite(total) else None
            report(done, known, clean_text(words[:MAX_PROGRESS]))

    return cleaned


def json_of(value: object) -> str:
    """JSON text of a plain value that came from JSON. Raises TypeError for anything else."""
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        # Lone surrogates and integers beyond 64 bits; rare, so the slower way round is taken only for them.
        return json.dumps(_clean_value(value), ensure_ascii=False, separators=(",", ":"))


def settle_output(call_id: str, output: ToolOutput, max_bytes: int | None) -> ToolResult:
    """The result of a call whose source answered.

    An error says so in its first part, since not every provider has a flag for it. A structured value alone is also the
    content, so that there is always one form for the model.
    """
    content, structured, cut_from = _bounded(output, max_bytes)
    failure: Failure | None = None
    status = ToolResultStatus.OK
    if output.is_error:
        status = ToolResultStatus.ERROR
        failure = output.failure or Failure(
            phase=FailurePhase.TOOL, reason=Reason.TOOL_FAILED, message="the tool reported an error"
        )
        failure = replace(failure, call_id=call_id)
    if output.is_error:
        content = (Text("The tool call failed."), *content)
    return ToolResult(call_id, status, _numbered(call_id, content), structured, failure, output.cut_from or cut_from)


def capped_output(output: ToolOutput, max_bytes: int) -> ToolOutput:
    """The output cut as a result is, for a source with a limit of its own."""
    content, structured, cut_from = _bounded(output, max_bytes)
    if cut_from is None:
        return output
    parts = tuple(Part("", item) for item in content)
    return replace(output, content=parts, structured_json=structured, cut_from=output.cut_from or cut_from)


def _bounded(output: ToolOutput, max_bytes: int | None) -> tuple[tuple[Content, ...], str | None, int | None]:
    """Content and structured value, clean and within the limit, and the size from which they were cut if they were."""
    content = tuple(_clean(part.content) for part in output.content[:MAX_RESULT_PARTS])
    beyond = output.content[MAX_RESULT_PARTS:]
    structured = None if output.structured_json is None else clean_json(output.structured_json)
    if not content and structured is not None:
        content = (Data(structured),)
    sizes = [_size(item) for item in content]
    whole = sum(sizes) + sum(_size(part.content) for part in beyond)
    original = max(whole, 0 if structured is None else len(structured.encode()))
    fits = max_bytes is None or original <= max_bytes
    if fits and not beyond:
        return content, structured, None
    if max_bytes is not None and not fits:
        if structured is not None and len(structured.encode()) > max_bytes:
            structured = None
        content = _cut(content, sizes, max_bytes, original)
    if beyond:
        words = f"\n[The result was cut: it has more than {MAX_RESULT_PARTS} parts, which are the most.]"
        content = (*content, Text(words))
    return content, structured, original


def settle_failure(call_id: str, status: ToolResultStatus, failure: Failure) -> ToolResult:
    """The result of a call that gave no output: the failure's sentence is what the model reads."""
    failure = replace(failure, call_id=call_id, message=redact(failure.message))
    text = Text(f"The tool call failed: {failure.message}")
    return ToolResult(call_id, status, _numbered(call_id, (text,)), failure=failure)


def _numbered(call_id: str, content: tuple[Content, ...]) -> tuple[Part, ...]:
    return tuple(Part(f"{call_id}.{index}", item) for index, item in enumerate(content))


def _cut(content: tuple[Content, ...], sizes: list[int], max_bytes: int, original: int) -> tuple[Content, ...]:
    left = max_bytes
    kept: list[Content] = []
    for item, size in zip(content, sizes, strict=True):
        if size <= left:
            kept.append(item)
            left -= size
            continue
        match item:
            case Text(text) | Data(text) | Reasoning(text):
                # A part of a JSON text is no JSON text, so what is left of it is text.
                kept.append(Text(text.encode()[:left].decode("utf-8", "ignore")))
                left = 0
            case Blob(media_type):
                kept.append(Text(f"[{media_type or 'bytes'} of {size} bytes left out]"))
            case OpaqueBlock() | ResourceLink() | AttachmentRef() | ToolCall() | ToolResult():
                kept.append(Text(f"[a part of {size} bytes left out]"))
            case _:
                assert_never(item)
    kept.append(Text(f"\n[The result was cut: it has {original} bytes, the limit is {max_bytes}.]"))
    return tuple(item for item in kept if not (isinstance(item, Text) and not item.text))


def _size(content: Content) -> int:
    match content:
        case Text(text) | Data(text):
            return len(text) if text.isascii() else len(text.encode())
        case Blob(media_type, data, uri):
            return len(data) + len(media_type) + len(uri)
        case OpaqueBlock(kind, value):
            return len(kind) + len(value.encode())
        case ResourceLink(uri, name, media_type):
            return len(uri.encode()) + len(name.encode()) + len(media_type)
        case Reasoning(text, signature):
            return len(text.encode()) + len(signature)
        case AttachmentRef(attachment_id):
            return len(attachment_id)
        case ToolCall() | ToolResult():
            return 0
        case _:
            assert_never(content)


def _clean(content: Content) -> Content:
    match content:
        case Text(text):
            return Text(clean_text(text))
        case Data(text):
            return Data(clean_json(text))
        case Blob(media_type, data, uri):
            return Blob(clean_text(media_type), data, clean_text(uri))
        case ResourceLink(uri, name, media_type):
            return ResourceLink(clean_text(uri), clean_text(name), clean_text(media_type))
        case OpaqueBlock(kind, value):
            return OpaqueBlock(clean_text(kind), clean_json(value))
        case Reasoning(text, signature):
            return Reasoning(clean_text(text), signature)
        case AttachmentRef(attachment_id):
            return AttachmentRef(clean_text(attachment_id))
        case ToolCall() | ToolResult():
            raise TypeError("the result of a tool holds no calls and no results")
        case _:
            assert_never(content)


def _clean_value(value: object) -> object:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(str(key)): _clean_value(item) for key, item in cast("dict[object, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_clean_value(item) for item in cast("list[object]", value)]
    return value
