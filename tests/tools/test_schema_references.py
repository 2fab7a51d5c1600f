"""What models are shown of schemas that refer in ways which providers do not know; arguments are held to the whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tools.kit import FakeToolset, described, view_of

from turnwired.domain.failure import Reason
from turnwired.domain.policy import ArgumentValidation
from turnwired.providers.profiles import SchemaAdaptation
from turnwired.providers.schema_adaptation import adapted
from turnwired.tools.port import ToolView
from turnwired.tools.registry import Source

pytestmark = pytest.mark.anyio

WORD: dict[str, Any] = {"type": "string", "maxLength": 3}


def using(reference: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A schema whose property ``a`` refers."""
    return {"type": "object", "properties": {"a": reference}, **more}


async def view(schema: dict[str, Any]) -> ToolView:
    """A view over one tool."""
    return await view_of(Source(FakeToolset("s", [described("act", json.dumps(schema))])))


SCHEMAS = {
    "anchor": using({"$ref": "#w"}, **{"$defs": {"W": {"$anchor": "w", **WORD}}}),
    "dynamic anchor": using({"$dynamicRef": "#w"}, **{"$defs": {"W": {"$dynamicAnchor": "w", **WORD}}}),
    "id of a part": using({"$ref": "http://e.test/w"}, **{"$defs": {"W": {"$id": "http://e.test/w", **WORD}}}),
    "own id": using({"$ref": "all.json#/$defs/W"}, **{"$id": "http://e.test/all.json", "$defs": {"W": WORD}}),
    "inside a part": using(
        {"$ref": "part"},
        **{
            "$id": "http://e.test/",
            "$defs": {"P": {"$id": "part", "$ref": "#/$defs/a~1b", "$defs": {"a/b": WORD}}},
        },
    ),
    "draft 7": using(
        {"$ref": "#w"},
        **{"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"W": {"$id": "#w", **WORD}}},
    ),
}


@pytest.mark.requirement("REG-23")
@pytest.mark.parametrize("name", SCHEMAS)
async def test_a_reference_of_any_kind_is_shown_as_a_pointer_that_every_provider_can_be_given(name: str) -> None:
    made = await view(SCHEMAS[name])
    shown = made.tools[0].input_schema_json
    assert json.loads(shown)["properties"]["a"]["$ref"].startswith("#/")
    inlined = json.loads(adapted(shown, frozenset({SchemaAdaptation.INLINE_REFS})))
    assert inlined["properties"]["a"]["maxLength"] == 3
    assert "$ref" not in json.dumps(inlined)
    assert made.check("act", '{"a":"abc"}', ArgumentValidation.STRICT).failure is None
    assert made.check("act", '{"a":"abcd"}', ArgumentValidation.STRICT).failure is not None


@pytest.mark.requirement("REG-23")
async def test_a_reference_to_a_meta_schema_is_shown_as_any_value_and_still_checked() -> None:
    made = await view(using({"$ref": "https://json-schema.org/draft/2020-12/schema"}))
    (tool,) = made.tools
    assert json.loads(tool.input_schema_json)["properties"]["a"] == {
        "description": "Any value of the form of https://json-schema.org/draft/2020-12/schema."
    }
    assert made.check("act", '{"a":{"type":"string"}}', ArgumentValidation.STRICT).failure is None
    assert made.check("act", '{"a":{"type":1}}', ArgumentValidation.STRICT).failure is not None


@pytest.mark.requirement("REG-23")
@pytest.mark.parametrize(
    "schema",
    [
        using({"$ref": "#/$defs/W"}, **{"$defs": {"W": WORD}}),
        using({"$ref": "#"}),
        {"type": "object", "properties": {"$ref": {"type": "string"}, "$id": {"const": "#x"}}},
        using({"enum": [{"$ref": "elsewhere"}], "default": {"$ref": "x"}}),
    ],
)
async def test_what_refers_by_pointers_or_not_at_all_is_shown_word_for_word(schema: dict[str, Any]) -> None:
    text = json.dumps(schema, indent=1)
    made = await view_of(Source(FakeToolset("s", [described("act", text)])))
    assert made.tools[0].input_schema_json == text


@pytest.mark.requirement("REG-23")
async def test_a_schema_deeper_than_any_adaptation_goes_is_left_out_alone() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(60):
        schema = {"type": "object", "properties": {"a": schema}}
    tools = [described("deep", json.dumps(schema)), described("plain")]
    made = await view_of(Source(FakeToolset("s", tools)))
    assert [tool.ref.routed_name for tool in made.tools] == ["plain"]
    (failure,) = made.failures
    assert failure.reason is Reason.TOOL_QUARANTINED
    assert "deeper than 100 levels" in failure.message
