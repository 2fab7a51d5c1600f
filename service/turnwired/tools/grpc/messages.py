"""Arguments to bytes and bytes to results, by ProtoJSON. Pure; no text of an error quotes a value.

What ``json_format`` refuses is looked for once more, field by field, since its own words quote what was sent.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Final, cast

from google.protobuf import json_format, text_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from turnwired.domain.message import Data, Text
from turnwired.tools.grpc.schema import WRAPPED, map_of, oneofs_of
from turnwired.tools.grpc.wellknown import is_object, is_well_known
from turnwired.tools.result import json_of

_NAMES_SHOWN: Final = 20
_MOST_LOOKED_AT: Final = 1000
"""Entries of a list or map in which the one that is wrong is looked for."""
_ERRORS: Final = (json_format.ParseError, TypeError, ValueError, AttributeError, KeyError, RecursionError)
"""What json_format raises: its own error, and of values that are of another type than it thought of, Python's."""


class NotTaken(Exception):
    """The arguments are no message of the type; the text says where and what is wanted."""


class NotRead(Exception):
    """The answer is no message of the type."""


def request_of(arguments: Mapping[str, object], message: Descriptor, pool: DescriptorPool) -> bytes:
    """The bytes of the message. Raises NotTaken."""
    value: object = dict(arguments)
    if not is_object(message):
        if list(arguments) != [WRAPPED]:
            raise NotTaken(f"takes the property {WRAPPED!r} alone")
        value = arguments[WRAPPED]
    try:
        return _parsed(value, message, pool).SerializeToString()
    except _ERRORS:
        raise NotTaken(_found_problem(value, message, pool)) from None


def content_of(data: bytes, message: Descriptor, pool: DescriptorPool) -> Data | Text:
    """The message as JSON; as protobuf text if it holds one whose type the service does not describe.

    Fields that are not there are told with their value, so that a zero can be seen. Raises NotRead.
    """
    try:
        read = GetMessageClass(message).FromString(data)
    except (DecodeError, RecursionError):
        raise NotRead from None
    try:
        value = json_format.MessageToDict(read, always_print_fields_with_no_presence=True, descriptor_pool=pool)
        return Data(json_of(value))
    except (json_format.SerializeToJsonError, TypeError, ValueError, RecursionError):
        # An Any of an unknown type, a Timestamp out of its range: what has been done is still told.
        return Text(text_format.MessageToString(read, as_utf8=True, descriptor_pool=pool))


def _parsed(value: object, message: Descriptor, pool: DescriptorPool) -> Message:
    return json_format.ParseDict(cast("dict[str, object]", value), GetMessageClass(message)(), descriptor_pool=pool)


def _taken(value: object, message: Descriptor, pool: DescriptorPool) -> bool:
    try:
        _parsed(value, message, pool)
    except _ERRORS:
        return False
    return True


def _found_problem(value: object, message: Descriptor, pool: DescriptorPool) -> str:
    try:
        return _problem(value, message, pool, "")
    except RecursionError:
        return "they are nested too deeply"


def _problem(value: object, message: Descriptor, pool: DescriptorPool, path: str) -> str:
    """Where the first thing is that is not taken, and what is wanted there."""
    where = path or "the arguments"
    if is_well_known(message):
        return f"{where}: must be a {message.full_name} as ProtoJSON"
    if not isinstance(value, dict):
        return f"{where}: must be an object"
    given = cast("dict[str, object]", value)
    fields = {item.json_name: item for item in message.fields} | {item.name: item for item in message.fields}
    for name, below in given.items():
        at = f"{path}.{name}" if path else name
        item = fields.get(name)
        if item is None:
            known = ", ".join(sorted(item.json_name for item in message.fields)[:_NAMES_SHOWN]) or "none"
            return f"{at}: there is no such field; the fields of {message.full_name} are {known}"
        if not _taken({name: below}, message, pool):
            return _of_field(below, item, pool, at)
    for group in oneofs_of(message):
        both = [item.json_name for item in group if any(given.get(n) is not None for n in (item.json_name, item.name))]
        if len(both) > 1:
            return f"{where}: at most one of {', '.join(both)} may be set"
    return f"{where}: must be a {message.full_name} as ProtoJSON"


def _of_field(value: object, item: FieldDescriptor, pool: DescriptorPool, path: str) -> str:
    if (entry := map_of(item)) is not None:
        of = entry[1].message_type
        items = cast("dict[str, object]", value).items() if isinstance(value, dict) else ()
        for name, below in itertools.islice(items, _MOST_LOOKED_AT):
            if of is not None and not _taken(below, of, pool):
                return _problem(below, of, pool, f"{path}[{name}]")
        return f"{path}: must be a map of {_kind(entry[0])} to {_kind(entry[1])}"
    if item.is_repeated:
        if not isinstance(value, list):
            return f"{path}: must be a list"
        for index, below in enumerate(cast("list[object]", value)[:_MOST_LOOKED_AT]):
            assert item.containing_type is not None, "every field of a message has one"
            if not _taken({item.name: [below]}, item.containing_type, pool):
                return _of_value(below, item, pool, f"{path}[{index}]")
        return f"{path}: has an element that is not {_kind(item)}"
    return _of_value(value, item, pool, path)


def _of_value(value: object, item: FieldDescriptor, pool: DescriptorPool, path: str) -> str:
    if item.message_type is not None:
        return _problem(value, item.message_type, pool, path)
    return f"{path}: must be {_kind(item)}"


def _kind(item: FieldDescriptor) -> str:
    if item.message_type is not None:
        return item.message_type.full_name
    if item.enum_type is not None:
        return f"a name of {item.enum_type.full_name}"
    match item.type:
        case FieldDescriptor.TYPE_BOOL:
            return "true or false"
        case FieldDescriptor.TYPE_STRING:
            return "text"
        case FieldDescriptor.TYPE_BYTES:
            return "bytes in base64"
        case FieldDescriptor.TYPE_DOUBLE | FieldDescriptor.TYPE_FLOAT:
            return "a number"
        case FieldDescriptor.TYPE_INT32 | FieldDescriptor.TYPE_SINT32 | FieldDescriptor.TYPE_SFIXED32:
            return "an integer of 32 bits"
        case FieldDescriptor.TYPE_UINT32 | FieldDescriptor.TYPE_FIXED32:
            return "an unsigned integer of 32 bits"
        case FieldDescriptor.TYPE_UINT64 | FieldDescriptor.TYPE_FIXED64:
            return "an unsigned integer of 64 bits"
        case _:
            return "an integer of 64 bits"
