"""Text that comes from outside: without what no store and no wire takes, and read as JSON where it must be that."""

from __future__ import annotations

import json


def clean_text(text: str) -> str:
    """The text without NUL and lone surrogates, each replaced by U+FFFD; surrogate pairs become their character."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def parse_json(text: str) -> object:
    """The value (RFC 8259), without NaN and Infinity, which Python would take. Raises ValueError, RecursionError."""
    return json.loads(text, parse_constant=_no_constant)


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
