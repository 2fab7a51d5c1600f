"""Writes docs/contract.md, the page of the contract, from the comments of ``proto/``; ``--check`` says if it is old.

Plain Markdown: services first, then each file's messages and enums, every type with a heading that others link to.
Knows nothing of the service.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from scripts.contract_set import PACKAGE, now, ours

PAGE = ROOT / "docs" / "contract.md"
_HEAD = """# The contract

Every service, message and enum of `turnwire.v1`, made by `scripts/contract_docs.py` from the comments in
[proto/turnwire/v1](../proto/turnwire/v1). Why it looks as it does is in [design note 1](design/0001-contract.md), what
has changed in its [changelog](../proto/CHANGELOG.md).
"""
# Numbers of the fields of FileDescriptorProto and the messages in it, of which the paths of comments are made.
_MESSAGES, _ENUMS, _SERVICES = 4, 5, 6
_FIELDS, _NESTED, _NESTED_ENUMS = 2, 3, 4
_METHODS, _VALUES, _SYNTAX = 2, 2, 12
_Path = tuple[int, ...]
_SCALARS = {
    kind: FieldDescriptorProto.Type.Name(kind).removeprefix("TYPE_").lower()
    for kind in FieldDescriptorProto.Type.values()
}


class _File:
    """One file of the contract with its comments at hand."""

    def __init__(self, proto: FileDescriptorProto) -> None:
        self.proto = proto
        self._comments = {tuple(place.path): place for place in proto.source_code_info.location}

    def comment(self, *path: int) -> str:
        """The comment above something, without the indent that comments have."""
        place = self._comments.get(path)
        if place is None:
            return ""
        return "\n".join(line.removeprefix(" ").rstrip() for line in place.leading_comments.splitlines()).strip()

    @property
    def title(self) -> str:
        """The first words of the file."""
        return self.comment(_SYNTAX)


def page() -> str:
    """The whole page."""
    files = [_File(proto) for proto in ours(now())]
    sections: list[str] = [_HEAD, _contents(files)]
    for file in files:
        for number, service in enumerate(file.proto.service):
            sections += [f"## {service.name}\n", *_service(file, service, (_SERVICES, number))]
    for file in files:
        sections += [f"## {Path(file.proto.name).name}\n", f"{_prose(file.title)}\n", *_types(file)]
    return "\n".join(sections)


def _contents(files: list[_File]) -> str:
    lines = ["| service | calls |", "| --- | --- |"]
    for file in files:
        for service in file.proto.service:
            calls = ", ".join(f"`{method.name}`" for method in service.method)
            lines.append(f"| {_link(service.name)} | {calls} |")
    return "\n".join(lines) + "\n"


def _service(file: _File, service: ServiceDescriptorProto, path: _Path) -> Iterator[str]:
    yield f"{_prose(file.comment(*path))}\n"
    for number, method in enumerate(service.method):
        stream = "stream " if method.server_streaming else ""
        request, response = _local(method.input_type), _local(method.output_type)
        yield f"**`{method.name}`** ({_link(request)}) returns ({stream}{_link(response)})\n"
        yield f"{_prose(file.comment(*path, _METHODS, number))}\n"


def _types(file: _File) -> Iterator[str]:
    for number, enum in enumerate(file.proto.enum_type):
        yield from _enum(file, enum, (_ENUMS, number), "")
    for number, message in enumerate(file.proto.message_type):
        yield from _message(file, message, (_MESSAGES, number), "")


def _message(file: _File, message: DescriptorProto, path: _Path, within: str) -> Iterator[str]:
    name = f"{within}{message.name}"
    yield f"### {name}\n"
    yield f"{_prose(file.comment(*path))}\n"
    pairs = {inner.name: inner for inner in message.nested_type if inner.options.map_entry}
    if message.field:
        rows = ["| field | number | type | meaning |", "| --- | --: | --- | --- |"]
        for number, field in enumerate(message.field):
            meaning = file.comment(*path, _FIELDS, number)
            rows.append(f"| `{field.name}` | {field.number} | {_kind(message, field, pairs)} | {_cell(meaning)} |")
        yield "\n".join(rows) + "\n"
    for number, enum in enumerate(message.enum_type):
        yield from _enum(file, enum, (*path, _NESTED_ENUMS, number), f"{name}.")
    for number, inner in enumerate(message.nested_type):
        if inner.name not in pairs:
            yield from _message(file, inner, (*path, _NESTED, number), f"{name}.")


def _enum(file: _File, enum: EnumDescriptorProto, path: _Path, within: str) -> Iterator[str]:
    yield f"### {within}{enum.name}\n"
    yield f"{_prose(file.comment(*path))}\n"
    rows = ["| value | number | meaning |", "| --- | --: | --- |"]
    for number, value in enumerate(enum.value):
        rows.append(f"| `{value.name}` | {value.number} | {_cell(file.comment(*path, _VALUES, number))} |")
    yield "\n".join(rows) + "\n"


def _kind(message: DescriptorProto, field: FieldDescriptorProto, pairs: dict[str, DescriptorProto]) -> str:
    """The type as the contract writes it, and the oneof that the field is of."""
    pair = pairs.get(field.type_name.rpartition(".")[2]) if field.type_name else None
    if pair is not None:
        return f"map of {_named(pair.field[0])} to {_named(pair.field[1])}"
    kind = _named(field)
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"repeated {kind}"
    if field.proto3_optional:
        return f"optional {kind}"
    if field.HasField("oneof_index"):
        return f"{kind}, one of `{message.oneof_decl[field.oneof_index].name}`"
    return kind


def _named(field: FieldDescriptorProto) -> str:
    return _link(_local(field.type_name)) if field.type_name else _SCALARS[field.type]


def _local(type_name: str) -> str:
    return type_name.removeprefix(".").removeprefix(f"{PACKAGE}.")


def _link(name: str) -> str:
    """A link to the heading of a type of the contract; protobuf's own are only named."""
    if name.startswith("google."):
        return f"`{name}`"
    return f"[{name}](#{name.replace('.', '').lower()})"


def _prose(comment: str) -> str:
    """Paragraphs and lists as they are; what is indented further stays with the line above it."""
    return comment.replace("<", "&lt;")


def _cell(comment: str) -> str:
    return " ".join(_prose(comment).replace("|", "\\|").split())


def main() -> int:
    """Writes or compares; 1 when ``--check`` finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the page is old")
    check = parser.parse_args().check
    text = page()
    same = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
    if check and not same:
        print("docs/contract.md is not what the contract says (run scripts/contract_docs.py)", file=sys.stderr)
    elif not same:
        PAGE.write_text(text, encoding="utf-8")
    return 1 if check and not same else 0


if __name__ == "__main__":
    sys.exit(main())
