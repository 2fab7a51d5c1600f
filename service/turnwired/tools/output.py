"""The final answer of a run held against the schema that its caller asked for.

Strict modes of providers want every property there, so models write null for what they leave out: where the schema
takes no null and does not ask for the property, it is taken as left out. Nothing that is told holds a value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, cast

import jsonschema_rs
import orjson

from turnwired.domain.model import CheckedOutput, OutputProblem
from turnwired.tools.schema import MAX_SCHEMA_BYTES, MAX_VIOLATIONS, Unusable, Validator, loads, validator_of
from turnwired.tools.schema_work import TooMuchWork

_MAX_NULLS: Final = 1000
_MAX_WORDS: Final = 300
_Step = str | int


@lru_cache(maxsize=256)
def compile_output(schema_json: str) -> Callable[[str], CheckedOutput] | str:
    """The check of answers, or in words why the schema cannot be used. Compiled once per text in a process.

    The check is pure, takes JSON text, and gives the text of the value that counts (see above for nulls).
    """
    if len(schema_json.encode()) > MAX_SCHEMA_BYTES:
        return f"is longer than {MAX_SCHEMA_BYTES} bytes"
    try:
        schema: object = orjson.loads(schema_json)
    except orjson.JSONDecodeError as error:
        return f"is not valid JSON: {error}"
    if not isinstance(schema, dict):
        return "must be a JSON object"
    try:
        validator = validator_of(cast("dict[str, object]", schema))
    except Unusable as error:
        return str(error)

    def check(text: str) -> CheckedOutput:
        return _checked(text, validator)

    return check


def _checked(text: str, validator: Validator) -> CheckedOutput:
    try:
        value = loads(text)
    except (ValueError, RecursionError):
        return CheckedOutput(None, (OutputProblem("it is not one JSON value", ""),))
    try:
        return _held_against(text, value, validator)
    except TooMuchWork:
        words = "it does not keep to the schema, or is too large to be checked"
        return CheckedOutput(None, (OutputProblem(words, ""),))


def _held_against(text: str, value: object, validator: Validator) -> CheckedOutput:
    if validator.is_valid(value):
        return CheckedOutput(text)
    errors = list(islice(validator.errors(value), _MAX_NULLS))
    left_out = [error for error in errors if _leave_out(value, error.instance_path)]
    if left_out and validator.is_valid(value):
        return CheckedOutput(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    return CheckedOutput(None, tuple(_problem(error) for error in errors[:MAX_VIOLATIONS]))


def _problem(error: jsonschema_rs.ValidationError) -> OutputProblem:
    where = "".join(f"/{step}" for step in error.instance_path)
    words = f"{where}: {error.message}" if where else error.message
    return OutputProblem(words[:_MAX_WORDS], "/".join(str(step) for step in error.schema_path)[:_MAX_WORDS])


def _leave_out(value: object, path: Sequence[_Step]) -> bool:
    """Take the null at this path out of its object. False when there is none."""
    if not path:
        return False
    for step in path[:-1]:
        match value, step:
            case dict(), str() if step in value:
                value = value[step]
            case list(), int() if step < len(value):
                value = value[step]
            case _:
                return False
    last = path[-1]
    if not isinstance(value, dict) or last not in value or value[last] is not None:
        return False
    del value[last]
    return True
