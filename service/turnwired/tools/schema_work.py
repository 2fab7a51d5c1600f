"""How much work it may be to hold a value against a JSON Schema: an upper bound, found before any of it is done.

A validator follows each branch and reference anew wherever it meets it, so that a schema of some hundred bytes can
double its work with each line, or with each level of the value. Schemas come from callers and servers, and nothing else
gets a turn meanwhile. Pure: it reads a schema as loaded, knows no validator, and takes itself bounded time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, cast
from urllib.parse import unquote, urldefrag, urljoin

MOST_STEPS: Final = 100_000
"""Pairs of schema and value that are looked at; with more of them the work counts as too much."""
_UNKNOWN: Final = 100
"""What a reference counts that leads out of the document, such as to a meta-schema."""

_LISTS: Final = ("allOf", "anyOf", "oneOf")
_ONE: Final = ("not", "if", "then", "else")
_NAMED: Final = ("dependentSchemas", "dependencies")
_OF_MEMBERS: Final = ("additionalProperties", "unevaluatedProperties")
_OF_ITEMS: Final = ("items", "additionalItems", "unevaluatedItems", "contains")
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")

Node = Mapping[str, object]


class TooMuchWork(Exception):
    """Holding this value against this schema may take longer than anybody should wait."""


class Work:
    """The bound for one schema."""

    def __init__(self, schema: Node) -> None:
        self._root = schema
        self._bases: dict[int, str] = {}
        self._resources: dict[str, Node] = {}
        self._anchors: dict[str, Node] = {}
        self._dynamic: dict[str, list[Node]] = {}
        self._index(schema, "")
        self._resources.setdefault("", schema)
        self._sizes: dict[int, float] = {}
        self.size: Final = self._size(schema)
        """Schemas that one place of a value may be held against, all references followed; infinite if they recur."""

    def require(self, value: object, most: int) -> None:
        """Raises TooMuchWork if the value may be held against more than ``most`` schemas, each place counted anew."""
        try:
            _Count(self, most).of(self._root, value)
        except RecursionError:
            raise TooMuchWork from None

    # --- the document -------------------------------------------------------------------------------------------------

    def _index(self, root: object, base: str) -> None:
        left: list[tuple[object, str]] = [(root, base)]
        while left:
            node, base = left.pop()
            if isinstance(node, list):
                left += [(item, base) for item in cast("list[object]", node)]
            elif isinstance(node, dict):
                schema = cast("Node", node)
                base = self._register(schema, base)
                self._bases[id(schema)] = base
                left += [(item, base) for item in schema.values()]

    def _register(self, schema: Node, base: str) -> str:
        name = schema.get("$id", schema.get("id"))
        if isinstance(name, str):
            base, fragment = _joined(base, name)
            if fragment:
                self._anchors.setdefault(f"{base}#{fragment}", schema)
            else:
                self._resources.setdefault(base, schema)
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(anchor := schema.get(key), str):
                self._anchors.setdefault(f"{base}#{anchor}", schema)
        if isinstance(anchor := schema.get("$dynamicAnchor"), str):
            self._dynamic.setdefault(anchor, []).append(schema)
        return base

    def _targets(self, schema: Node) -> list[object]:
        """What the references of a schema lead to; None for what is not in the document."""
        found: list[object] = []
        for key in ("$ref", "$dynamicRef", "$recursiveRef"):
            if not isinstance(reference := schema.get(key), str):
                continue
            dynamic = self._dynamic.get(reference.rpartition("#")[2], []) if key == "$dynamicRef" else []
            found += dynamic or [self._target(reference, self._bases.get(id(schema), ""))]
        return found

    def _target(self, reference: str, base: str) -> object:
        whole, fragment = _joined(base, reference)
        if fragment and not fragment.startswith("/"):
            return self._anchors.get(f"{whole}#{fragment}")
        node: object = self._resources.get(whole, self._root if whole == base else None)
        for step in unquote(fragment).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            match node:
                case dict():
                    node = cast("Node", node).get(name)
                case list() if name.isdecimal() and int(name) < len(cast("list[object]", node)):
                    node = cast("list[object]", node)[int(name)]
                case _:
                    return None
        return node

    def in_place(self, schema: Node) -> Iterator[object]:
        """The schemas that hold for the value that this one holds for. None: unknown."""
        yield from self._targets(schema)
        for key in _LISTS:
            yield from _items(schema.get(key))
        for key in _ONE:
            if key in schema:
                yield schema[key]
        for key in _NAMED:
            yield from (item for item in _members(schema.get(key)).values() if isinstance(item, dict))

    def _size(self, root: Node) -> float:
        """Of all that is below and beside a schema; each is counted as often as it is met."""
        size = 1.0
        self._sizes[id(root)] = float("inf")  # until it is known: a schema that leads to itself
        try:
            for schema in (*self.in_place(root), *_below(root)):
                if schema is None:
                    size += _UNKNOWN
                elif isinstance(schema, dict):
                    known = self._sizes.get(id(cast("Node", schema)))
                    size += self._size(cast("Node", schema)) if known is None else known
        except RecursionError:
            size = float("inf")
        if any(key in root for key in _UNEVALUATED):
            size = float("inf")
        self._sizes[id(root)] = size
        return size


class _Count:
    """The work for one value."""

    def __init__(self, work: Work, most: int) -> None:
        self._work = work
        self._most = most
        self._known: dict[tuple[int, int], int] = {}

    def of(self, schema: object, value: object) -> int:
        """How many schemas the value and what is in it may be held against."""
        if not isinstance(schema, dict):
            return _UNKNOWN if schema is None else 1
        node = cast("Node", schema)
        key = (id(node), id(value))
        if (known := self._known.get(key)) is not None:
            return known
        if len(self._known) >= MOST_STEPS:
            raise TooMuchWork
        self._known[key] = 0  # a schema that leads to itself at the same place is not followed again
        work = 1 + sum(self.of(inner, value) for inner in self._work.in_place(node))
        if any(name in node for name in _UNEVALUATED) and isinstance(value, dict | list):
            work *= 1 + len(cast("dict[str, object]", value))  # asks its neighbours about each member
        work += self._inside(node, value)
        if work > self._most:
            raise TooMuchWork
        self._known[key] = work
        return work

    def _inside(self, schema: Node, value: object) -> int:
        match value:
            case dict():
                return self._of_members(schema, cast("Mapping[str, object]", value))
            case list():
                return self._of_items(schema, cast("list[object]", value))
            case _:
                return 0

    def _of_members(self, schema: Node, value: Mapping[str, object]) -> int:
        named = _members(schema.get("properties"))
        everywhere = [*_members(schema.get("patternProperties")).values()]
        everywhere += [schema[key] for key in _OF_MEMBERS if isinstance(schema.get(key), dict)]
        names = schema.get("propertyNames")
        work = 0
        for name, member in value.items():
            if name in named:
                work += self.of(named[name], member)
            work += sum(self.of(inner, member) for inner in everywhere)
            if isinstance(names, dict):
                work += self.of(cast("Node", names), name)
            if work > self._most:
                raise TooMuchWork
        return work

    def _of_items(self, schema: Node, value: list[object]) -> int:
        everywhere = [schema[key] for key in _OF_ITEMS if isinstance(schema.get(key), dict)]
        places = [*_items(schema.get("prefixItems")), *_items(schema.get("items"))]
        work = 0
        for place, item in enumerate(value):
            if place < len(places):
                work += self.of(places[place], item)
            work += sum(self.of(inner, item) for inner in everywhere)
            if work > self._most:
                raise TooMuchWork
        return work


def _below(schema: Node) -> Iterator[object]:
    """The schemas that hold for members and items."""
    for key in ("properties", "patternProperties"):
        yield from _members(schema.get(key)).values()
    for key in (*_OF_MEMBERS, *_OF_ITEMS, "propertyNames"):
        if isinstance(schema.get(key), dict):
            yield schema[key]
    for key in ("prefixItems", "items"):
        yield from _items(schema.get(key))


def _joined(base: str, reference: str) -> tuple[str, str]:
    try:
        whole, fragment = urldefrag(urljoin(base, reference))
    except ValueError:  # no URI, such as "http://["
        whole, _, fragment = reference.partition("#")
    return whole, fragment


def _members(value: object) -> Node:
    return cast("Node", value) if isinstance(value, dict) else {}


def _items(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []
