"""Tool calls for models without native ones: each assistant turn is one JSON object under a grammar. Pure.

The model writes either ``{"tool": NAME, "arguments": {...}}`` or ``{"tool": "none", "answer": TEXT}``. Both begin with
the same key on purpose: a small model picks a tool well by completing its name and badly by picking a key
(SmolLM2-135M made no call at all in 14 questions with the keys apart, 10 with them together). The wire sends the schema
as ``response_format: json_schema``, puts the texts below into its messages, and feeds what comes back to
``turnwired.providers.json_reader``. Knows no wire and does no I/O.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from turnwired.domain.message import Message, Part, Role, Text, ToolCall, ToolResult, ToolResultStatus
from turnwired.domain.tool import Tool, ToolChoice, ToolChoiceMode

NO_TOOL = "none"
_EXAMPLE = "example"


@dataclass(frozen=True, slots=True)
class ToolExample:
    """One solved request, shown to the model as if it had happened before.

    ``tool`` is a tool's native name ("" for a request that needs none), ``arguments`` what was passed to it. ``result``
    and ``answer`` may be empty: the example then ends with the call.
    """

    request: str
    tool: str = ""
    arguments: Mapping[str, object] | None = None
    result: str = ""
    answer: str = ""


def tool_call_schema(tools: Sequence[Tool], choice: ToolChoice | None = None, answer: str = "") -> dict[str, Any]:
    """Give the JSON Schema of an assistant turn: one branch per tool, and one for the final answer.

    ``answer``: the JSON Schema that the final answer must match, as JSON text; empty for a text.

    Each tool's schema stands below ``$defs`` under its routed name, its own references rewritten to there. The branches
    exclude each other, so ``anyOf`` says the same as ``oneOf``, and more runtimes can make a grammar of it. A choice of
    REQUIRED takes the answer away, NONE the tools, a name all but that tool: any runtime that obeys the schema obeys
    the choice. Raises ValueError when the choice names a tool that is not offered or leaves nothing to write, and for a
    tool called "none".
    """
    choice = choice or ToolChoice()
    offered, may_answer = _narrowed(tools, choice)
    if any(tool.ref.routed_name == NO_TOOL for tool in offered):
        raise ValueError(f"a tool cannot be called {NO_TOOL!r} in this tool-calling mode")
    branches: list[dict[str, Any]] = [
        _closed({"tool": {"const": tool.ref.routed_name}, "arguments": {"$ref": f"#/$defs/{tool.ref.routed_name}"}})
        for tool in offered
    ]
    definitions = {tool.ref.routed_name: _parameters(tool) for tool in offered}
    if may_answer:
        wanted: dict[str, Any] = {"type": "string"}
        if answer:
            wanted = {"$ref": f"#/$defs/{NO_TOOL}"}
            definitions[NO_TOOL] = _rooted(cast("dict[str, Any]", json.loads(answer)), NO_TOOL)
        branches.append(_closed({"tool": {"const": NO_TOOL}, "answer": wanted}))
    return {"anyOf": branches, "$defs": definitions} if definitions else {"anyOf": branches}


def system_instructions(tools: Sequence[Tool]) -> str:
    """Give the lines that tell the model what it may call; "" when there is nothing to tell.

    Kept short: a small model copies the words of a long description into its arguments. The grammar holds the form, so
    it needs no explaining.
    """
    if not tools:
        return ""
    lines = [f"{tool.ref.routed_name}({_argument_names(tool)}): {_sentence(tool.description)}" for tool in tools]
    return "\n".join(["Tools:", *lines, f"{NO_TOOL}(answer): Reply to the user without a tool."])


def example_messages(examples: Iterable[ToolExample], tools: Sequence[Tool]) -> list[Message]:
    """Give the examples whose tool is offered as the messages of a conversation that went before this one."""
    refs = {tool.ref.native_name: tool.ref for tool in tools}
    messages: list[Message] = []
    for example in examples:
        if example.tool and example.tool not in refs:
            continue
        messages.append(_message(Role.USER, Text(example.request)))
        if example.tool:
            arguments = json.dumps(example.arguments or {}, ensure_ascii=False)
            messages.append(_message(Role.ASSISTANT, ToolCall(_EXAMPLE, refs[example.tool], arguments)))
            if example.result:
                content = (Part(_EXAMPLE, Text(example.result)),)
                messages.append(_message(Role.TOOL, ToolResult(_EXAMPLE, ToolResultStatus.OK, content)))
        if example.answer:
            messages.append(_message(Role.ASSISTANT, Text(example.answer)))
    return messages


def _message(role: Role, content: Text | ToolCall | ToolResult) -> Message:
    return Message(role, (Part(_EXAMPLE, content),))


def call_text(routed_name: str, arguments_json: str) -> str:
    """Show the model its earlier call in the form in which it makes calls. ``arguments_json`` is a JSON object."""
    return f'{{"tool": {json.dumps(routed_name)}, "arguments": {arguments_json.strip() or "{}"}}}'


def answer_text(text: str) -> str:
    """Show the model its earlier answer in the form in which it answers."""
    return f'{{"tool": "{NO_TOOL}", "answer": {json.dumps(text, ensure_ascii=False)}}}'


def result_text(text: str) -> str:
    """Show the result of a call. It goes into a user message: models without native calls know no tool role."""
    return f"Tool result: {text}"


# --- Schemas ---------------------------------------------------------------------------------------------------------


def _narrowed(tools: Sequence[Tool], choice: ToolChoice) -> tuple[Sequence[Tool], bool]:
    if choice.routed_name is not None:
        named = [tool for tool in tools if tool.ref.routed_name == choice.routed_name]
        if not named:
            raise ValueError(f"tool_choice names {choice.routed_name!r}, which is not offered")
        return named, False
    match choice.mode:
        case ToolChoiceMode.NONE:
            return (), True
        case ToolChoiceMode.REQUIRED:
            if not tools:
                raise ValueError("tool_choice asks for a call and no tool is offered")
            return tools, False
        case ToolChoiceMode.AUTO | ToolChoiceMode.UNSPECIFIED:
            return tools, True


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _parameters(tool: Tool) -> dict[str, Any]:
    """Give a tool's schema as a grammar can hold it: objects closed where their author left them open by silence.

    Without that llama.cpp's grammar allows any further key, and a small model writes them until it runs out of tokens.
    """
    schema = _input_schema(tool) or {"type": "object", "properties": {}}
    return _rooted(schema, tool.ref.routed_name)


def _rooted(schema: dict[str, Any], name: str) -> dict[str, Any]:
    return cast("dict[str, Any]", _adapted(schema, f"#/$defs/{name}"))


def _adapted(node: object, base: str) -> object:
    match node:
        case dict():
            members = cast("dict[str, object]", node)
            adapted = {key: _adapted_member(key, value, base) for key, value in members.items() if key != "title"}
            if members.get("type") == "object" and "properties" in members:
                adapted.setdefault("additionalProperties", False)
            return adapted
        case list():
            return [_adapted(item, base) for item in cast("list[object]", node)]
        case _:
            return node


def _adapted_member(key: str, value: object, base: str) -> object:
    if key == "$ref" and isinstance(value, str) and value.startswith("#"):
        return base + value[1:]
    if key in {"const", "enum", "default", "examples"}:  # values, not schemas
        return value
    if key in {"properties", "$defs", "definitions", "patternProperties"} and isinstance(value, dict):
        # Here the keys are names that the tool's author chose: one may be called "title" or "$ref".
        return {name: _adapted(schema, base) for name, schema in cast("dict[str, object]", value).items()}
    return _adapted(value, base)


def _input_schema(tool: Tool) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(tool.input_schema_json)) if tool.input_schema_json else {}


def _argument_names(tool: Tool) -> str:
    return ", ".join(cast("dict[str, Any]", _input_schema(tool).get("properties", {})))


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text if text.endswith((".", "!", "?")) or not text else f"{text}."
