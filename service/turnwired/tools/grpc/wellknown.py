"""The messages that ProtoJSON writes in a form of their own, and their JSON Schemas. Pure.

Follows the table of https://protobuf.dev/programming-guides/json.
"""

from __future__ import annotations

from typing import Final

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto

Schema = dict[str, object]

FILES: Final = {
    file.name: FileDescriptorProto.FromString(file.serialized_pb)
    for file in (
        any_pb2.DESCRIPTOR,
        api_pb2.DESCRIPTOR,
        descriptor_pb2.DESCRIPTOR,
        duration_pb2.DESCRIPTOR,
        empty_pb2.DESCRIPTOR,
        field_mask_pb2.DESCRIPTOR,
        source_context_pb2.DESCRIPTOR,
        struct_pb2.DESCRIPTOR,
        timestamp_pb2.DESCRIPTOR,
        type_pb2.DESCRIPTOR,
        wrappers_pb2.DESCRIPTOR,
    )
}
"""Ours stand in for a service's own: the JSON code counts on their fields."""

_INT64: Final[Schema] = {"type": ["integer", "string"], "format": "int64", "pattern": "^-?[0-9]{1,19}$"}
_UINT64: Final[Schema] = {"type": ["integer", "string"], "format": "uint64", "minimum": 0, "pattern": "^[0-9]{1,20}$"}
_SCHEMAS: Final[dict[str, Schema]] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time", "description": "RFC 3339, in UTC."},
    "google.protobuf.Duration": {
        "type": "string",
        "pattern": r"^-?[0-9]{1,12}(\.[0-9]{1,9})?s$",
        "description": 'Seconds, such as "1.5s".',
    },
    "google.protobuf.FieldMask": {
        "type": "string",
        "description": 'Paths of fields in lowerCamelCase, separated by commas, such as "name,unitPrice".',
    },
    "google.protobuf.Struct": {"type": "object"},
    "google.protobuf.Value": {},
    "google.protobuf.ListValue": {"type": "array", "items": {}},
    "google.protobuf.Any": {
        "type": "object",
        "properties": {"@type": {"type": "string"}},
        "required": ["@type"],
        "description": 'A message as ProtoJSON, with its type in "@type", such as "type.googleapis.com/full.Name".',
    },
    "google.protobuf.Empty": {"type": "object", "properties": {}, "additionalProperties": False},
    "google.protobuf.BoolValue": {"type": "boolean"},
    "google.protobuf.StringValue": {"type": "string"},
    "google.protobuf.BytesValue": {"type": "string", "contentEncoding": "base64"},
    "google.protobuf.DoubleValue": {"type": "number"},
    "google.protobuf.FloatValue": {"type": "number"},
    "google.protobuf.Int32Value": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
    "google.protobuf.UInt32Value": {"type": "integer", "minimum": 0, "maximum": 2**32 - 1},
    "google.protobuf.Int64Value": _INT64,
    "google.protobuf.UInt64Value": _UINT64,
}
_OBJECTS: Final = frozenset({"google.protobuf.Struct", "google.protobuf.Any", "google.protobuf.Empty"})


def is_well_known(message: Descriptor) -> bool:
    """Whether its JSON is not that of its fields."""
    return message.full_name in _SCHEMAS


def is_object(message: Descriptor) -> bool:
    """Whether its JSON is an object."""
    return not is_well_known(message) or message.full_name in _OBJECTS


def well_known(full_name: str) -> Schema:
    """The schema of such a message, the caller's to alter."""
    return dict(_SCHEMAS[full_name])
