"""Final answers held against the schema that a caller asked for."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwired.domain.model import CheckedOutput
from turnwired.tools.output import compile_output
from turnwired.tools.schema import MAX_SCHEMA_BYTES

ORDER = """{
  "type": "object",
  "properties": {
    "id": {"type": "integer"},
    "note": {"type": "string"},
    "gift": {"type": ["string", "null"]},
    "lines": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1},
      "hint": {"type": "string"}}, "required": ["n"], "additionalProperties": false}}
  },
  "required": ["id"],
  "additionalProperties": false
}"""


VALUES = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


def checked(text: str, schema: str = ORDER) -> CheckedOutput:
    check = compile_output(schema)
    assert not isinstance(check, str), check
    return check(text)


@pytest.mark.requirement("OUT-13")
@pytest.mark.parametrize(
    "text", ['{"id": 1}', '{ "id":12345678901234567890123 , "gift":null}', '{"id":1,"lines":[{"n":2}]}']
)
def test_a_value_that_matches_is_given_as_the_model_wrote_it(text: str) -> None:
    assert checked(text) == CheckedOutput(text)


@pytest.mark.requirement("OUT-13")
@pytest.mark.parametrize(("schema", "text"), [('{"type":"array"}', "[1]"), ('{"enum":["a"]}', '"a"'), ("{}", "null")])
def test_a_schema_may_ask_for_any_value(schema: str, text: str) -> None:
    assert checked(text, schema).json == text


@pytest.mark.requirement("OUT-14", "OUT-15")
def test_what_is_wrong_is_told_by_place_and_rule_and_never_by_value() -> None:
    result = checked('{"id": "topsecret", "lines": [{"n": 0}]}')
    assert result.json is None
    words = [problem.words for problem in result.problems]
    assert any(text.startswith("/id: ") for text in words)
    assert any(text.startswith("/lines/0/n: ") for text in words)
    assert {problem.rule for problem in result.problems} == {
        "properties/id/type",
        "properties/lines/items/properties/n/minimum",
    }
    assert "topsecret" not in str(result)


@pytest.mark.requirement("OUT-14")
@pytest.mark.parametrize("text", ["", "yes", '{"id":1', '{"id":NaN}', '{"id":1}{"id":2}', "[" * 100_000])
def test_text_that_is_not_one_json_value_is_told_as_such(text: str) -> None:
    (problem,) = checked(text).problems
    assert problem.words == "it is not one JSON value"


@pytest.mark.requirement("OUT-14")
def test_of_many_problems_a_few_are_told() -> None:
    result = checked(json.dumps({"id": 1, "lines": [{"n": 0}] * 1000}))
    assert len(result.problems) == 5


@pytest.mark.requirement("OUT-18")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"id":1,"note":null}', {"id": 1}),
        ('{"id":1,"gift":null,"note":null}', {"id": 1, "gift": None}),
        (
            '{"id":1,"lines":[{"n":1,"hint":null},{"n":2,"hint":"é"}]}',
            {"id": 1, "lines": [{"n": 1}, {"n": 2, "hint": "é"}]},
        ),
    ],
)
def test_a_null_for_what_may_be_left_out_is_left_out(text: str, value: object) -> None:
    result = checked(text)
    assert result.json is not None
    assert json.loads(result.json) == value


@pytest.mark.requirement("OUT-18")
@pytest.mark.parametrize("text", ['{"id":null}', '{"id":1,"lines":[null]}', '{"id":1,"note":null,"lines":3}', "null"])
def test_a_null_for_what_must_be_there_is_wrong(text: str) -> None:
    assert checked(text).json is None


@pytest.mark.requirement("OUT-12")
@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("[1]", "must be a JSON object"),
        ("{", "is not valid JSON"),
        ('{"type":"strin"}', "is not valid at /type: "),
        ('{"properties":{"city":{"type":"str"}}}', "is not valid at /properties/city/type: "),
        ('{"$ref":"https://example.com/s.json"}', "is not valid"),
        ('{"title":"' + "x" * MAX_SCHEMA_BYTES + '"}', "is longer than"),
    ],
)
def test_a_schema_that_cannot_be_used_is_told_in_words(schema: str, why: str) -> None:
    found = compile_output(schema)
    assert isinstance(found, str)
    assert found.startswith(why)


@pytest.mark.requirement("OUT-13")
@given(VALUES)
def test_any_value_is_taken_or_refused_without_an_error_and_what_is_taken_matches(value: object) -> None:
    result = checked(json.dumps(value))
    assert (result.json is None) == bool(result.problems)
    if result.json is not None:
        assert checked(result.json) == CheckedOutput(result.json)
