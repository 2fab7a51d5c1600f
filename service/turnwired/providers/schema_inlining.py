"""Puts what local references of a JSON Schema lead to in their place. Pure and bounded; knows no dialect."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import msgspec

from turnwired.providers.schema_merging import Schema, all_of, with_children

MAX_ADDED_BYTES = 512 * 1024
_MAX_DEPTH = 40
_MAX_HOPS = 16
_DEFINITIONS = ("$defs", "definitions")
_WORDS = frozenset({"description", "title", "default", "examples", "deprecated", "readOnly", "writeOnly"})


class Unresolvable(Exception):
    """A reference leads nowhere in its schema."""


def inlined(schema: Schema) -> Schema:
    """The schema without references and definitions. Raises Unresolvable.

    A reference to what it stands in, and whatever would add more than ``MAX_ADDED_BYTES``, becomes "any value" with a
    description that names it.
    """
    return _Inliner(schema).inline(schema, ("#",), 0)


def resolved(schema: Schema, root: Schema) -> Schema:
    """The schema with a reference at its own top followed; what stands beside it applies too. Raises Unresolvable."""
    for _ in range(_MAX_HOPS):
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        rest = {k: v for k, v in schema.items() if k != "$ref"}
        schema = _both(target_of(root, reference), rest)
    raise Unresolvable


def target_of(root: Schema, reference: str) -> Schema:
    """What a local reference (``#`` or ``#/a/b``) leads to. Raises Unresolvable."""
    pointer = unquote(reference)
    if pointer == "#":
        return root
    if not pointer.startswith("#/"):
        raise Unresolvable
    found: Any = root
    for step in pointer[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and len(name) < 10 and int(name) < len(found):
            found = found[int(name)]
        else:
            raise Unresolvable
    if isinstance(found, bool):
        return {} if found else {"not": {}}
    if not isinstance(found, dict):
        raise Unresolvable
    return found


class _Inliner:
    """One schema's expansion and what it may still add."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._left = MAX_ADDED_BYTES
        self._sizes: dict[str, int] = {}

    def inline(self, schema: Schema, trail: tuple[str, ...], depth: int) -> Schema:
        """The schema at ``depth`` below the references of ``trail``."""
        # The mapping of a discriminator (OpenAPI) leads to the definitions too.
        schema = {k: v for k, v in schema.items() if k not in {*_DEFINITIONS, "discriminator"}}
        reference = schema.pop("$ref", None)
        rest = with_children(schema, lambda below: self.inline(below, trail, depth + 1))
        if not isinstance(reference, str):
            return rest if reference is None else {"$ref": reference, **rest}
        target = target_of(self._root, reference)
        size = self._sizes.get(reference)
        if size is None:
            size = self._sizes[reference] = len(msgspec.json.encode(target))
        if reference in trail or depth > _MAX_DEPTH or size > self._left:
            name = reference.rpartition("/")[2] if "/" in reference else "the whole"
            return {"description": f"Any value of the form of {name} again, which is not repeated here.", **rest}
        self._left -= size
        return _both(self.inline(target, (*trail, reference), depth + 1), rest)


def _both(target: Schema, beside: Schema) -> Schema:
    """What both say: words beside a reference replace those of its target, anything else applies in addition."""
    beside = {k: v for k, v in beside.items() if k not in _DEFINITIONS} if _DEFINITIONS[0] not in target else beside
    ruling = beside.keys() - _WORDS - {*_DEFINITIONS, "$schema", "$id"}
    if not ruling:
        return {**target, **beside}
    return all_of([target, beside]) or {"allOf": [target, beside]}
