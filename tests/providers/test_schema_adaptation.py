"""Schemas in the dialects of servers."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwired.providers.profiles import SchemaAdaptation as To
from turnwired.providers.schema_adaptation import adapted, for_tools, strict_form

ALL = frozenset(To) - {To.NO_ADDITIONAL_PROPERTIES}  # which undoes CLOSED_OBJECTS
STRICT = frozenset({To.ALL_REQUIRED, To.CLOSED_OBJECTS, To.NO_VALIDATION_KEYWORDS})


def changed(schema: Any, *adaptations: To) -> Any:
    """The adapted schema."""
    return json.loads(adapted(json.dumps(schema), frozenset(adaptations)))


def accepts(schema: Any, value: object) -> bool:
    """Whether a value conforms; ``nullable`` is read as OpenAPI 3.0 means it."""
    definitions = {name: standard(below) for name, below in schema.get("$defs", {}).items()}
    body = standard({key: below for key, below in schema.items() if key != "$defs"})
    return jsonschema_rs.validator_for({**body, "$defs": definitions}).is_valid(value)


def standard(schema: Any) -> Any:
    """The schema without ``nullable``."""
    if isinstance(schema, list):
        return [standard(below) for below in schema]
    if not isinstance(schema, dict):
        return schema
    below = {key: standard(value) for key, value in schema.items() if key != "nullable" or value is not True}
    return {"anyOf": [below, {"type": "null"}]} if schema.get("nullable") is True else below


TEXT = {"type": "string"}
TREE = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/Node", "description": "Where it begins"}},
    "required": ["root"],
    "$defs": {
        "Node": {
            "type": "object",
            "description": "A node",
            "properties": {"name": TEXT, "below": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
        }
    },
}


@pytest.mark.requirement("CHAT-1")
def test_without_adaptations_or_need_for_them_the_text_stays_as_it_is() -> None:
    odd = '{ "type":"object",  "properties": {"a": {"type":"string"}}, "required":["a"],"additionalProperties":false }'
    assert adapted(odd, frozenset()) == odd
    assert adapted(odd, ALL) == odd
    assert adapted("", ALL) == ""


@pytest.mark.requirement("CHAT-3")
def test_references_are_replaced_by_what_they_lead_to_and_a_recursion_is_cut() -> None:
    found = changed(TREE, To.INLINE_REFS)
    assert "$ref" not in json.dumps(found)
    assert "$defs" not in found
    root = found["properties"]["root"]
    assert root["description"] == "Where it begins"
    assert root["properties"]["name"] == TEXT
    assert root["properties"]["below"]["items"] == {
        "description": "Any value of the form of Node again, which is not repeated here."
    }


@pytest.mark.requirement("CHAT-3")
def test_a_property_called_like_a_keyword_is_no_keyword() -> None:
    schema = {"type": "object", "properties": {"$ref": TEXT, "$defs": TEXT, "format": TEXT, "type": TEXT}}
    assert changed(schema, To.INLINE_REFS, To.NO_VALIDATION_KEYWORDS, To.NO_TYPE_ARRAYS) == schema


@pytest.mark.requirement("CHAT-3")
@pytest.mark.parametrize("pointer", ["#/properties/a~1b/anyOf/0", "#/properties/a%7E1b/anyOf/0"])
def test_a_reference_may_lead_anywhere_in_the_schema(pointer: str) -> None:
    schema = {"properties": {"a/b": {"anyOf": [TEXT]}, "c": {"$ref": pointer}}}
    assert changed(schema, To.INLINE_REFS)["properties"]["c"] == TEXT


@pytest.mark.requirement("CHAT-3", "CHAT-4")
def test_references_that_multiply_are_cut_at_the_bound() -> None:
    levels = {
        f"L{i}": {"type": "object", "properties": {c: {"$ref": f"#/$defs/L{i + 1}"} for c in "abcdefgh"}}
        for i in range(30)
    }
    schema = {"$ref": "#/$defs/L0", "$defs": {**levels, "L30": {"type": "string", "description": "x" * 1000}}}
    found = adapted(json.dumps(schema), frozenset({To.INLINE_REFS}))
    assert len(found) < 4_000_000
    assert "which is not repeated here" in found


@pytest.mark.requirement("CHAT-2")
def test_a_union_at_the_top_becomes_one_object_that_tells_its_forms() -> None:
    one = {"type": "object", "properties": {"kind": {"const": "a"}, "x": TEXT}, "required": ["kind", "x"]}
    two = {"type": "object", "properties": {"kind": {"const": "b"}, "y": TEXT}, "required": ["kind"]}
    schema = {"description": "Either.", "oneOf": [{"$ref": "#/$defs/One"}, two, TEXT], "$defs": {"One": one}}
    found = changed(schema, To.NO_TOP_LEVEL_UNION)
    assert found == {
        "type": "object",
        "description": "Either. In one of these forms: {kind, x}; {kind, [y]}.",
        "properties": {"kind": {"enum": ["a", "b"]}, "x": TEXT, "y": TEXT},
        "required": ["kind"],
        "$defs": {"One": one},
    }


@pytest.mark.requirement("CHAT-2")
def test_all_of_at_the_top_is_joined_and_a_top_of_no_object_stays() -> None:
    parts = [{"properties": {"a": TEXT}, "required": ["a"]}, {"type": "object", "properties": {"b": TEXT}}]
    assert changed({"allOf": parts}, To.NO_TOP_LEVEL_UNION) == {
        "type": "object",
        "properties": {"a": TEXT, "b": TEXT},
        "required": ["a"],
    }
    for other in ({"anyOf": [TEXT, {"type": "number"}]}, {"type": "array"}, TEXT):
        assert changed(other, To.NO_TOP_LEVEL_UNION) == other


@pytest.mark.requirement("CHAT-2")
def test_objects_are_closed_with_all_required_and_what_was_optional_may_be_null() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": TEXT,
            "b": {"type": "string", "enum": ["x"]},
            "c": {"anyOf": [TEXT, {"type": "integer"}]},
            "d": {"$ref": "#/$defs/D", "description": "Of D"},
            "e": {"type": ["string", "null"]},
            "f": {},
        },
        "required": ["a"],
        "$defs": {"D": {"type": "object", "properties": {"z": TEXT}}},
    }
    found = changed(schema, To.ALL_REQUIRED, To.CLOSED_OBJECTS)
    assert found["required"] == list("abcdef")
    assert found["additionalProperties"] is False
    assert found["properties"] == {
        "a": TEXT,
        "b": {"type": ["string", "null"], "enum": ["x", None]},
        "c": {"anyOf": [TEXT, {"type": "integer"}, {"type": "null"}]},
        "d": {"description": "Of D", "anyOf": [{"$ref": "#/$defs/D"}, {"type": "null"}]},
        "e": {"type": ["string", "null"]},
        "f": {},
    }
    assert found["$defs"]["D"]["required"] == ["z"]
    assert found["$defs"]["D"]["additionalProperties"] is False


@pytest.mark.requirement("CHAT-2")
def test_objects_under_all_of_or_beside_a_union_can_still_be_met_when_closed() -> None:
    joined = {"allOf": [{"type": "object", "properties": {"a": TEXT}}, {"properties": {"b": TEXT}, "required": ["b"]}]}
    beside = {"type": "object", "properties": {"a": TEXT}, "anyOf": [{"properties": {"b": TEXT}}, {"required": ["a"]}]}
    for schema, value in ((joined, {"b": "2"}), (beside, {"a": "1"}), (beside, {"a": "1", "b": "2"})):
        closed = changed(schema, To.CLOSED_OBJECTS)
        assert accepts(closed, value)
        assert not accepts(closed, {"a": "1", "b": "2", "c": "3"})


@pytest.mark.requirement("CHAT-2")
def test_validation_is_told_in_the_description_instead() -> None:
    schema = {"type": "integer", "description": "A day.", "minimum": 1, "maximum": 31, "$comment": "no", "not": {}}
    assert changed(schema, To.NO_VALIDATION_KEYWORDS) == {
        "type": "integer",
        "description": "A day. (minimum: 1, maximum: 31)",
    }
    assert changed({"items": {"type": "string", "pattern": "^a"}}, To.NO_VALIDATION_KEYWORDS) == {
        "items": {"type": "string", "description": '(pattern: "^a")'}
    }


@pytest.mark.requirement("CHAT-2", "CHAT-3")
@pytest.mark.parametrize("to", [To.INLINE_REFS, To.NO_TOP_LEVEL_UNION, To.NO_VALIDATION_KEYWORDS])
def test_a_discriminator_does_not_outlive_what_it_leads_to(to: To) -> None:
    kinds = {name: {"type": "object", "properties": {"kind": {"const": name}}} for name in ("A", "B")}
    mapping = {name: f"#/$defs/{name}" for name in kinds}
    schema = {"discriminator": {"propertyName": "kind", "mapping": mapping}, "$defs": kinds}
    schema["oneOf"] = [{"$ref": reference} for reference in mapping.values()]
    found = changed(schema, to)
    assert "discriminator" not in found
    assert ("anyOf" in found, "oneOf" in found) == (to is To.NO_VALIDATION_KEYWORDS, to is To.INLINE_REFS)


@pytest.mark.requirement("CHAT-2")
@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": ["string", "null"], "enum": ["a", None]}, {"type": "string", "enum": ["a"], "nullable": True}),
        ({"anyOf": [TEXT, {"type": "null"}], "title": "T"}, {"type": "string", "title": "T", "nullable": True}),
        ({"type": ["null"]}, {"type": "null", "nullable": True}),
        ({"description": "A", "const": "a"}, {"description": "A", "enum": ["a"]}),
        (
            {"type": ["string", "integer", "null"], "minimum": 1, "maxLength": 3},
            {"nullable": True, "anyOf": [{"type": "string", "maxLength": 3}, {"type": "integer", "minimum": 1}]},
        ),
    ],
)
def test_type_arrays_become_nullable_or_a_union(schema: Any, expected: Any) -> None:
    assert changed(schema, To.NO_TYPE_ARRAYS) == expected
    for value in (None, "a", "long", 1, 0):
        assert accepts(expected, value) == accepts(schema, value)


@pytest.mark.requirement("REG-24")
def test_a_dialect_without_additional_properties_is_told_nothing_of_free_keys() -> None:
    schema = {
        "type": "object",
        "properties": {
            "additionalProperties": {"type": "object", "additionalProperties": {"type": "string"}},
            "list": {"type": "array", "items": {"type": "object", "additionalProperties": False}},
        },
        "additionalProperties": False,
    }
    assert changed(schema, To.NO_ADDITIONAL_PROPERTIES) == {
        "type": "object",
        "properties": {
            "additionalProperties": {"type": "object"},
            "list": {"type": "array", "items": {"type": "object"}},
        },
    }
    text = json.dumps(schema)
    told = frozenset({To.NO_ADDITIONAL_PROPERTIES, To.CLOSED_OBJECTS})
    assert strict_form(text, told) == (adapted(text, frozenset({To.NO_ADDITIONAL_PROPERTIES})), False)
    assert for_tools(told) == {To.NO_ADDITIONAL_PROPERTIES}


PLAIN: st.SearchStrategy[Any] = st.sampled_from(
    [
        *({"type": kind} for kind in ("string", "integer", "boolean", "null")),
        *({"type": ["string", "null"]}, {"type": ["integer", "string"], "minimum": 2}, {"enum": ["a", 1]}),
        *({"type": "string", "minLength": 2}, {"const": "a"}, {}),
    ]
)
SCALARS = PLAIN | st.just({"$ref": "#/$defs/D"})


def objects(below: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Objects, arrays and unions of what is below."""
    names = st.sampled_from("abc")
    properties = st.dictionaries(names, below, max_size=3)
    plain = st.builds(
        lambda props, required, closed: {
            "type": "object",
            "properties": props,
            "required": required,
            **({"additionalProperties": False} if closed else {}),
        },
        properties,
        st.lists(names, unique=True, max_size=2),
        st.booleans(),
    )
    unions = st.builds(lambda key, of: {key: of}, st.sampled_from(["anyOf", "allOf"]), st.lists(below, min_size=1))
    return st.one_of(plain, st.builds(lambda of: {"type": "array", "items": of}, below), unions)


SCHEMAS = st.builds(
    lambda schema, definition: {**schema, "$defs": {"D": definition}},
    st.recursive(SCALARS, objects, max_leaves=8),
    st.recursive(PLAIN, objects, max_leaves=4),
)
VALUES = st.recursive(
    st.sampled_from([None, "a", "ab", 1, 3, True]),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.sampled_from("abcd"), below, max_size=3),
    max_leaves=6,
)
# Dropped validation and merged unions are told losses, and so is null for what is absent.
FAITHFUL = st.frozensets(st.sampled_from([To.INLINE_REFS, To.NO_TYPE_ARRAYS, To.CLOSED_OBJECTS]))


@pytest.mark.requirement("CHAT-2")
@settings(max_examples=300)
@given(schema=SCHEMAS, values=st.lists(VALUES, min_size=1, max_size=8), adaptations=FAITHFUL)
def test_what_conforms_to_the_adapted_schema_conforms_to_the_original(
    schema: Any, values: list[Any], adaptations: frozenset[To]
) -> None:
    found = changed(schema, *adaptations)
    for value in values:
        if accepts(found, value):
            assert accepts(schema, value)
        elif To.CLOSED_OBJECTS not in adaptations:
            assert not accepts(schema, value)


@pytest.mark.requirement("CHAT-5", "CHAT-2")
@settings(max_examples=300)
@given(
    schema=SCHEMAS,
    values=st.lists(VALUES, min_size=1, max_size=8),
    lossy=st.sampled_from([{To.ALL_REQUIRED, To.CLOSED_OBJECTS}, {To.CLOSED_OBJECTS}, {To.ALL_REQUIRED}]),
)
def test_what_conforms_to_a_strict_form_conforms_to_the_original(
    schema: Any, values: list[Any], lossy: set[To]
) -> None:
    text, strict = strict_form(json.dumps(schema), frozenset({*lossy, To.INLINE_REFS}))
    if strict:
        assert all(accepts(schema, value) for value in values if accepts(json.loads(text), value))


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(["object", "#", "#/$defs/a"]),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("type", "properties", "required", "anyOf", "allOf", "oneOf", "items", "$ref", "$defs", "enum"),
                    *("const", "additionalProperties", "description", "not", "patternProperties", "a"),
                ]
            ),
            below,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@pytest.mark.requirement("CHAT-4", "CHAT-1")
@settings(max_examples=400)
@given(schema=JUNK, adaptations=st.frozensets(st.sampled_from(To)))
def test_no_schema_makes_an_adaptation_fail(schema: Any, adaptations: frozenset[To]) -> None:
    text = json.dumps(schema)
    found = adapted(text, adaptations)
    json.loads(found)
    assert adapted(text, adaptations) == found
    if not isinstance(schema, dict):
        assert found == text
    strict_form(text, adaptations)


@pytest.mark.requirement("CHAT-4")
@pytest.mark.parametrize(
    "text",
    [
        "no json",
        '{"a":' * 5000,
        '{"not":' * 150 + "{}" + "}" * 150,
        '{"$ref":"https://x.example/s.json"}',
        '{"$ref":"#/$defs/none"}',
        '{"anyOf":[{"type":"string"}],"type":"string"}',
    ],
)
def test_what_cannot_be_adapted_stays_as_it_is(text: str) -> None:
    assert adapted(text, frozenset({To.INLINE_REFS, To.NO_TOP_LEVEL_UNION, To.CLOSED_OBJECTS})) == text


@pytest.mark.requirement("CHAT-4")
def test_a_union_of_itself_is_no_endless_loop() -> None:
    text = '{"anyOf":[{"$ref":"#"}]}'
    assert adapted(text, frozenset({To.NO_TOP_LEVEL_UNION})) == text


@pytest.mark.requirement("CHAT-3", "CHAT-4")
def test_a_schema_too_large_to_keep_is_adapted_all_the_same() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"description": "x" * 99000}},
    }
    assert changed(schema, To.INLINE_REFS)["properties"]["a"] == schema["$defs"]["A"]  # type: ignore[index]


@pytest.mark.requirement("CHAT-5")
def test_a_strict_form_is_given_only_where_it_says_the_same() -> None:
    exact = {"type": "object", "properties": {"a": TEXT, "b": {"type": ["string", "null"]}}, "required": ["a"]}
    optional = {"type": "object", "properties": {"a": TEXT}}
    free = {"type": "object", "additionalProperties": TEXT}
    text, strict = strict_form(json.dumps(exact), STRICT)
    assert (strict, json.loads(text)["required"]) == (True, ["a", "b"])
    for schema in (optional, free, {"items": optional}):
        text, strict = strict_form(json.dumps(schema), STRICT)
        assert (strict, json.loads(text)) == (False, schema)
    assert strict_form(json.dumps(optional), frozenset({To.INLINE_REFS})) == (json.dumps(optional), True)


@pytest.mark.requirement("CHAT-5")
def test_what_is_optional_is_no_loss_where_it_may_stay_optional() -> None:
    closed = frozenset({To.CLOSED_OBJECTS})
    optional = {"type": "object", "properties": {"a": TEXT}}
    text, strict = strict_form(json.dumps(optional), closed)
    assert (strict, json.loads(text)) == (True, {**optional, "additionalProperties": False})
    patterns = {"type": "object", "patternProperties": {"^x": TEXT}, "additionalProperties": False}
    for schema in (patterns, {"type": "object", "additionalProperties": TEXT}, {"type": "object", "required": ["b"]}):
        assert strict_form(json.dumps(schema), closed) == (json.dumps(schema), False)
    free = {"type": "object", "additionalProperties": TEXT}
    assert strict_form(json.dumps(free), frozenset({To.ALL_REQUIRED}))[1]


@pytest.mark.requirement("CHAT-5")
def test_a_schema_with_more_optional_properties_or_unions_than_a_server_takes_is_no_strict_one() -> None:
    closed = frozenset({To.CLOSED_OBJECTS})
    below = {
        "type": "object",
        "properties": {"b": {"type": ["string", "null"]}, "c": {"anyOf": [TEXT, {"type": "integer"}]}},
    }
    schema = {"type": "object", "properties": {"a": below}, "required": ["a"]}
    text = json.dumps(schema)
    assert strict_form(text, closed, most_optional=2, most_unions=2)[1]
    assert strict_form(text, closed, most_optional=1) == (text, False)
    assert strict_form(text, closed, most_unions=1) == (text, False)


@pytest.mark.requirement("CHAT-5")
def test_tools_keep_their_optional_arguments_and_their_maps() -> None:
    assert for_tools(STRICT | {To.INLINE_REFS}) == {To.NO_VALIDATION_KEYWORDS, To.INLINE_REFS}
