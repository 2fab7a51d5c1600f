"""What goes back to its provider word for word, checked before it joins a body. Pure; knows no wire.

A caller can write such a block too. Bytes that are no whole JSON value would end the value that they stand in, and then
say what the caller likes in the place of what the policy decides.
"""

from __future__ import annotations

from typing import Any

import msgspec

from turnwired.domain.errors import FieldViolation, InvalidRequest
from turnwired.domain.message import OpaqueBlock, Part


def given_back(part: Part, block: OpaqueBlock, form: type[list[Any] | dict[str, Any]]) -> bytes:
    """The bytes of a native block as they are. Raises InvalidRequest where they are no JSON value of that form."""
    try:
        text = block.value_json.encode()
        if isinstance(msgspec.json.decode(text), form):
            return text
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        pass
    what = "array" if form is list else "object"
    told = f"a native block of kind {block.kind[:64]} is a JSON {what}, as its provider sent it"
    raise InvalidRequest([FieldViolation(f"parts[{part.part_id}]", told)])
