"""Bodies of HTTP answers: read up to a bound, unpacked within it, and told apart as text or bytes. Knows no tool."""

from __future__ import annotations

import codecs
import re
import zlib
from dataclasses import dataclass
from typing import Final

import httpx2

from turnwired.tools.operator.reading import text_of

_TEXTUAL: Final = re.compile(
    r"^(?:text/.*|application/(?:.*\+)?(?:json|xml|yaml|x-yaml|toml|javascript|ecmascript)|application/x-ndjson|application/x-www-form-urlencoded|image/svg\+xml)$"
)
_MEDIA_TYPE: Final = re.compile(r"^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}$")
_CHARACTER_SETS: Final = re.compile(
    r"^(?:ascii|utf-(?:8|8-sig|16|16-le|16-be|32|32-le|32-be)|iso8859-\d+|latin-1|koi8-[rtu]|kz1048|ptcp154|tis-620"
    r"|(?:cp|mac|euc_|iso2022_|shift_jis|big5|gb|hz|johab|hp-roman8)[a-z0-9_-]*)$"
)
_GZIP: Final = 16 + zlib.MAX_WBITS


class NotRead(Exception):
    """The body is packed in a way that was not asked for, or cannot be unpacked."""


@dataclass(frozen=True, slots=True)
class Body:
    """``text`` is None for what is no text. ``cut``: there was more."""

    text: str | None
    data: bytes
    cut: bool
    media_type: str = "application/octet-stream"


async def read_body(response: httpx2.Response, limit: int) -> Body:
    """The first ``limit`` bytes, unpacked. Reads no more than that needs. Raises NotRead."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"identity", "gzip", "x-gzip", ""}:
        raise NotRead("the answer is packed in a way that was not asked for")
    unpacked = zlib.decompressobj(_GZIP) if encoding.endswith("gzip") else None
    data = bytearray()
    async for chunk in response.aiter_raw():
        left = limit + 1 - len(data)
        if unpacked is None:
            data += chunk[:left]
        else:
            try:
                data += unpacked.decompress(chunk, left)
            except zlib.error:
                raise NotRead("the answer cannot be unpacked") from None
        if len(data) > limit:
            break
    cut = len(data) > limit
    return _body(bytes(data[:limit]), response.headers.get("content-type", ""), cut)


def _body(data: bytes, content_type: str, cut: bool) -> Body:
    media_type, charset = _taken_apart(content_type)
    if media_type and not _TEXTUAL.match(media_type):
        return Body(None, data, cut, media_type)
    if charset is None:
        text = text_of(data, cut)
        if text is None and media_type:
            text = data.decode("utf-8", "replace")
    else:
        text = data.decode(charset, "replace")
    return Body(text, data, cut, media_type or "application/octet-stream")


def _taken_apart(content_type: str) -> tuple[str, str | None]:
    """The media type, empty when none is told, and the name of the character set if there is one that Python knows."""
    media_type, _, parameters = content_type.partition(";")
    media_type = media_type.strip().lower()
    if not _MEDIA_TYPE.match(media_type):
        media_type = ""
    found = re.search(r"""charset\s*=\s*["']?([A-Za-z0-9_.:-]{1,40})""", parameters, re.IGNORECASE)
    if found is None:
        return media_type, None
    return media_type, _character_set(found[1])


def _character_set(label: str) -> str | None:
    """The codec of a character set that pages are written in.

    Python has others: some take time that grows faster than the body, some refuse to replace what they cannot read.
    """
    try:
        name = codecs.lookup(label).name
    except LookupError:
        return None
    return name if _CHARACTER_SETS.match(name) else None
