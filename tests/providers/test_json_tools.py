"""The schema and the texts of the JSON tool-calling mode."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from turnwired.domain.message import Part, Role, Text, ToolCall, ToolResult, ToolResultStatus
from turnwired.domain.tool import Tool, ToolChoice, ToolChoiceMode, ToolRef, ToolSource
from turnwired.providers import json_tools
from turnwired.providers.json_tools import ToolExample, tool_call_schema


def tool(name: str, schema: dict[str, Any] | None = None, description: str = "Does it") -> Tool:
    ref = ToolRef(routed_name=f"srv__{name}", native_name=name, source=ToolSource.MCP, server_id="srv")
    return Tool(ref=ref, description=description, input_schema_json="" if schema is None else json.dumps(schema))


NOW = tool("now", {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]})
TREE = tool(
    "tree",
    {
        "type": "object",
        "title": "treeArguments",
        "properties": {
            "root": {"$ref": "#/$defs/Node"},
            "title": {"type": "string", "title": "Title"},
            "kind": {"const": {"title": "kept"}},
        },
        "required": ["root"],
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
            }
        },
    },
)


def is_valid(schema: dict[str, Any], turn: object) -> bool:
    return jsonschema_rs.validator_for(schema).is_valid(turn)


@pytest.mark.requirement("JSONTOOLS-1")
def test_a_turn_is_one_call_of_an_offered_tool_or_one_answer() -> None:
    schema = tool_call_schema([NOW, TREE])
    assert is_valid(schema, {"tool": "srv__now", "arguments": {"zone": "Asia/Tokyo"}})
    assert is_valid(schema, {"tool": "none", "answer": "Hello."})
    assert not is_valid(schema, {"tool": "srv__now", "arguments": {}})
    assert not is_valid(schema, {"tool": "srv__now", "arguments": {"zone": "UTC", "more": 1}})
    assert not is_valid(schema, {"tool": "srv__tree", "arguments": {"zone": "UTC"}})
    assert not is_valid(schema, {"tool": "other", "arguments": {}})
    assert not is_valid(schema, {"tool": "srv__now", "answer": "Hello."})


@pytest.mark.requirement("JSONTOOLS-2")
def test_references_of_a_tool_still_lead_to_its_own_definitions() -> None:
    schema = tool_call_schema([NOW, TREE])
    nested: dict[str, object] = {"children": [{"children": []}]}
    assert is_valid(schema, {"tool": "srv__tree", "arguments": {"root": nested}})
    assert not is_valid(schema, {"tool": "srv__tree", "arguments": {"root": {"children": [{"children": 1}]}}})


@pytest.mark.requirement("JSONTOOLS-2")
def test_titles_go_and_a_property_called_title_stays() -> None:
    adapted = tool_call_schema([TREE])["$defs"]["srv__tree"]
    assert "title" not in adapted
    assert adapted["properties"]["title"] == {"type": "string"}
    assert adapted["properties"]["kind"] == {"const": {"title": "kept"}}


@pytest.mark.requirement("JSONTOOLS-2")
def test_an_object_that_its_author_left_open_on_purpose_stays_open() -> None:
    free = tool("free", {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "integer"}})
    schema = tool_call_schema([free])
    assert is_valid(schema, {"tool": "srv__free", "arguments": {"a": "x", "b": 1}})
    assert not is_valid(schema, {"tool": "srv__free", "arguments": {"b": "x"}})


@pytest.mark.requirement("JSONTOOLS-3")
def test_the_choice_narrows_what_can_be_written() -> None:
    answer, call = {"tool": "none", "answer": "x"}, {"tool": "srv__now", "arguments": {"zone": "UTC"}}
    other = {"tool": "srv__tree", "arguments": {"root": {}}}
    valid = {
        name: [is_valid(tool_call_schema([NOW, TREE], choice), turn) for turn in (answer, call, other)]
        for name, choice in {
            "auto": ToolChoice(ToolChoiceMode.AUTO),
            "none": ToolChoice(ToolChoiceMode.NONE),
            "required": ToolChoice(ToolChoiceMode.REQUIRED),
            "named": ToolChoice(routed_name="srv__now"),
        }.items()
    }
    assert valid == {
        "auto": [True, True, True],
        "none": [True, False, False],
        "required": [False, True, True],
        "named": [False, True, False],
    }


@pytest.mark.requirement("JSONTOOLS-3")
@pytest.mark.parametrize(
    ("tools", "choice"),
    [
        ([], ToolChoice(ToolChoiceMode.REQUIRED)),
        ([NOW], ToolChoice(routed_name="missing")),
        ([Tool(ToolRef("none", "none", ToolSource.LOCAL), "", "{}")], ToolChoice()),
    ],
)
def test_a_choice_that_cannot_be_obeyed_is_refused(tools: list[Tool], choice: ToolChoice) -> None:
    with pytest.raises(ValueError, match=r"tool"):
        tool_call_schema(tools, choice)


@pytest.mark.requirement("JSONTOOLS-1")
def test_without_tools_only_an_answer_can_be_written() -> None:
    assert json_tools.system_instructions([]) == ""
    assert is_valid(tool_call_schema([]), {"tool": "none", "answer": "x"})
    assert not is_valid(tool_call_schema([]), {"tool": "srv__now", "arguments": {}})


@pytest.mark.requirement("JSONTOOLS-1")
def test_the_instructions_name_each_tool_its_arguments_and_the_way_to_answer() -> None:
    assert json_tools.system_instructions([NOW, tool("ping", description="Say\n  pong!")]).splitlines() == [
        "Tools:",
        "srv__now(zone): Does it.",
        "srv__ping(): Say pong!",
        "none(answer): Reply to the user without a tool.",
    ]


@pytest.mark.requirement("JSONTOOLS-1")
def test_examples_become_a_conversation_about_offered_tools_only() -> None:
    examples = [
        ToolExample("Time?", tool="now", arguments={"zone": "UTC"}, result="12:00", answer="Noon."),
        ToolExample("Weather?", tool="weather", arguments={}),
        ToolExample("Hi.", answer="Hello."),
    ]
    messages = json_tools.example_messages(examples, [NOW])
    assert [(message.role, message.parts[0].content) for message in messages] == [
        (Role.USER, Text("Time?")),
        (Role.ASSISTANT, ToolCall("example", NOW.ref, '{"zone": "UTC"}')),
        (Role.TOOL, ToolResult("example", ToolResultStatus.OK, (Part("example", Text("12:00")),))),
        (Role.ASSISTANT, Text("Noon.")),
        (Role.USER, Text("Hi.")),
        (Role.ASSISTANT, Text("Hello.")),
    ]


@pytest.mark.requirement("JSONTOOLS-1")
def test_what_history_shows_of_calls_and_answers_obeys_the_schema() -> None:
    schema = tool_call_schema([NOW])
    assert is_valid(schema, json.loads(json_tools.call_text("srv__now", '{"zone": "UTC"}')))
    assert is_valid(schema, json.loads(json_tools.answer_text('"Hello",\n\N{SNOWMAN}')))
