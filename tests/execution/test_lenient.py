"""Lenient validation: what is repaired, what is not, and who is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from execution.served import served, words
from hypothesis import given
from hypothesis import strategies as st

from turnwire.v1 import message_pb2, outcome_pb2
from turnwired.domain.policy import ArgumentValidation, Policy, ToolPolicy
from turnwired.testing.provider import answer, calls
from turnwired.tools.repair import repair
from turnwired.tools.schema import validator_of

pytestmark = pytest.mark.anyio

LENIENT = Policy(tool=ToolPolicy(argument_validation=ArgumentValidation.LENIENT))
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "name": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "ids": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
        "where": {"$ref": "#/$defs/where"},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "either": {"type": ["integer", "boolean"]},
    },
    "required": ["name"],
    "$defs": {"where": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}},
}
VALIDATOR = validator_of(SCHEMA)


@pytest.mark.requirement("TOOLX-1")
@pytest.mark.parametrize(
    ("given_", "made", "says"),
    [
        ({"count": "5"}, {"count": 5}, "/count: text became an integer"),
        ({"count": " -12 "}, {"count": -12}, "/count: text became an integer"),
        ({"count": "5.0"}, {"count": 5}, "/count: text became an integer"),
        ({"ratio": "1e3"}, {"ratio": 1000.0}, "/ratio: text became a number"),
        ({"flag": "true"}, {"flag": True}, "/flag: text became a boolean"),
        ({"flag": "False"}, {"flag": False}, "/flag: text became a boolean"),
        ({"name": 7}, {"name": "7"}, "/name: a number became a string"),
        ({"tags": "a"}, {"tags": ["a"]}, "/tags: text became a list"),
        ({"tags": '["a","b"]'}, {"tags": ["a", "b"]}, "/tags: text became a list"),
        ({"ids": "5"}, {"ids": [5]}, "/ids/0: text became an integer"),
        ({"ids": 5}, {"ids": [5]}, "/ids: a number became a list"),
        ({"where": '{"x": "4"}'}, {"where": {"x": 4}}, "/where/x: text became an integer"),
        ({"where": {"x": "4"}}, {"where": {"x": 4}}, "/where/x: text became an integer"),
        ({"maybe": "7"}, {"maybe": 7}, "/maybe: text became an integer"),
        ({"maybe": "null"}, {"maybe": None}, "/maybe: text became null"),
        ({"either": "true"}, {"either": True}, "/either: text became a boolean"),
        ({"count": None}, {}, "/count: null was left out"),
        ({"tags": None, "flag": "true"}, {"flag": True}, "/tags: null was left out"),
    ],
)
def test_a_simple_type_error_is_repaired_and_said(
    given_: dict[str, object], made: dict[str, object], says: str
) -> None:
    before = json.dumps({"name": "n", **given_})
    arguments: dict[str, object] = json.loads(before)
    done = repair(arguments, VALIDATOR)
    assert done is not None
    assert done.arguments == {"name": "n", **made}
    assert says in done.repairs
    assert json.dumps(arguments) == before, "the model's own arguments were changed"


@pytest.mark.requirement("TOOLX-2")
@pytest.mark.parametrize(
    "given_",
    [
        {"name": None},
        {},
        {"name": True},
        {"name": "n", "count": "five"},
        {"name": "n", "count": "5.5"},
        {"name": "n", "count": 5.5},
        {"name": "n", "count": True},
        {"name": "n", "flag": 1},
        {"name": "n", "flag": "yes"},
        {"name": "n", "where": "[1]"},
        {"name": "n", "where": "{broken"},
        {"name": "n", "ratio": "NaN"},
        {"name": "n", "ratio": "1e999"},
        {"name": "n", "ids": "[1,2,3,4]"},
        {"name": "n", "count": "5", "where": {}},
    ],
)
def test_what_has_no_plain_reading_or_stays_invalid_is_not_repaired(given_: dict[str, object]) -> None:
    assert repair(given_, VALIDATOR) is None


_VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(["5", "true", "null", "[]", "{}", '{"x":1}', "x", "", " 7 ", "1e5"]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "y"]), inner, max_size=2),
    max_leaves=5,
)  # fmt: skip


@pytest.mark.requirement("TOOLX-1", "TOOLX-2")
@given(arguments=st.dictionaries(st.sampled_from([*SCHEMA["properties"], "other"]), _VALUES))
def test_whatever_is_repaired_is_valid_and_what_was_valid_is_left_alone(arguments: dict[str, object]) -> None:
    before = json.dumps(arguments)
    done = repair(arguments, VALIDATOR)
    assert json.dumps(arguments) == before
    if VALIDATOR.is_valid(arguments):
        assert done is None
    elif done is not None:
        assert VALIDATOR.is_valid(done.arguments)
        assert done.repairs


def order(amount: int, tags: list[str] | None = None) -> str:
    """Order so many."""
    return f"{type(amount).__name__} {amount} {tags}"


@pytest.mark.requirement("TOOLX-3")
async def test_the_run_says_what_it_repaired_and_keeps_the_models_own_words() -> None:
    wrong = '{"amount": "4711", "tags": "blue"}'
    async with served([calls(("order", wrong)), answer("Done.")], order, policy=LENIENT) as s:
        seen = await s.run()
    (result,) = seen.results
    assert result.status == message_pb2.TOOL_RESULT_STATUS_OK
    told = words(result)
    assert told.startswith("int 4711 ['blue']")
    assert "[The arguments did not match the schema and were repaired: " in told
    assert "/amount: text became an integer" in told
    (notice,) = seen.notices
    assert notice.reason == outcome_pb2.REASON_TOOL_ARGUMENTS_REPAIRED
    assert notice.metadata["tool"] == "order"
    assert notice.metadata["call_id"] == result.call_id
    assert "4711" not in notice.message and "blue" not in notice.message
    (arguments,) = [e.tool_call_arguments_finished for e in seen.events if e.HasField("tool_call_arguments_finished")]
    assert arguments.arguments_json == wrong
    sent = json.dumps(s.provider.messages(1))
    assert "/amount: text became an integer" in sent, "the model is told"
    assert seen.finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED


@pytest.mark.requirement("TOOLX-3", "TOOLX-1")
async def test_arguments_that_are_json_within_a_string_are_taken_out_of_it() -> None:
    wrong = json.dumps('{"amount": 3}')
    async with served([calls(("order", wrong)), answer("Done.")], order, policy=LENIENT) as s:
        seen = await s.run()
    assert words(seen.results[0]).startswith("int 3 None")
    assert "the arguments as a whole: text became an object" in seen.notices[0].message


@pytest.mark.requirement("TOOLX-2")
async def test_arguments_beyond_repair_fail_in_the_words_of_strict_validation() -> None:
    script = [calls(("order", '{"amount": "many", "tags": "blue"}')), answer("Done.")]
    told: list[str] = []
    for validation in (ArgumentValidation.LENIENT, ArgumentValidation.STRICT):
        policy = Policy(tool=ToolPolicy(argument_validation=validation))
        async with served(script, order, policy=policy) as s:
            seen = await s.run()
        (result,) = seen.results
        assert result.failure.reason == outcome_pb2.REASON_TOOL_ARGUMENTS_INVALID
        assert not seen.notices
        told.append(words(result))
    assert told[0] == told[1]
    assert "many" not in told[0]
