"""From the files that a service describes itself with to linked descriptors, whatever state the files are in. Pure.

A file that cannot be linked takes along what needs it and nothing else. An import that is not there is dropped: most
such are of options only, and a file that does need it cannot be linked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool

from turnwired.domain.text import clean_text
from turnwired.tools.grpc.wellknown import FILES

MAX_FILES: Final = 10_000
MAX_FILE_BYTES: Final = 64 * 1024 * 1024
"""Of all files of a service together."""
MAX_METHODS: Final = 10_000
MAX_COMMENT: Final = 2000

_WELL_KNOWN_PACKAGE: Final = "google.protobuf"


@dataclass(frozen=True, slots=True)
class Linked:
    """What a service has. ``broken``: files that could not be linked, by name, and why."""

    pool: DescriptorPool
    services: Mapping[str, ServiceDescriptor]
    comments: Mapping[str, str]
    broken: Mapping[str, str]
    declared: Mapping[str, str]
    """The file of each service that some file declares, linked or not."""

    def methods(self) -> Iterator[MethodDescriptor]:
        """Of all services, in the order of their full names."""
        for name in sorted(self.services):
            yield from self.services[name].methods


def link(files: Iterable[FileDescriptorProto]) -> Linked:
    """Put the files in a pool of their own. Takes time in proportion to their size: seconds for the largest."""
    by_name = {file.name: file for file in files if is_readable(file)}
    by_name |= {name: ours for name, ours in FILES.items() if name in by_name or _imported(name, by_name)}
    for name, ours in FILES.items():
        for needed in ours.dependency:
            if name in by_name:
                by_name.setdefault(needed, FILES[needed])
    pool = DescriptorPool()
    broken: dict[str, str] = {}
    services: dict[str, ServiceDescriptor] = {}
    for name in _in_order(by_name, broken):
        file = by_name[name]
        if file.package == _WELL_KNOWN_PACKAGE and name not in FILES:
            broken[name] = "it declares google.protobuf's own messages anew"
            continue
        try:
            pool.AddSerializedFile(_without_missing(file, by_name, broken).SerializeToString())
            linked = pool.FindFileByName(name)
        except (TypeError, KeyError, ValueError, RecursionError) as error:
            broken[name] = clean_text(" ".join(str(error).split()))[:300]
            continue
        services |= {service.full_name: service for service in linked.services_by_name.values()}
    declared = {service: file.name for file in by_name.values() for service in declared_in(file)}
    comments = {path: text for file in by_name.values() if file.name not in FILES for path, text in comments_of(file)}
    return Linked(pool, services, comments, broken, declared)


def declared_in(file: FileDescriptorProto) -> list[str]:
    """Full names of its services."""
    return [f"{file.package}.{service.name}".lstrip(".") for service in file.service]


def is_readable(file: FileDescriptorProto) -> bool:
    """Whether its names are text: protobuf gives what is no UTF-8 as bytes there, whatever the types say."""
    return all(isinstance(name, str) for name in (file.name, file.package, *file.dependency))


def _imported(name: str, files: Mapping[str, FileDescriptorProto]) -> bool:
    return any(name in file.dependency for file in files.values())


def _in_order(files: Mapping[str, FileDescriptorProto], broken: dict[str, str]) -> Iterator[str]:
    """Each file behind those that it imports; those that import each other are told in ``broken``. No recursion."""
    done: set[str] = set()
    open_: set[str] = set()
    for first in sorted(files):
        if first in done:
            continue
        open_.add(first)
        waiting = [(first, iter(_imports(files[first], files)))]
        while waiting:
            name, imports = waiting[-1]
            below = next(imports, None)
            if below is None:
                waiting.pop()
                open_.discard(name)
                done.add(name)
                if name not in broken:
                    yield name
            elif below in open_:
                broken[name] = "its imports lead back to itself"
            elif below not in done:
                open_.add(below)
                waiting.append((below, iter(_imports(files[below], files))))


def _imports(file: FileDescriptorProto, files: Mapping[str, FileDescriptorProto]) -> list[str]:
    return [name for name in file.dependency if name in files]


def _without_missing(
    file: FileDescriptorProto, files: Mapping[str, FileDescriptorProto], broken: Mapping[str, str]
) -> FileDescriptorProto:
    kept = [index for index, name in enumerate(file.dependency) if name in files and name not in broken]
    if len(kept) == len(file.dependency):
        return file
    public = [kept.index(index) for index in file.public_dependency if index in kept]
    pruned = FileDescriptorProto()
    pruned.CopyFrom(file)
    del pruned.dependency[:]
    del pruned.public_dependency[:]
    del pruned.weak_dependency[:]
    pruned.dependency.extend(file.dependency[index] for index in kept)
    pruned.public_dependency.extend(public)
    return pruned


def comments_of(file: FileDescriptorProto) -> Iterator[tuple[str, str]]:
    """Full names and what is written in front of or behind them, where the file has source information."""
    told = {
        tuple(place.path): text
        for place in file.source_code_info.location
        if (text := _comment(place.leading_comments) or _comment(place.trailing_comments))
    }
    if not told:
        return
    places = [*_of_messages(file.package, (4,), file.message_type), *_of_enums(file.package, (5,), file.enum_type)]
    for number, service in enumerate(file.service):
        name = f"{file.package}.{service.name}".lstrip(".")
        places.append((name, (6, number)))
        places += [(f"{name}.{method.name}", (6, number, 2, at)) for at, method in enumerate(service.method)]
    for full_name, path in places:
        if path in told:
            yield full_name, told[path]


_Place = tuple[str, tuple[int, ...]]


def _of_messages(scope: str, path: tuple[int, ...], messages: Iterable[DescriptorProto]) -> Iterator[_Place]:
    # Numbers are those of descriptor.proto. Nesting is bounded by the protobuf parser, at 100.
    for number, message in enumerate(messages):
        name, at = f"{scope}.{message.name}".lstrip("."), (*path, number)
        yield name, at
        yield from _of_fields(name, (*at, 2), message.field)
        yield from _of_messages(name, (*at, 3), message.nested_type)
        yield from _of_enums(name, (*at, 4), message.enum_type)


def _of_fields(scope: str, path: tuple[int, ...], fields: Iterable[FieldDescriptorProto]) -> Iterator[_Place]:
    for number, item in enumerate(fields):
        yield f"{scope}.{item.name}", (*path, number)


def _of_enums(scope: str, path: tuple[int, ...], enums: Iterable[EnumDescriptorProto]) -> Iterator[_Place]:
    for number, enum in enumerate(enums):
        yield f"{scope}.{enum.name}".lstrip("."), (*path, number)
        # Values are named beside their enum, not below it.
        yield from (
            (f"{scope}.{value.name}".lstrip("."), (*path, number, 2, at)) for at, value in enumerate(enum.value)
        )


def _comment(text: str | bytes) -> str:
    if isinstance(text, bytes):
        return ""
    return clean_text(" ".join(text.split()))[:MAX_COMMENT]
