"""JSON Schemas of messages, as ProtoJSON takes and gives them. Pure; knows descriptors, no gRPC.

Follows https://protobuf.dev/programming-guides/json. A message that is used once stands where it is used, one that is
used again or holds itself is under ``$defs``. Near messages come first: what lies beyond the bounds is any object, with
its name, so that a schema has an end whatever the descriptors say.
"""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from google.api import field_behavior_pb2 as behavior
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from turnwired.tools.grpc.wellknown import Schema, is_object, is_well_known, well_known

MAX_DEPTH: Final = 12
MAX_MESSAGES: Final = 200
MAX_FIELDS: Final = 1500
MAX_ENUM_VALUES: Final = 200
MAX_VALUES: Final = 2000
"""Of all enums of a schema."""
MAX_DESCRIPTION: Final = 1000
MAX_ONEOF_PAIRS: Final = 66
MAX_BYTES: Final = 128 * 1024
WRAPPED: Final = "value"
_FEW_MESSAGES: Final = 8
_FIELD_BEHAVIOR: Final[Any] = behavior.field_behavior  # its stub has no type of an extension
_SHOWN_VALUES: Final = 5
_INT_KEY: Final = "^-?[0-9]+$"


def schema_of(message: Descriptor, comments: Mapping[str, str]) -> str:
    """The schema of a message as compact JSON; ``comments`` are by full name.

    What is no object in JSON is the property ``value`` of one.
    """
    if is_well_known(message):
        schema = well_known(message.full_name)
        if not is_object(message):
            schema = {
                "type": "object",
                "properties": {WRAPPED: schema},
                "required": [WRAPPED],
                "additionalProperties": False,
            }
        return schema_text(schema)
    text = schema_text(_Writer(message, comments).whole())
    if len(text) > MAX_BYTES:
        text = schema_text(_Writer(message, {}, most=_FEW_MESSAGES).whole())
    return text


def schema_text(schema: Schema) -> str:
    """Compact JSON, the same for the same schema."""
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def map_of(item: FieldDescriptor) -> tuple[FieldDescriptor, FieldDescriptor] | None:
    """Key and value of a field that is a map, whose entries are messages to the compiler; None of any other."""
    entry = item.message_type
    if entry is None or not entry.GetOptions().map_entry:
        return None
    return entry.fields_by_name["key"], entry.fields_by_name["value"]


def oneofs_of(message: Descriptor) -> list[list[FieldDescriptor]]:
    """Members of each oneof that the author wrote; ``optional`` of proto3 is one to the compiler only."""
    return [list(oneof.fields) for oneof in message.oneofs if len(oneof.fields) > 1]


@dataclass(slots=True)
class _Writer:
    """One schema. ``names``: keys under ``$defs`` of messages that stand there."""

    root: Descriptor
    comments: Mapping[str, str]
    most: int = MAX_MESSAGES
    reached: dict[str, Descriptor] = field(default_factory=dict)
    uses: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    values: int = 0

    def whole(self) -> Schema:
        self._reach()
        taken: set[str] = set()
        for full_name, message in self.reached.items():
            if self.uses[full_name] > 1:
                key = next(name for name in _keys(message) if name not in taken)
                taken.add(key)
                self.names[full_name] = key
        schema = self._object(self.root)
        definitions = {key: self._object(self.reached[full_name]) for full_name, key in self.names.items()}
        return {**schema, "$defs": definitions} if definitions else schema

    def _reach(self) -> None:
        """Which messages have a place in the schema, nearest first, and how often each is named."""
        self.reached[self.root.full_name] = self.root
        self.uses[self.root.full_name] = 1
        waiting = deque([(self.root, 0)])
        fields = len(self.root.fields)
        while waiting:
            message, depth = waiting.popleft()
            for below in map(_message_of, message.fields):
                if below is None or is_well_known(below):
                    continue
                if below.full_name in self.reached:
                    self.uses[below.full_name] += 1
                    continue
                fields += len(below.fields)
                if depth + 1 < MAX_DEPTH and len(self.reached) < self.most and fields <= MAX_FIELDS:
                    self.reached[below.full_name] = below
                    self.uses[below.full_name] = 1
                    waiting.append((below, depth + 1))

    def _object(self, message: Descriptor) -> Schema:
        properties: dict[str, object] = {}
        required: list[str] = []
        for item in itertools.islice(message.fields, MAX_FIELDS):
            properties[item.json_name], needed = self._field(item)
            if needed:
                required.append(item.json_name)
        schema: Schema = {"type": "object"}
        groups = oneofs_of(message)
        words = [self.comments.get(message.full_name, "")]
        words += [f"At most one of {', '.join(item.json_name for item in group)}." for group in groups]
        if text := _short(" ".join(word for word in words if word)):
            schema["description"] = text
        schema["properties"] = properties
        if required:
            schema["required"] = required
        schema["additionalProperties"] = False
        pairs = [
            {"required": [first.json_name, second.json_name]}
            for first, second in itertools.islice(
                itertools.chain.from_iterable(itertools.combinations(group, 2) for group in groups), MAX_ONEOF_PAIRS
            )
        ]
        if pairs:
            schema["not"] = {"anyOf": pairs} if len(pairs) > 1 else pairs[0]
        return schema

    def _field(self, item: FieldDescriptor) -> tuple[Schema, bool]:
        """The schema of a field, and whether it has to be there."""
        options = item.GetOptions()
        said = set(options.Extensions[_FIELD_BEHAVIOR])
        entry = map_of(item)
        schema: Schema
        if entry is not None:
            schema = self._map(*entry)
        elif item.is_repeated:
            schema = {"type": "array", "items": self._value(item)}
        else:
            schema = self._value(item)
        notes = [self.comments.get(item.full_name, "")]
        if options.deprecated:
            schema = {**schema, "deprecated": True}
        if behavior.OUTPUT_ONLY in said:
            schema = {**schema, "readOnly": True}
            notes.append("Set by the service.")
        if behavior.INPUT_ONLY in said:
            schema = {**schema, "writeOnly": True}
        if behavior.IMMUTABLE in said:
            notes.append("Cannot be changed once it is set.")
        own = str(schema.get("description", ""))
        if text := _short(" ".join(note for note in (*notes, own) if note)):
            schema = {**schema, "description": text}
        needed = item.is_required or (behavior.REQUIRED in said and behavior.OUTPUT_ONLY not in said)
        return schema, needed

    def _map(self, key: FieldDescriptor, value: FieldDescriptor) -> Schema:
        schema: Schema = {"type": "object", "additionalProperties": self._value(value)}
        match key.type:
            case FieldDescriptor.TYPE_STRING:
                return schema
            case FieldDescriptor.TYPE_BOOL:
                return {**schema, "propertyNames": {"enum": ["true", "false"]}}
            case _:
                return {**schema, "propertyNames": {"pattern": _INT_KEY}}

    def _value(self, item: FieldDescriptor) -> Schema:
        if item.message_type is not None:
            return self._message(item.message_type)
        return scalar(item.type) if item.enum_type is None else self._enum(item.enum_type)

    def _message(self, message: Descriptor) -> Schema:
        if is_well_known(message):
            return well_known(message.full_name)
        if message.full_name not in self.reached:
            return {"type": "object", "description": f"A {message.full_name} as ProtoJSON."}
        if message.full_name in self.names:
            return {"$ref": f"#/$defs/{self.names[message.full_name]}"}
        return self._object(message)

    def _enum(self, enum: EnumDescriptor) -> Schema:
        if enum.full_name == "google.protobuf.NullValue":
            return {"type": "null"}
        names = [value.name for value in itertools.islice(enum.values, MAX_ENUM_VALUES + 1)]
        words = [self.comments.get(enum.full_name, "")]
        self.values += len(names)
        if len(names) > MAX_ENUM_VALUES or self.values > MAX_VALUES:
            first = ", ".join(names[:_SHOWN_VALUES])
            words.append(f"A name of {enum.full_name}, which has {len(enum.values)}, such as {first}.")
            return {"type": "string", "description": _short(" ".join(word for word in words if word))}
        scope = enum.full_name.rpartition(".")[0]  # values are named beside their enum
        told = ((name, self.comments.get(f"{scope}.{name}".lstrip("."), "")) for name in names)
        words += [f"{name}: {comment}" for name, comment in told if comment]
        schema: Schema = {"type": "string", "enum": names}
        if text := _short(" ".join(word for word in words if word)):
            schema["description"] = text
        return schema


def scalar(kind: int) -> Schema:
    """The schema of a scalar of this ``FieldDescriptor.TYPE_*``. 64 bits are text or a number: JSON's own are 53."""
    match kind:
        case FieldDescriptor.TYPE_BOOL:
            return {"type": "boolean"}
        case FieldDescriptor.TYPE_STRING:
            return {"type": "string"}
        case FieldDescriptor.TYPE_BYTES:
            return {"type": "string", "contentEncoding": "base64"}
        case FieldDescriptor.TYPE_DOUBLE | FieldDescriptor.TYPE_FLOAT:
            return {"type": "number"}
        case FieldDescriptor.TYPE_INT32 | FieldDescriptor.TYPE_SINT32 | FieldDescriptor.TYPE_SFIXED32:
            return {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1}
        case FieldDescriptor.TYPE_UINT32 | FieldDescriptor.TYPE_FIXED32:
            return {"type": "integer", "minimum": 0, "maximum": 2**32 - 1}
        case FieldDescriptor.TYPE_UINT64 | FieldDescriptor.TYPE_FIXED64:
            return {"type": ["integer", "string"], "format": "uint64", "minimum": 0, "pattern": "^[0-9]{1,20}$"}
        case _:
            return {"type": ["integer", "string"], "format": "int64", "pattern": "^-?[0-9]{1,19}$"}


def _message_of(item: FieldDescriptor) -> Descriptor | None:
    entry = map_of(item)
    return item.message_type if entry is None else entry[1].message_type


def _keys(message: Descriptor) -> Iterator[str]:
    yield message.name
    yield message.full_name
    for number in itertools.count(2):
        yield f"{message.full_name}_{number}"


def _short(text: str) -> str:
    return text if len(text) <= MAX_DESCRIPTION else f"{text[: MAX_DESCRIPTION - 1]}\N{HORIZONTAL ELLIPSIS}"
