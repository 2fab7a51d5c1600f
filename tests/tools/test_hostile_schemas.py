"""Schemas that callers and servers send: whatever they lead to, a look at a value takes bounded time."""

from __future__ import annotations

import json
import time
from typing import Any

import jsonschema_rs
import pytest
from execution.served import served, turn
from hypothesis import given
from hypothesis import strategies as st

from turnwire.v1 import message_pb2, policy_pb2
from turnwired.testing.provider import answer, calls
from turnwired.tools.output import compile_output
from turnwired.tools.repair import repair
from turnwired.tools.schema import MOST_WORK, CompiledSchema, compile_schema, validator_of
from turnwired.tools.schema_work import Work

LEVELS = 40
"""Of a schema that doubles its work with each: no machine gets to the end."""
SOON = 3.0
Schema = dict[str, Any]


def doubling(kind: str, reference: str = "#/$defs/d{}", **more: Schema) -> Schema:
    """Each definition leads twice to the next one."""
    defs: Schema = {
        f"d{level}": {"$id": f"d{level}", kind: [{"$ref": reference.format(level + 1)}] * 2}
        if reference == "d{}"
        else {"$anchor": f"d{level}", kind: [{"$ref": reference.format(level + 1)}] * 2}
        for level in range(LEVELS)
    }
    last: Schema = {"type": "string"}
    defs[f"d{LEVELS}"] = {**last, "$id": f"d{LEVELS}"} if reference == "d{}" else {**last, "$anchor": f"d{LEVELS}"}
    return {"type": "object", "$defs": defs, "properties": {"a": {"$ref": reference.format(0)}}, **more}


def recurring(kind: str) -> Schema:
    """A definition that leads to itself twice, one level of the value further down."""
    node: Schema = {"properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["z"]}
    return {"type": "object", "$defs": {"n": {kind: [node, node]}}, "properties": {"a": {"$ref": "#/$defs/n"}}}


def nested(levels: int, leaf: object = 1) -> Schema:
    """A value of so many levels."""
    value: object = leaf
    for _ in range(levels):
        value = {"a": value}
    return {"a": value}


def dynamic() -> Schema:
    """The same through a dynamic reference."""
    node: Schema = {"properties": {"a": {"$dynamicRef": "#n"}}, "required": ["z"]}
    return {
        "type": "object",
        "$defs": {"n": {"$dynamicAnchor": "n", "anyOf": [node, node]}},
        "properties": {"a": {"$ref": "#n"}},
    }


def beside() -> Schema:
    """Members that no neighbour speaks of, at each level."""
    defs: Schema = {"d20": {"type": "string"}}
    for level in range(20):
        below = {"$ref": f"#/$defs/d{level + 1}"}
        defs[f"d{level}"] = {"allOf": [below], "properties": {"a": below}, "unevaluatedProperties": below}
    return {"type": "object", "$defs": defs, "properties": {"a": {"$ref": "#/$defs/d0"}}}


HOSTILE: dict[str, tuple[Schema, Schema]] = {
    "any of": (doubling("anyOf"), {"a": 1}),
    "one of": (doubling("oneOf"), {"a": "x"}),
    "all of": (doubling("allOf"), {"a": "x"}),
    "by anchors": (doubling("anyOf", "#d{}"), {"a": 1}),
    "by names": (doubling("anyOf", "d{}"), {"a": 1}),
    "recurring any of": (recurring("anyOf"), nested(60)),
    "recurring one of": (recurring("oneOf"), nested(60)),
    "dynamic": (dynamic(), nested(60)),
    "unevaluated": (beside(), nested(12)),
    "of items": (
        {"properties": {"a": {"items": doubling("anyOf")["properties"]["a"]}}, **doubling("anyOf")},
        {"a": [1]},
    ),
    "of names": ({**doubling("allOf"), "propertyNames": {"$ref": "#/$defs/d0"}}, {"b": 1}),
    "if": ({**doubling("allOf"), "if": {"$ref": "#/$defs/d0"}}, {"a": "x"}),
    "many errors": (
        {"type": "object", "properties": {"a": {"items": {"properties": {"x": {"type": "string"}}}}}},
        {"a": [{"x": number} for number in range(100_000)]},
    ),
}


@pytest.mark.requirement("HOSTILE-13")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_look_at_arguments_takes_bounded_time_whatever_their_schema_leads_to(name: str) -> None:
    schema, value = HOSTILE[name]
    before = time.monotonic()
    compiled = compile_schema(json.dumps(schema))
    assert isinstance(compiled, CompiledSchema)
    sentences = compiled.violations(value)
    repaired = repair(value, compiled.validator)
    took = time.monotonic() - before
    assert len(sentences) == 1
    assert "too large" in sentences[0]
    assert repaired is None
    assert took < SOON


@pytest.mark.requirement("HOSTILE-13")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_look_at_an_answer_takes_bounded_time_whatever_its_schema_leads_to(name: str) -> None:
    schema, value = HOSTILE[name]
    before = time.monotonic()
    check = compile_output(json.dumps(schema))
    assert not isinstance(check, str)
    checked = check(json.dumps(value))
    took = time.monotonic() - before
    assert checked.json is None
    assert "too large" in checked.problems[0].words
    assert took < SOON


@pytest.mark.requirement("HOSTILE-13")
@pytest.mark.parametrize("kind", ["allOf", "anyOf", "oneOf"])
def test_a_schema_is_offered_in_bounded_time_or_left_out(kind: str) -> None:
    defs: Schema = {f"d{level}": {kind: [{"$ref": f"#/$defs/d{level + 1}"}] * 30} for level in range(3)}
    defs["d3"] = {"type": "object", "properties": {"x": {"type": "string"}}}
    before = time.monotonic()
    problem = compile_schema(json.dumps({"type": "object", "$defs": defs, kind: [{"$ref": "#/$defs/d0"}]}))
    took = time.monotonic() - before
    assert isinstance(problem, str)
    assert "branches" in problem
    assert took < SOON


LEAVES = st.sampled_from([{"type": "string"}, {"type": "integer"}, {"const": 1}, {"$ref": "#/$defs/n"}, {}])
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda kind, many: {kind: many}, st.sampled_from(["allOf", "anyOf"]), st.lists(inner, min_size=1)),
        st.builds(lambda kind, one: {kind: one}, st.sampled_from(["not", "items", "additionalProperties"]), inner),
        st.builds(lambda one: {"properties": {"a": one}}, inner),
    ),
    max_leaves=6,
)
VALUES = st.recursive(
    st.sampled_from([1, "x", None]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


@pytest.mark.requirement("HOSTILE-13")
@given(SCHEMAS, VALUES)
def test_small_values_are_judged_as_the_validator_judges_them(schema: Schema, value: object) -> None:
    whole: Schema = {"properties": {"a": schema}, "$defs": {"n": {"properties": {"b": {"type": "integer"}}}}}
    found = validator_of(whole).is_valid({"a": value})
    assert found is jsonschema_rs.validator_for(whole).is_valid({"a": value})
    Work(whole).require({"a": value}, MOST_WORK)


@pytest.mark.anyio
@pytest.mark.requirement("HOSTILE-13")
@pytest.mark.parametrize("validation", ["STRICT", "LENIENT"])
async def test_a_run_whose_tool_no_machine_could_check_goes_on_and_so_do_others(validation: str) -> None:
    request = turn("Hello")
    schema = json.dumps(doubling("anyOf"))
    request.turn.tools.client_tools.add(name="hostile", description="Any.", input_schema_json=schema)
    mode = policy_pb2.ArgumentValidation.Value(f"ARGUMENT_VALIDATION_{validation}")
    request.turn.policy.tool.argument_validation = mode
    async with served([calls(("hostile", '{"a":1}')), answer("Well."), answer("And I.")]) as s:
        _, task = s.follow(request)
        seen = await task
        other = await s.run()
    (result,) = seen.results
    assert result.status == message_pb2.TOOL_RESULT_STATUS_ERROR
    assert "too large" in result.failure.message
    assert seen.finished.message.parts[0].text == "Well."
    assert other.finished.message.parts[0].text == "And I."
