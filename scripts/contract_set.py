"""The contract as descriptors: as ``proto/`` says it now, with its comments, and as the last release has it.

Needs grpcio-tools beside the running interpreter and nothing of the service. What reads it makes the page of the
contract and the list of what a release adds.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc_tools  # type: ignore[import-untyped]  # it ships no types
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
IMAGE = PROTO / "turnwire-v1.binpb"
PACKAGE = "turnwire.v1"


@dataclass(frozen=True, slots=True)
class Element:
    """Something of the contract that has a name: a service, a call, a message, a field, an enum or one of its values.

    ``name`` is without the package (``RunEvent.text_delta``); ``within`` is the name of what holds it, or empty.
    """

    name: str
    within: str


def now() -> FileDescriptorSet:
    """What ``proto/`` says, with comments, protobuf's own files included. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "contract.binpb"
        subprocess.run(
            [
                *(sys.executable, "-m", "grpc_tools.protoc"),
                *("-I", str(PROTO), "-I", str(Path(grpc_tools.__file__).parent / "_proto")),
                *("--include_imports", "--include_source_info", f"--descriptor_set_out={out}"),
                *sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto")),
            ],
            check=True,
            timeout=120,
        )
        return FileDescriptorSet.FromString(out.read_bytes())


def released() -> FileDescriptorSet:
    """The contract of the last release."""
    return FileDescriptorSet.FromString(IMAGE.read_bytes())


def ours(files: FileDescriptorSet) -> list[FileDescriptorProto]:
    """The files of the contract itself, by name."""
    return sorted((file for file in files.file if file.package == PACKAGE), key=lambda file: file.name)


def elements(files: FileDescriptorSet) -> dict[str, Element]:
    """Everything that has a name, by it."""
    return {element.name: element for file in ours(files) for element in _of_file(file)}


def added(before: FileDescriptorSet, after: FileDescriptorSet) -> list[str]:
    """What is new, without what is inside something new."""
    old, new = elements(before), elements(after)
    fresh = [element for name, element in new.items() if name not in old]
    return sorted(element.name for element in fresh if not element.within or element.within in old)


def _of_file(file: FileDescriptorProto) -> Iterator[Element]:
    for service in file.service:
        yield Element(service.name, "")
        yield from (Element(f"{service.name}.{method.name}", service.name) for method in service.method)
    for enum in file.enum_type:
        yield from _of_enum(enum, "")
    for message in file.message_type:
        yield from _of_message(message, "")


def _of_message(message: DescriptorProto, within: str) -> Iterator[Element]:
    name = f"{within}.{message.name}".lstrip(".")
    yield Element(name, within)
    yield from (Element(f"{name}.{field.name}", name) for field in message.field)
    for enum in message.enum_type:
        yield from _of_enum(enum, name)
    for inner in message.nested_type:
        if not inner.options.map_entry:  # how a map is written, and no type to anybody
            yield from _of_message(inner, name)


def _of_enum(enum: EnumDescriptorProto, within: str) -> Iterator[Element]:
    name = f"{within}.{enum.name}".lstrip(".")
    yield Element(name, within)
    yield from (Element(f"{name}.{value.name}", name) for value in enum.value)
