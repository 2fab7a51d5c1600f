"""JSON Schemas of tools: which ones can be offered, and whether arguments keep to them.

Follows JSON Schema 2020-12, or the older draft that a schema names in ``$schema``. Nothing is ever fetched: a reference
that leaves the document makes the schema unusable. Patterns run with a limit on backtracking.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Final, cast

import jsonschema_rs
import orjson

from turnwired.domain.text import parse_json
from turnwired.tools.schema_references import MAX_DEPTH, NotPortable, require_depth, with_pointers
from turnwired.tools.schema_work import TooMuchWork, Work

MAX_SCHEMA_BYTES: Final = 256 * 1024
MAX_VIOLATIONS: Final = 5
MOST_WORK: Final = 5_000_000
"""Schemas that one value may be held against, each place counted anew: about 0.2 s on one core."""
MOST_ERROR_WORK: Final = 10_000
"""The same where all that is wrong is asked for, which is built in one go: as much again."""
PLAIN_SIZE: Final = 200
"""Schemas up to this size, references followed, are work in proportion to the value."""
_MOST_SHAPES: Final = 1000
_BACKTRACK_LIMIT: Final = 100_000  # about 5 ms on one core before a hostile pattern gives up
_COMPOSITIONS: Final = ("anyOf", "oneOf", "allOf")
_REFERENCE: Final = re.compile(r'"\$(?:ref|dynamicRef|recursiveRef)"')
_LONG_NUMBER: Final = re.compile(r"[0-9]{19}")

Schema = dict[str, object]


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    """A schema that arguments can be checked with, and the form of it that the model is shown.

    ``offered_json`` has ``type: object`` and no composition at the top, which several providers refuse for the whole
    request; ``validator`` holds arguments to all of the original.
    """

    offered_json: str
    validator: Validator

    def violations(self, arguments: Mapping[str, object]) -> list[str]:
        """What is wrong, at most five sentences, without the values that were sent. Empty: nothing is."""
        return violations_of(self.validator, arguments)


def violations_of(validator: Validator, value: object) -> list[str]:
    """What is wrong with a value, at most five sentences that do not quote it. Empty: nothing is."""
    try:
        if validator.is_valid(value):
            return []
    except TooMuchWork:
        return ["it is too large, or nested too deeply, to be checked"]
    try:
        errors = validator.errors(value)
    except TooMuchWork:
        return ["it is too large, or nested too deeply, to tell where"]
    sentences: list[str] = []
    for error in errors:
        if len(sentences) == MAX_VIOLATIONS:
            sentences.append("and more")
            break
        path = "".join(f"/{step}" for step in error.instance_path)
        sentences.append(f"{path}: {error.message}" if path else error.message)
    return sentences


@lru_cache(maxsize=4096)
def compile_schema(schema_json: str) -> CompiledSchema | str:
    """The compiled schema, or why it cannot be used. Compiled once per text in a process."""
    if len(schema_json) > MAX_SCHEMA_BYTES:
        return f"its input schema is longer than {MAX_SCHEMA_BYTES} bytes"
    try:
        loaded: object = orjson.loads(schema_json)
    except orjson.JSONDecodeError as error:
        return f"its input schema is not valid JSON: {error}"
    if not isinstance(loaded, dict):
        return "its input schema is not a JSON object"
    schema = cast("Schema", loaded)
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        return f"its input schema is of type {json.dumps(kind)[:80]}, but arguments are always an object"
    try:
        validator = validator_of({**schema, "type": "object"})
        portable = _portable(schema, schema_json)
        offered = _offered(portable)
        if offered is None and portable is not schema:
            offered = orjson.dumps(portable).decode()
    except (Unusable, NotPortable) as error:
        return f"its input schema {error}"
    except ValueError as error:
        return f"its input schema cannot be used: {str(error)[:300]}"
    return CompiledSchema(offered if offered is not None else schema_json, validator)


class Unusable(Exception):
    """A schema that nothing can be checked with; the text says why, as what follows the name of the schema."""


@dataclass(slots=True)
class Validator:
    """Checks values by one schema, in bounded time whatever the schema is. Values are as JSON gives them."""

    schema: Schema
    validator: jsonschema_rs.Validator
    _work: Work | None = None

    def is_valid(self, value: object) -> bool:
        """Whether the value keeps to the schema. Raises TooMuchWork when that cannot be told in time."""
        if self._bound().size > PLAIN_SIZE:
            self._bound().require(value, MOST_WORK)
        return self.validator.is_valid(value)

    def errors(self, value: object) -> Iterator[jsonschema_rs.ValidationError]:
        """What is wrong with it. Raises TooMuchWork when that cannot be told in time."""
        self._bound().require(value, MOST_ERROR_WORK)
        return self.validator.iter_errors(value)

    def _bound(self) -> Work:
        if self._work is None:  # most tools of a deployment are never called
            self._work = Work(self.schema)
        return self._work


def validator_of(schema: Schema) -> Validator:
    """What checks values by this schema. Raises Unusable."""
    try:
        made = jsonschema_rs.validator_for(
            schema,
            offline=True,
            mask="the value",
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACK_LIMIT),
        )
        return Validator(schema, made)
    except jsonschema_rs.ValidationError as error:
        place = "".join(f"/{step}" for step in error.instance_path)[:200]
        raise Unusable(f"is not valid{place and f' at {place}'}: {error.message[:300]}") from error
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise Unusable(f"cannot be used: {str(error)[:300]}") from error


def loads(text: str) -> object:
    """A JSON value with its numbers as they are. Raises ValueError or RecursionError."""
    # orjson turns integers beyond 64 bits into floats, which would change what the model said.
    return parse_json(text) if _LONG_NUMBER.search(text) is not None else orjson.loads(text)


def parse_arguments(arguments_json: str) -> dict[str, object] | str:
    """The JSON object, or why there is none. Blank text is the empty object: that is how models call without any."""
    if not arguments_json or arguments_json.isspace():
        return {}
    try:
        value = loads(arguments_json)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        return f"The arguments are not valid JSON: {reason}. Send exactly one JSON object."
    if not isinstance(value, dict):
        name = "null" if value is None else type(value).__name__
        return f"The arguments are JSON of type {name}. Send exactly one JSON object."
    return cast("dict[str, object]", value)


def _portable(schema: Schema, text: str) -> Schema:
    """The schema as every provider's adaptation can take it. Raises NotPortable."""
    if text.count("{") + text.count("[") > MAX_DEPTH:
        require_depth(schema)
    return with_pointers(schema) if _REFERENCE.search(text) is not None else schema


def _offered(schema: Schema) -> str | None:
    """The schema without composition and references at its top, or None where it has none of them already."""
    if not any(key in schema for key in (*_COMPOSITIONS, "$ref")) and schema.get("type") == "object":
        return None
    merged: Schema = {key: value for key, value in schema.items() if key not in (*_COMPOSITIONS, "$ref")}
    merged["type"] = "object"
    merged["properties"], required = _shape(schema, schema, 0, count())
    if required:
        merged["required"] = required
    else:
        merged.pop("required", None)
    if any(key in schema for key in (*_COMPOSITIONS, "$ref")):
        # `additionalProperties: false` beside a composition speaks of the properties beside it only.
        merged.pop("additionalProperties", None)
    return orjson.dumps(merged).decode()


def _shape(schema: Schema, root: Schema, depth: int, seen: Iterator[int]) -> tuple[Schema, list[str]]:
    """All properties that some branch knows, and the names that every branch requires. ``seen`` counts the branches."""
    if depth > 8:
        raise ValueError("references or compositions at its top are nested too deeply")
    if next(seen) >= _MOST_SHAPES:
        raise ValueError(f"references and compositions at its top lead to more than {_MOST_SHAPES} branches")
    properties = dict(_object(schema.get("properties")))
    required = _strings(schema.get("required"))
    reference = schema.get("$ref")
    parts: list[tuple[str, list[object]]] = [(key, _list(schema.get(key))) for key in _COMPOSITIONS]
    if isinstance(reference, str):
        parts.append(("allOf", [_target(reference, root)]))
    for key, branches in parts:
        shapes = [_shape(branch, root, depth + 1, seen) for branch in map(_object, branches) if _may_be_object(branch)]
        if branches and not shapes:
            raise ValueError(f"no branch of its {key} is an object")
        for shape, _ in shapes:
            properties.update({name: value for name, value in shape.items() if name not in properties})
        if key == "allOf":
            required += [name for _, names in shapes for name in names]
        elif shapes:
            required += [name for name in shapes[0][1] if all(name in names for _, names in shapes)]
    return properties, list(dict.fromkeys(required))


def _target(reference: str, root: Schema) -> object:
    node: object = root
    for step in reference.removeprefix("#").strip("/").split("/") if reference != "#" else ():
        node = _object(node).get(step.replace("~1", "/").replace("~0", "~"))
    return node


def _may_be_object(branch: Schema) -> bool:
    kind = branch.get("type", "object")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _object(value: object) -> Schema:
    return cast("Schema", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _strings(value: object) -> list[str]:
    return [item for item in _list(value) if isinstance(item, str)]
