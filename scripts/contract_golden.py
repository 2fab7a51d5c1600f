"""Writes what is missing of the golden bytes of every event; what is there is never written again, only read by tests.

Each event is filled by its descriptor: every field has a value that tells it from the others. Where a message is one
of several, each of them gets its turn, in a variant of its own. With ``--check`` it only says which events have no
bytes yet.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from google.protobuf.descriptor import Descriptor, FieldDescriptor, OneofDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from turnwire.v1.event_pb2 import RunEvent

if TYPE_CHECKING:  # the types of the descriptors that messages have; no code meets them by name
    from google._upb import _message

    _Message = Descriptor | _message.Descriptor
    _Field = FieldDescriptor | _message.FieldDescriptor
    _Oneof = OneofDescriptor | _message.OneofDescriptor

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "contract" / "golden" / "events.json"
PAST_DOUBLES = 2**53 + 1
DEPTH = 6
_WHOLE = {
    FieldDescriptor.TYPE_INT32: 1,
    FieldDescriptor.TYPE_UINT32: 1,
    FieldDescriptor.TYPE_INT64: PAST_DOUBLES,
    FieldDescriptor.TYPE_UINT64: PAST_DOUBLES,
}


def events() -> Iterator[tuple[str, RunEvent]]:
    """Every case of an event in every variant, with a name for each: ``part_finished``, ``part_finished.1``."""
    (case_of_event,) = (oneof for oneof in RunEvent.DESCRIPTOR.oneofs if oneof.name == "event")
    for case in case_of_event.fields:
        for variant in range(_variants(case.message_type, DEPTH)):
            event = RunEvent(sequence=PAST_DOUBLES, first_sequence=7, iteration=3)
            event.event_time.FromNanoseconds(1_700_000_000_123_456_789)
            getattr(event, case.name).SetInParent()
            _fill(getattr(event, case.name), variant, DEPTH)
            yield (f"{case.name}.{variant}" if variant else case.name), event


def entry(event: RunEvent) -> dict[str, object]:
    """The bytes and what they say."""
    return {
        "base64": base64.b64encode(event.SerializeToString(deterministic=True)).decode(),
        "json": MessageToDict(event, preserving_proto_field_name=True),
    }


def _variants(message: _Message | None, depth: int) -> int:
    """How many variants it takes until each alternative of each oneof inside has been there."""
    if message is None or not depth:
        return 1
    below = (_variants(field.message_type, depth - 1) for field in message.fields if field.message_type is not None)
    return max((1, *(len(oneof.fields) for oneof in message.oneofs if not _is_optional(oneof)), *below))


def _fill(message: Message, variant: int, depth: int) -> None:
    if isinstance(message, Timestamp | Duration):
        message.FromNanoseconds((1_700_000_000 if isinstance(message, Timestamp) else variant) * 10**9 + 123_456_789)
        return
    for field in message.DESCRIPTOR.fields:
        oneof = field.containing_oneof
        if oneof is None or _is_optional(oneof) or _chosen(oneof, variant, depth) is field:
            _fill_field(message, field, variant, depth)


def _chosen(oneof: _Oneof, variant: int, depth: int) -> _Field:
    """The alternative whose turn it is; the first plain value where there is no room for more messages inside."""
    plain = [field for field in oneof.fields if field.message_type is None]
    choices = oneof.fields if depth > 1 or not plain else plain
    return choices[variant % len(choices)]


def _fill_field(message: Message, field: _Field, variant: int, depth: int) -> None:
    inner = field.message_type
    if inner is not None and depth <= 1 and inner.full_name.startswith("turnwire."):
        return
    if inner is not None and inner.GetOptions().map_entry:
        _fill_map(getattr(message, field.name), inner, variant, depth)
    elif inner is not None and field.is_repeated:
        for offset in range(2):
            _fill(getattr(message, field.name).add(), variant + offset, depth - 1)
    elif inner is not None:
        getattr(message, field.name).SetInParent()
        _fill(getattr(message, field.name), variant, depth - 1)
    elif field.is_repeated:
        getattr(message, field.name).extend([_scalar(field, variant), _scalar(field, variant + 1)])
    else:
        setattr(message, field.name, _scalar(field, variant))


def _fill_map(entries: object, pair: _Message, variant: int, depth: int) -> None:
    key, value = pair.fields_by_name["key"], pair.fields_by_name["value"]
    if value.message_type is not None:
        _fill(entries[_scalar(key, variant)], variant, depth - 1)  # type: ignore[index]  # a map of messages
    else:
        entries[_scalar(key, variant)] = _scalar(value, variant)  # type: ignore[index]  # a map of scalars


def _scalar(field: _Field, variant: int) -> object:
    match field.type:
        case FieldDescriptor.TYPE_STRING if field.name.endswith("_json"):
            return json.dumps({"number": PAST_DOUBLES, "text": "naïve 漢字 😀"}, ensure_ascii=False)
        case FieldDescriptor.TYPE_STRING:
            return f"{field.name} é漢😀 {variant}"
        case FieldDescriptor.TYPE_BYTES:
            return b"\x00\xff" + field.name.encode()
        case FieldDescriptor.TYPE_BOOL:
            return True
        case FieldDescriptor.TYPE_DOUBLE | FieldDescriptor.TYPE_FLOAT:
            return 0.5 + field.number
        case FieldDescriptor.TYPE_ENUM:
            assert field.enum_type is not None
            numbers = [value.number for value in field.enum_type.values if value.number]
            return numbers[variant % len(numbers)]
        case kind:
            return _WHOLE[kind] + (field.number if kind == FieldDescriptor.TYPE_INT32 else 0)


def _is_optional(oneof: _Oneof) -> bool:
    """Whether it is only how ``optional`` is written."""
    return oneof.name.startswith("_")


def main() -> int:
    """Adds or asks; 1 when ``--check`` finds an event without bytes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when an event has no golden bytes")
    check = parser.parse_args().check
    golden = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {}
    missing = {name: entry(event) for name, event in events() if name not in golden}
    for name in missing if check else ():
        print(f"no golden bytes: {name} (run scripts/contract_golden.py)", file=sys.stderr)
    if missing and not check:
        GOLDEN.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**golden, **missing}, ensure_ascii=False, indent=1, sort_keys=True)
        GOLDEN.write_text(f"{text}\n", encoding="utf-8")
    print(f"{len(golden)} events with golden bytes, {len(missing)} {'missing' if check else 'added'}")
    return 1 if check and missing else 0


if __name__ == "__main__":
    sys.exit(main())
