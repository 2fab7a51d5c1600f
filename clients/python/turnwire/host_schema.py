"""From the signature of a function to the JSON Schema of its arguments. Knows plain types, and nothing of gRPC.

What JSON has is taken: text, numbers, booleans, None, lists, dictionaries with text as keys, unions and literals of
those, and TypedDicts. ``Annotated[str, "words"]`` describes an argument. For all else a function brings its own schema.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

Schema = dict[str, Any]

_PLAIN: Mapping[object, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    Any: {},
    object: {},
    dict: {"type": "object"},
    list: {"type": "array"},
}


def schema_of(function: Callable[..., object], leave_out: object) -> tuple[Schema, str | None]:
    """The schema, and the name of the parameter whose type is ``leave_out``. Raises TypeError for other types."""
    hints = get_type_hints(function, include_extras=True)
    properties: dict[str, Schema] = {}
    required: list[str] = []
    left_out: str | None = None
    for name, parameter in inspect.signature(function).parameters.items():
        hint = hints.get(name)
        if hint is leave_out:
            left_out = name
            continue
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY) or hint is None:
            raise TypeError(f"{function.__name__}: the parameter {name} needs a name and a type, or give input_schema")
        properties[name] = _of(hint, f"{function.__name__}: {name}")
        if parameter.default is parameter.empty:
            required.append(name)
        elif isinstance(parameter.default, (str, int, float, bool)):
            properties[name]["default"] = parameter.default
    return _object(properties, required), left_out


def _object(properties: Mapping[str, Schema], required: list[str]) -> Schema:
    schema: Schema = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def _of(hint: Any, where: str) -> Schema:
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        words = [word for word in arguments[1:] if isinstance(word, str)]
        return {**_of(arguments[0], where), **({"description": words[0]} if words else {})}
    if origin in (Required, NotRequired):
        return _of(arguments[0], where)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_of(member, where) for member in arguments]}
    if origin is list:
        return {"type": "array", "items": _of(arguments[0], where)}
    if origin is dict and arguments[0] is str:
        return {"type": "object", "additionalProperties": _of(arguments[1], where)}
    if is_typeddict(hint):
        members = get_type_hints(hint, include_extras=True)
        properties = {name: _of(member, f"{where}.{name}") for name, member in members.items()}
        # Postponed annotations hide NotRequired from __required_keys__, and not from the hints.
        asked = {name: get_origin(member) for name, member in members.items()}
        needed = [name for name in members if name in hint.__required_keys__ and asked[name] is not NotRequired]
        return _object(properties, needed)
    raise TypeError(f"{where} is of a type that JSON does not have; give input_schema")
