"""References of a JSON Schema as pointers from its top, which every provider and every adaptation understands. Pure.

JSON Schema 2020-12 also refers by ``$anchor``, by ``$dynamicAnchor`` and by ``$id``, draft 7 by ``$id: "#name"``; few
providers know these. Nothing is ever fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, cast
from urllib.parse import urljoin

Schema = dict[str, object]
MAX_DEPTH: Final = 100
"""Levels of objects and lists; adapting a schema for a provider goes as deep."""

_ONE: Final = (
    *("items", "additionalItems", "additionalProperties", "contains", "not", "if", "then", "else"),
    *("propertyNames", "unevaluatedItems", "unevaluatedProperties", "contentSchema"),
)
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


class NotPortable(Exception):
    """Not every provider could be shown the schema; the text says why, as what follows the name of the schema."""


def require_depth(schema: Schema) -> None:
    """Raises NotPortable for a schema of more than ``MAX_DEPTH`` levels."""
    level: list[object] = [schema]
    for _ in range(MAX_DEPTH):
        level = [below for value in level for below in _inside(value)]
        if not level:
            return
    raise NotPortable(f"is nested deeper than {MAX_DEPTH} levels")


def with_pointers(schema: Schema) -> Schema:
    """The schema with each reference as ``#/...``; the same object where they all are.

    One that leaves the document, such as to a meta-schema, becomes "any value" with a description that names it.
    """
    resources: dict[str, str] = {}
    anchors: dict[tuple[str, str], str] = {}
    for node, pointer, base in _nodes(schema, "", ""):
        resources.setdefault(base, pointer)
        for key in ("$anchor", "$dynamicAnchor", "$id"):
            name = node.get(key)
            if isinstance(name, str) and (key != "$id" or name.startswith("#")):
                anchors.setdefault((base, name.removeprefix("#")), pointer)
    changed = False

    def pointer_of(reference: str, base: str) -> str | None:
        nonlocal changed
        uri, _, fragment = urljoin(base, reference).partition("#")
        start = resources.get(uri)
        if not fragment or fragment.startswith("/"):
            found = None if start is None else f"#{start}{fragment}"
        else:
            place = anchors.get((uri, fragment))
            found = None if place is None else f"#{place}"
        changed = changed or found != reference
        return found

    rewritten = _rewritten(schema, "", pointer_of)
    return rewritten if changed else schema


def _nodes(node: Schema, pointer: str, base: str) -> Iterator[tuple[Schema, str, str]]:
    """Each schema, the pointer to it, and the URI of the resource that it is in. The top of a resource comes first."""
    base = _base(node, base)
    yield node, pointer, base
    for path, below in _children(node):
        yield from _nodes(below, f"{pointer}/{path}", base)


def _rewritten(node: Schema, base: str, pointer_of: Callable[[str, str], str | None]) -> Schema:
    base = _base(node, base)
    result: Schema = {}
    for key, value in node.items():
        if key in _REFERENCES and isinstance(value, str):
            pointer = pointer_of(value, base)
            if pointer is not None:
                result["$ref"] = pointer
            else:
                result.setdefault("description", f"Any value of the form of {value[:200]}.")
        elif key in _MAPS and isinstance(value, dict):
            below = cast("Schema", value)
            result[key] = {name: _below(item, base, pointer_of) for name, item in below.items()}
        elif key in _LISTS and isinstance(value, list):
            result[key] = [_below(item, base, pointer_of) for item in cast("list[object]", value)]
        elif key in _ONE:
            result[key] = _below(value, base, pointer_of)
        else:
            result[key] = value
    return result


def _below(value: object, base: str, pointer_of: Callable[[str, str], str | None]) -> object:
    return _rewritten(cast("Schema", value), base, pointer_of) if isinstance(value, dict) else value


def _children(node: Schema) -> Iterator[tuple[str, Schema]]:
    for key in _ONE:
        if isinstance(below := node.get(key), dict):
            yield key, cast("Schema", below)
    for key in _LISTS:
        if isinstance(listed := node.get(key), list):
            for index, item in enumerate(cast("list[object]", listed)):
                if isinstance(item, dict):
                    yield f"{key}/{index}", cast("Schema", item)
    for key in _MAPS:
        if isinstance(named := node.get(key), dict):
            for name, item in cast("Schema", named).items():
                if isinstance(item, dict):
                    yield f"{key}/{name.replace('~', '~0').replace('/', '~1')}", cast("Schema", item)


def _base(node: Schema, base: str) -> str:
    own = node.get("$id")
    return urljoin(base, own).partition("#")[0] if isinstance(own, str) and not own.startswith("#") else base


def _inside(value: object) -> list[object]:
    found: list[object] = []
    if isinstance(value, dict):
        found = list(cast("Schema", value).values())
    elif isinstance(value, list):
        found = cast("list[object]", value)
    return [item for item in found if isinstance(item, (dict, list))]
