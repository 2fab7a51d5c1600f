"""Simple type errors in arguments, put right: what lenient validation does before it refuses a call.

Only what cannot be meant otherwise is changed, the validator says where, and the whole must be valid afterwards; else
nothing is changed at all. It may not know tools, runs or policies, and it never quotes a value.
"""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

import jsonschema_rs

from turnwired.domain.text import parse_json
from turnwired.tools.schema import Validator
from turnwired.tools.schema_work import TooMuchWork

MAX_REPAIRS: Final = 32
"""Repairs of one call; arguments that need more were not meant for this tool."""

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,300}(?:\.0+)?")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_PATH_SHOWN: Final = 80
_WORDS: Final = {
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean",
    "null": "null",
    "object": "an object",
    "array": "a list",
    "string": "a string",
}


@dataclass(frozen=True, slots=True)
class Repaired:
    """Arguments that are valid now, and a sentence for each change, such as ``/count: text became a number``."""

    arguments: Mapping[str, object]
    repairs: tuple[str, ...]


class _No:
    """There is no plain reading of the value as the type."""


_NO: Final = _No()
_Step = str | int


def unwrapped(arguments_json: str) -> str | None:
    """The text inside, where the arguments as a whole are JSON text within a JSON string; else None."""
    try:
        value: object = json.loads(arguments_json)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, str) else None


def repair(arguments: Mapping[str, object], validator: Validator) -> Repaired | None:
    """Arguments with their simple type errors repaired, or None when they are not valid even so, or too large.

    Repairs: a number, boolean, null, list or object written as text; a number where text is wanted; one value where a
    list is wanted; null for a property that is not required, which is left out.
    """
    try:
        root: dict[str, object] = copy.deepcopy(dict(arguments))
    except RecursionError:
        return None
    repairs: list[str] = []
    while len(repairs) <= MAX_REPAIRS:
        try:
            errors = list(_first(validator.errors(root), MAX_REPAIRS))
        except TooMuchWork:
            return None
        if not errors:
            return Repaired(root, tuple(repairs)) if repairs else None
        # One at a time: a repair may settle other errors, or move what they point at.
        sentence = next((done for error in errors if (done := _repair_one(root, error)) is not None), None)
        if sentence is None:
            return None
        repairs.append(sentence)
    return None


def _first(errors: Iterator[jsonschema_rs.ValidationError], most: int) -> Iterator[jsonschema_rs.ValidationError]:
    for _, error in zip(range(most), errors, strict=False):
        yield error


def _repair_one(root: dict[str, object], error: jsonschema_rs.ValidationError) -> str | None:
    path = cast("Sequence[_Step]", list(error.instance_path))
    if not path:
        return None
    parent = _at(root, path[:-1])
    key = path[-1]
    value = _at(root, path)
    for wanted in _wanted(error, path):
        made = _READ[wanted](value) if wanted in _READ else _NO
        if made is _NO:
            continue
        _put(parent, key, made)
        return f"{_shown(path)}: {_kind(value)} became {_WORDS[wanted]}"
    if value is None and isinstance(parent, dict):
        # If it was required after all, the next look says so and nothing is repaired.
        del cast("dict[str, object]", parent)[str(key)]
        return f"{_shown(path)}: null was left out"
    return None


def _wanted(error: jsonschema_rs.ValidationError, path: Sequence[_Step]) -> list[str]:
    """The types that would do at this place: of a wrong type, or of branches that fail by their type alone."""
    kind = error.kind
    match kind:
        case jsonschema_rs.ValidationErrorKind.Type():
            return [str(name) for name in kind.types]
        case jsonschema_rs.ValidationErrorKind.AnyOf() | jsonschema_rs.ValidationErrorKind.OneOfNotValid():
            branches = [list(branch) for branch in kind.context]
            return [
                str(name)
                for branch in branches
                if len(branch) == 1 and list(branch[0].instance_path) == list(path)
                for name in _types(branch[0].kind)
            ]
        case _:
            return []


def _types(kind: object) -> list[str]:
    return [str(name) for name in kind.types] if isinstance(kind, jsonschema_rs.ValidationErrorKind.Type) else []


def _at(root: object, path: Sequence[_Step]) -> object:
    value = root
    for step in path:
        value = cast("dict[_Step, object]", value)[step]
    return value


def _put(parent: object, key: _Step, value: object) -> None:
    cast("dict[_Step, object]", parent)[key] = value


# --- readings of one value as one type --------------------------------------------------------------------------------


def _integer(value: object) -> object:
    if not isinstance(value, str) or _INTEGER.fullmatch(value.strip()) is None:
        return _NO
    return int(value.strip().partition(".")[0])


def _number(value: object) -> object:
    if not isinstance(value, str) or _NUMBER.fullmatch(value.strip()) is None:
        return _NO
    number: int | float = json.loads(value)
    return number if math.isfinite(number) else _NO


def _boolean(value: object) -> object:
    return {"true": True, "false": False}.get(value.strip().lower(), _NO) if isinstance(value, str) else _NO


def _null(value: object) -> object:
    return None if isinstance(value, str) and value.strip() in ("null", "None") else _NO


def _object(value: object) -> object:
    return _json(value, dict)


def _array(value: object) -> object:
    if value is None:
        return _NO
    found = _json(value, list)
    return [value] if found is _NO else found


def _string(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _NO
    return json.dumps(value)


def _json(value: object, kind: type[object]) -> object:
    if not isinstance(value, str):
        return _NO
    try:
        found = parse_json(value)
    except (ValueError, RecursionError):
        return _NO
    return found if isinstance(found, kind) else _NO


_READ: Final[Mapping[str, Callable[[object], object]]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "null": _null,
    "object": _object,
    "array": _array,
    "string": _string,
}


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "text"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case _:
            return "one value"


def _shown(path: Sequence[_Step]) -> str:
    text = "".join(f"/{step}" for step in path)
    return text if len(text) <= _PATH_SHOWN else f"{text[:_PATH_SHOWN]}..."
