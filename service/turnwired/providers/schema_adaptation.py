"""Changes a JSON Schema into one that a server's dialect takes. Pure, cached, bounded; knows no server and no wire.

What conforms to the changed schema conforms to the original one too, but for what cannot be said otherwise:
- ALL_REQUIRED: an optional property that is absent comes as null, whether or not the original allows null.
- NO_TOP_LEVEL_UNION: the branches become one object, so that properties of several of them may come together.
- INLINE_REFS: a recursion is cut to "any value" where it begins again; so is what would grow beyond the bounds.
- NO_VALIDATION_KEYWORDS: what is dropped stands in the description, and nothing enforces it; ``oneOf`` is ``anyOf``.
- NO_ADDITIONAL_PROPERTIES: nothing is said of keys without a name of their own.
CLOSED_OBJECTS only narrows: a map of free keys can then only be empty. ``strict_form`` says when these losses occur.

Sources: OpenAI "Structured outputs, supported schemas"; OpenAPI 3.0 ``nullable`` (the dialect without type arrays).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from turnwired.providers.profiles import SchemaAdaptation
from turnwired.providers.schema_inlining import Unresolvable, inlined, resolved
from turnwired.providers.schema_merging import Schema, all_of, object_union, properties_of, required_of, with_children

MAX_DEPTH = 100
MAX_BRANCHES = 1000
"""Of unions at the top, counted again wherever a reference leads to them."""
_MAX_CACHED_CHARS = 64 * 1024
_OF_OBJECTS = frozenset({"type", "properties", "required", "additionalProperties"})
_UNIONS = frozenset({"anyOf", "oneOf", "allOf", "enum", "not", "discriminator"})
_NULL: Schema = {"type": "null"}
_LOSSY = frozenset({SchemaAdaptation.ALL_REQUIRED, SchemaAdaptation.CLOSED_OBJECTS})

# What strict dialects refuse. The first may be told to the model in words; the others say nothing that it needs.
_TELLING = (
    *("minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("multipleOf", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains", "minProperties"),
    *("maxProperties", "dependentRequired", "contentEncoding", "contentMediaType", "default", "examples"),
)
_SILENT = (
    *("contains", "propertyNames", "patternProperties", "unevaluatedProperties", "unevaluatedItems"),
    *("dependentSchemas", "if", "then", "else", "not", "$schema", "$id", "$comment", "discriminator"),
)
_DROPPED = frozenset({*_TELLING, *_SILENT})


def adapted(schema_json: str, adaptations: frozenset[SchemaAdaptation]) -> str:
    """The schema in the form that a server takes, as compact JSON text; the same text when nothing has to change.

    A schema that is no JSON object, is nested deeper than ``MAX_DEPTH`` or has a reference that leads nowhere is
    returned unchanged: it is for the server to refuse. Never raises.
    """
    if not adaptations or not schema_json:
        return schema_json
    if len(schema_json) > _MAX_CACHED_CHARS:
        return _adapted(schema_json, adaptations)
    return _kept(schema_json, adaptations)


def for_tools(adaptations: frozenset[SchemaAdaptation]) -> frozenset[SchemaAdaptation]:
    """The adaptations that tools need, whose schemas are not sent as strict ones.

    Only a strict schema has to be closed with all required, and to tools both do harm: a map of free keys could not be
    filled, and null would come for an argument that was left out.
    """
    return adaptations - _LOSSY


def strict_form(
    schema_json: str, adaptations: frozenset[SchemaAdaptation], most_optional: int = 1000, most_unions: int = 1000
) -> tuple[str, bool]:
    """The schema for structured output, and whether a server may be held to it strictly.

    False when the strict form would say something else than the original, or has more optional properties or unions
    than the server takes: then what can be left out is not made nullable, maps stay open, and the server takes the
    schema as a strong hint, or is told it in words.
    """
    lossy = adaptations & _LOSSY
    if SchemaAdaptation.NO_ADDITIONAL_PROPERTIES in adaptations and "additionalProperties" in schema_json:
        return adapted(schema_json, adaptations - _LOSSY), False
    if lossy and (schema := _decoded(schema_json)) is not None and _loses(schema, lossy):
        return adapted(schema_json, adaptations - _LOSSY), False
    text = adapted(schema_json, adaptations)
    if (schema := _decoded(text)) is not None:
        optional, unions = _counted(schema)
        if optional > most_optional or unions > most_unions:
            return adapted(schema_json, adaptations - _LOSSY), False
    return text, True


@lru_cache(maxsize=512)
def _kept(schema_json: str, adaptations: frozenset[SchemaAdaptation]) -> str:
    return _adapted(schema_json, adaptations)


def _adapted(schema_json: str, adaptations: frozenset[SchemaAdaptation]) -> str:
    schema = _decoded(schema_json)
    if schema is None:
        return schema_json
    try:
        changed = _changed(schema, adaptations)
    except (Unresolvable, RecursionError):
        return schema_json
    return schema_json if changed == schema else msgspec.json.encode(changed).decode()


def _changed(schema: Schema, adaptations: frozenset[SchemaAdaptation]) -> Schema:
    if SchemaAdaptation.INLINE_REFS in adaptations:
        schema = inlined(schema)
    if SchemaAdaptation.NO_TOP_LEVEL_UNION in adaptations:
        schema = _plain_top(schema)
    if adaptations & _LOSSY:
        schema = _without_all_of(schema)
    if SchemaAdaptation.ALL_REQUIRED in adaptations:
        schema = _all_required(schema)
    if SchemaAdaptation.CLOSED_OBJECTS in adaptations:
        schema = _closed(schema)
    if SchemaAdaptation.NO_VALIDATION_KEYWORDS in adaptations:
        schema = _without_validation(schema)
    if SchemaAdaptation.NO_TYPE_ARRAYS in adaptations:
        schema = _without_type_arrays(schema)
    if SchemaAdaptation.NO_ADDITIONAL_PROPERTIES in adaptations:
        schema = _without_free_keys(schema)
    return schema


def _decoded(schema_json: str) -> Schema | None:
    try:
        schema = msgspec.json.decode(schema_json)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(schema, dict):
        return None
    level: list[Any] = [schema]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below += value.values()
            elif isinstance(value, list):
                below += value
        if not below:
            return schema
        level = below
    return None


def _is_object(schema: Schema) -> bool:
    kind = schema.get("type")
    return (
        kind == "object" or (isinstance(kind, list) and "object" in kind) or (kind is None and "properties" in schema)
    )


def _loses(schema: Schema, lossy: frozenset[SchemaAdaptation]) -> bool:
    """Whether the adaptations take anything away: optional properties that cannot be null, or keys without a name."""
    all_required, closed = SchemaAdaptation.ALL_REQUIRED in lossy, SchemaAdaptation.CLOSED_OBJECTS in lossy
    found = False

    def look(node: Schema) -> Schema:
        nonlocal found
        if _is_object(node):
            properties, required = properties_of(node), set(required_of(node))
            free = node.get("additionalProperties", not properties) is not False or "patternProperties" in node
            optional = (properties[name] for name in properties.keys() - required)
            if (
                required - properties.keys()
                or (closed and free)
                or (all_required and any(not _takes_null(below) for below in optional))
            ):
                found = True
        return with_children(node, look)

    look(schema)
    return found


def _counted(schema: Schema) -> tuple[int, int]:
    """How many properties may be left out, and how many schemas are unions."""
    optional = unions = 0

    def look(node: Schema) -> Schema:
        nonlocal optional, unions
        if _is_object(node):
            optional += len(properties_of(node).keys() - set(required_of(node)))
        unions += isinstance(node.get("type"), list) or "anyOf" in node or "oneOf" in node
        return with_children(node, look)

    look(schema)
    return optional, unions


# --- The top ---------------------------------------------------------------------------------------------------------


def _plain_top(schema: Schema) -> Schema:
    """The top as one object. Left as it is where no branch can be an object: then nothing would be right."""
    return _plain_top_within(schema, [MAX_BRANCHES])


def _plain_top_within(schema: Schema, left: list[int]) -> Schema:
    root = schema
    schema = resolved(schema, root)
    pieces: list[Schema] = [{k: v for k, v in schema.items() if k not in _UNIONS}]
    branches = schema.get("allOf")
    if isinstance(branches, list):
        pieces += [_plain_top_of(branch, root, left) for branch in branches if isinstance(branch, dict)]
    for key in ("anyOf", "oneOf"):
        branches = schema.get(key)
        if not isinstance(branches, list):
            continue
        union = object_union([_plain_top_of(branch, root, left) for branch in branches if isinstance(branch, dict)])
        if union is None:
            return root
        pieces.append(union)
    merged = all_of(pieces) if len(pieces) > 1 else pieces[0]
    if merged is None:
        return root
    if _is_object(merged):
        merged = {"type": "object", **merged, **({"type": "object"} if isinstance(merged.get("type"), list) else {})}
    return merged


def _plain_top_of(branch: Schema, root: Schema, left: list[int]) -> Schema:
    """``left`` counts branches down: references that lead to the same one twice, each time, would never end."""
    left[0] -= 1
    if left[0] < 0:
        raise Unresolvable
    branch = resolved(branch, root)
    if not branch.keys() & {"anyOf", "oneOf", "allOf"}:
        return branch
    return {
        k: v for k, v in _plain_top_within({"$defs": root.get("$defs", {}), **branch}, left).items() if k != "$defs"
    }


# --- Everywhere ------------------------------------------------------------------------------------------------------


def _without_all_of(schema: Schema) -> Schema:
    """Objects under allOf, or beside a union, as one object each: closed apart they would exclude each other."""
    schema = with_children(schema, _without_all_of)
    branches = schema.get("allOf")
    if isinstance(branches, list) and all(isinstance(branch, dict) for branch in branches):
        rest = {k: v for k, v in schema.items() if k != "allOf"}
        schema = all_of([rest, *branches]) or schema
    for key in ("anyOf", "oneOf"):
        branches = schema.get(key)
        if not isinstance(branches, list) or not isinstance(schema.get("properties"), dict):
            continue
        outside: Schema = {
            k: schema[k] for k in ("type", "properties", "required", "additionalProperties") if k in schema
        }
        merged = [all_of([outside, branch]) if isinstance(branch, dict) else None for branch in branches]
        if None not in merged:
            schema = {k: v for k, v in schema.items() if k not in outside} | {key: merged}
    return schema


def _all_required(schema: Schema) -> Schema:
    schema = with_children(schema, _all_required)
    properties = schema.get("properties")
    if not _is_object(schema) or not isinstance(properties, dict):
        return schema
    before = frozenset(required_of(schema))
    return {
        **schema,
        "properties": {name: sub if name in before else _nullable(sub) for name, sub in properties.items()},
        "required": list(properties),
    }


def _takes_null(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return schema is True
    kind, values = schema.get("type"), schema.get("enum")
    if isinstance(values, list):
        return None in values
    if kind is not None:
        return kind == "null" or (isinstance(kind, list) and "null" in kind)
    if "const" in schema:
        return schema["const"] is None
    for key in ("anyOf", "oneOf"):
        if isinstance(branches := schema.get(key), list):
            return any(_takes_null(branch) for branch in branches)
    return not schema.keys() & {"$ref", "allOf", "not", "if"}


def _nullable(schema: Any) -> Any:
    if not isinstance(schema, dict) or _takes_null(schema):
        return schema
    kind, values = schema.get("type"), schema.get("enum")
    told = {k: v for k, v in schema.items() if k in {"description", "title"}}
    if kind is not None and "const" not in schema:
        kinds = kind if isinstance(kind, list) else [kind]
        with_null = {"type": kinds if "null" in kinds else [*kinds, "null"]}
        return {**schema, **with_null, **({"enum": [*values, None]} if isinstance(values, list) else {})}
    if isinstance(branches := schema.get("anyOf"), list):
        return {**schema, "anyOf": [*branches, _NULL]}
    return {**told, "anyOf": [{k: v for k, v in schema.items() if k not in told}, _NULL]}


def _closed(schema: Schema) -> Schema:
    def branch(node: Schema) -> Schema:
        # What is left of an allOf could not be made one object: closed apart, nothing would conform.
        return _closed(node)

    open_branches = schema.get("allOf")
    schema = with_children(schema, branch)
    if open_branches is not None:
        return {**schema, "allOf": open_branches}
    if not _is_object(schema):
        return schema
    return {**{k: v for k, v in schema.items() if k != "patternProperties"}, "additionalProperties": False}


def _without_free_keys(schema: Schema) -> Schema:
    schema = with_children(schema, _without_free_keys)
    return {k: v for k, v in schema.items() if k not in {"additionalProperties", "unevaluatedProperties"}}


def _without_validation(schema: Schema) -> Schema:
    schema = with_children(schema, _without_validation)
    if "oneOf" in schema and "anyOf" not in schema:
        schema = {("anyOf" if k == "oneOf" else k): v for k, v in schema.items()}
    if not schema.keys() & _DROPPED:
        return schema
    kept = {k: v for k, v in schema.items() if k not in _DROPPED}
    told = [f"{k}: {msgspec.json.encode(schema[k]).decode()}" for k in _TELLING if k in schema]
    if told:
        before = kept.get("description")
        words = f"({', '.join(told)})"
        kept["description"] = f"{before} {words}" if isinstance(before, str) and before else words
    return kept


def _without_type_arrays(schema: Schema) -> Schema:
    """Null as ``nullable``, several types as ``anyOf``, ``const`` as ``enum``.

    The dialect without type arrays is that of OpenAPI 3.0, which knows neither the type null nor ``const``.
    """
    schema = with_children(schema, _without_type_arrays)
    if "const" in schema and "enum" not in schema:
        schema = {("enum" if k == "const" else k): [v] if k == "const" else v for k, v in schema.items()}
    for key in ("anyOf", "oneOf"):
        branches = schema.get(key)
        if isinstance(branches, list) and _NULL in branches:
            rest = [branch for branch in branches if branch != _NULL] or [_NULL]
            schema = {k: v for k, v in schema.items() if k != key} | {"nullable": True}
            if len(rest) == 1 and isinstance(rest[0], dict) and not (rest[0].keys() - {"description"}) & schema.keys():
                schema = {**rest[0], **schema}
            else:
                schema[key] = rest
    kinds = schema.get("type")
    if not isinstance(kinds, list):
        return schema
    schema = {k: v for k, v in schema.items() if k != "type"}
    if "null" in kinds:
        schema["nullable"] = True
        if isinstance(values := schema.get("enum"), list):
            schema["enum"] = [value for value in values if value is not None]
    kinds = [kind for kind in kinds if kind != "null"]
    if len(kinds) == 1:
        return {"type": kinds[0], **schema}
    return _by_type(schema, kinds) if kinds else {**schema, "type": "null"}


_OF_TYPE = {
    "object": ("properties", "required", "additionalProperties", "patternProperties", "propertyNames"),
    "array": ("items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}


def _by_type(schema: Schema, kinds: list[Any]) -> Schema:
    """One branch for each type with the keywords that concern it."""
    if "anyOf" in schema or "enum" in schema:
        return schema  # these say the types already
    owned = {name: kind for kind, names in _OF_TYPE.items() for name in names}
    branches: list[Schema] = []
    for kind in kinds:
        owner = "number" if kind == "integer" else kind
        branches.append({"type": kind, **{k: v for k, v in schema.items() if owned.get(k) == owner}})
    return {k: v for k, v in schema.items() if k not in owned} | {"anyOf": branches}
