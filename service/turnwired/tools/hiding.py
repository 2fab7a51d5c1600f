"""What a tool source has from us as a credential and says again, taken out of what it says of a failure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from turnwired.domain.message import Blob, Content, Data, OpaqueBlock, Part, ResourceLink, Text
from turnwired.tools.port import ToolOutput
from turnwired.tools.result import json_of

Hide = Callable[[str], str]
"""Takes the credentials of a server out of what it says."""

REDACTED: Final = "[redacted]"
_SHORTEST: Final = 6


def hidden(text: str, secrets: Iterable[str]) -> str:
    """Foreign words without these values, also as JSON writes them. Short values are left: they are words."""
    found = {form for secret in secrets if len(secret) >= _SHORTEST for form in _forms(secret)}
    for form in sorted(found, key=len, reverse=True):
        text = text.replace(form, REDACTED)
    return text


def _forms(secret: str) -> Iterator[str]:
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]


def told(output: ToolOutput, hide: Hide) -> ToolOutput:
    """The output; if it is about a failure, without credentials in any part: servers put there what their own server
    answered, key and all.
    """
    if not output.is_error:
        return output
    structured = output.structured_json
    return replace(
        output,
        content=tuple(Part(part.part_id, _told(part.content, hide)) for part in output.content),
        structured_json=None if structured is None else _hidden_json(structured, hide),
    )


def _told(content: Content, hide: Hide) -> Content:
    match content:
        case Text(text):
            return Text(hide(text))
        case Data(text):
            return Data(_hidden_json(text, hide))
        case Blob(media_type, data, uri):
            bare = hide(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")
            return Blob(hide(media_type), bare, hide(uri))
        case ResourceLink(uri, name, media_type):
            return ResourceLink(hide(uri), hide(name), hide(media_type))
        case OpaqueBlock(kind, value, provider):
            return OpaqueBlock(hide(kind), _hidden_json(value, hide), provider)
        case _:
            return content  # no source makes others, and what settles a result refuses them


def _hidden_json(text: str, hide: Hide) -> str:
    bare = hide(text)
    if bare == text:
        return text
    try:
        json.loads(bare)
    except (ValueError, RecursionError):  # the credential was no string there, or was its structure too
        return json_of(REDACTED)
    return bare
