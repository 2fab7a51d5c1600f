"""Joins JSON Schemas of objects into one: what all of them say, or what any of them says. Pure; knows no dialect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Schema = dict[str, Any]

_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SINGLE = frozenset(
    {
        *("items", "additionalProperties", "additionalItems", "contains", "not", "if", "then", "else"),
        *("propertyNames", "unevaluatedItems", "unevaluatedProperties", "contentSchema"),
    }
)
_JOINED = frozenset({"properties", "required", "additionalProperties", "description"})
_VALUES = frozenset({"const", "enum", "type", "title", "description", "default"})
_MAX_FORMS = 20


def properties_of(schema: Schema) -> dict[str, Any]:
    """The properties that an object names; none where the schema says nonsense."""
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def required_of(schema: Schema) -> list[str]:
    """The names of what must be there."""
    found = schema.get("required")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def with_children(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """A copy with every schema directly below changed; keys that are names of properties are no keywords."""
    found: Schema = {}
    for key, value in schema.items():
        if key in _MAPS and isinstance(value, dict):
            found[key] = {name: _of(below, change) for name, below in value.items()}
        elif key in _SINGLE and isinstance(value, dict):
            found[key] = change(value)
        elif (key in _LISTS or key == "items") and isinstance(value, list):
            found[key] = [_of(below, change) for below in value]
        else:
            found[key] = value
    return found


def all_of(schemas: Sequence[Schema]) -> Schema | None:
    """One schema that says what all of them say, or None where that takes more than joining their members."""
    if len(schemas) == 1:
        return schemas[0]
    rest = [schema["additionalProperties"] for schema in schemas if "additionalProperties" in schema]
    if any("patternProperties" in schema for schema in schemas) or any(isinstance(value, dict) for value in rest):
        return None
    merged: Schema = {}
    for schema in schemas:
        for key, value in schema.items():
            if key not in _JOINED and merged.setdefault(key, value) != value:
                return None
    if words := dict.fromkeys(said for schema in schemas if isinstance(said := schema.get("description"), str)):
        merged["description"] = " ".join(words)
    if any("properties" in schema for schema in schemas):
        merged["properties"] = _joined_properties(schemas)
    if required := list(dict.fromkeys(name for schema in schemas for name in required_of(schema))):
        merged["required"] = required
    if rest:
        merged["additionalProperties"] = False not in rest
    return merged


def _joined_properties(schemas: Sequence[Schema]) -> dict[str, Any]:
    joined: dict[str, Any] = {}
    for schema in schemas:
        for name, below in properties_of(schema).items():
            known = joined.setdefault(name, below)
            if known != below:
                joined[name] = {"allOf": [known, below]}
    for schema in schemas:  # a closed one allows nothing that it does not name
        if schema.get("additionalProperties") is False:
            joined = {name: below for name, below in joined.items() if name in properties_of(schema)}
    return joined


def object_union(branches: Sequence[Schema]) -> Schema | None:
    """One object for any of the branches, or None when none can be an object.

    It has the properties of all of them; only what every branch requires is required. The description tells the forms.
    """
    objects = [branch for branch in branches if _may_be_object(branch)]
    if not objects:
        return None
    found: dict[str, list[Any]] = {}
    for branch in objects:
        for name, below in properties_of(branch).items():
            forms = found.setdefault(name, [])
            if below not in forms:
                forms.append(below)
    required = [set(required_of(branch)) for branch in objects]
    union: Schema = {"type": "object", "properties": {name: _any_of(forms) for name, forms in found.items()}}
    if common := [name for name in found if all(name in names for names in required)]:
        union["required"] = common
    if all(branch.get("additionalProperties") is False for branch in objects):
        union["additionalProperties"] = False
    forms = [_form(branch) for branch in objects[:_MAX_FORMS]]
    if len(objects) > 1:
        union["description"] = f"In one of these forms: {'; '.join(forms)}."
    return union


def _of(below: Any, change: Callable[[Schema], Schema]) -> Any:
    return change(below) if isinstance(below, dict) else below


def _may_be_object(schema: Schema) -> bool:
    kind = schema.get("type")
    if kind is None:
        return not schema.keys() & {"enum", "const"}
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _any_of(forms: list[Any]) -> Any:
    if len(forms) == 1:
        return forms[0]
    if all(isinstance(form, dict) and form.keys() <= _VALUES and form.keys() & {"const", "enum"} for form in forms):
        values: list[Any] = []
        for form in forms:
            own = form["enum"] if isinstance(form.get("enum"), list) else [form.get("const")]
            values += [value for value in own if value not in values]
        kinds = {kind for form in forms if isinstance(kind := form.get("type"), str)}
        return {**({"type": kinds.pop()} if len(kinds) == 1 else {}), "enum": values}
    return {"anyOf": forms}


def _form(branch: Schema) -> str:
    """The names that a branch has; those that may be left out in brackets."""
    required = required_of(branch)
    names = [name if name in required else f"[{name}]" for name in properties_of(branch)]
    names += [name for name in required if name not in properties_of(branch)]
    return f"{{{', '.join(names)}}}"
