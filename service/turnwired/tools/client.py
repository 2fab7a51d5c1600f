"""Tools that the caller of a run executes itself: checked like all others, and put beside them for that run.

It knows no run and executes nothing: the calls are handed to the caller, and what comes back is settled by the view.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from turnwired.domain.errors import FieldViolation, ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.tool import ClientTool, Tool, ToolRef, ToolSource
from turnwired.tools.schema import CompiledSchema, compile_schema

MOST_CLIENT_TOOLS: Final = 128
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


def client_tool_problems(tools: Sequence[ClientTool]) -> list[FieldViolation]:
    """What is wrong with the tools of a request, with paths such as ``[0].name`` below the list."""
    if len(tools) > MOST_CLIENT_TOOLS:
        return [FieldViolation("", f"has {len(tools)} tools; at most {MOST_CLIENT_TOOLS} are allowed")]
    found: list[FieldViolation] = []
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        if not _NAME.match(tool.name):
            found.append(FieldViolation(f"[{index}].name", "must be 1 to 64 characters of [A-Za-z0-9_-]"))
        elif tool.name in seen:
            found.append(FieldViolation(f"[{index}].name", "is the name of another tool of the list"))
        seen.add(tool.name)
        schema = compile_schema(tool.input_schema_json)
        if isinstance(schema, str):
            found.append(FieldViolation(f"[{index}].input_schema_json", schema))
    return found


def client_tools(tools: Sequence[ClientTool], taken: Sequence[str]) -> dict[str, tuple[Tool, CompiledSchema]]:
    """The tools by routed name, as models see them. ``taken`` are names that the run has already.

    Raises ToolError: TOOL_NAME_COLLISION for a taken name, TOOL_ARGUMENTS_INVALID for a schema that cannot be used.
    """
    made: dict[str, tuple[Tool, CompiledSchema]] = {}
    for tool in tools:
        if tool.name in taken or tool.name in made:
            words = (
                f"The client tool {tool.name!r} has the name of a tool that the run has already: give it another name, "
                "or exclude the other."
            )
            raise ToolError(Failure(FailurePhase.ROUTING, Reason.TOOL_NAME_COLLISION, words, origin=tool.name))
        schema = compile_schema(tool.input_schema_json)
        if isinstance(schema, str):
            words = f"The client tool {tool.name!r} cannot be used: {schema}."
            raise ToolError(Failure(FailurePhase.ROUTING, Reason.TOOL_ARGUMENTS_INVALID, words, origin=tool.name))
        ref = ToolRef(tool.name, tool.name, ToolSource.CLIENT)
        made[tool.name] = (
            Tool(ref, tool.description, schema.offered_json, annotations=tool.annotations),
            schema,
        )
    return made
