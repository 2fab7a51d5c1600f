"""Tools that the caller of a run executes itself: checked like all others, and put beside them for that run.

It knows no run and executes nothing: the calls are handed to the caller, and what comes back is settled by the view.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from turnwired.domain.errors import FieldViolation, ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.tool import ClientTool, Tool, ToolRef, ToolSource
from turnwired.tools.port import ToolInvocation, ToolOutput, Toolset
from turnwired.tools.schema import compile_schema

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


def client_toolsets(tools: Sequence[ClientTool]) -> tuple[Toolset, ...]:
    """The caller's own tools as a source of one run; none where there are none."""
    return (_ClientToolset(tuple(tools)),) if tools else ()


@dataclass(frozen=True, slots=True)
class _ClientToolset:
    """Tools that are listed here and executed by the caller: the turn machine hands their calls out."""

    own: tuple[ClientTool, ...]
    set_id: str = "client"
    failure: Failure | None = field(default=None, init=False)
    left_out: Sequence[Failure] = field(default=(), init=False)

    async def start(self) -> None:
        """Nothing to start."""

    async def tools(self) -> Sequence[Tool]:
        """As the request says."""
        return [
            Tool(
                ToolRef(tool.name, tool.name, ToolSource.CLIENT),
                tool.description,
                tool.input_schema_json,
                annotations=tool.annotations,
            )
            for tool in self.own
        ]

    async def call(self, invocation: ToolInvocation) -> ToolOutput:
        """Never the service's to do: says so to whoever tries."""
        words = f"{invocation.native_name} is executed by the caller of the run, not here"
        raise ToolError(Failure(FailurePhase.TOOL, Reason.TOOL_NOT_EXECUTED, words, origin=invocation.native_name))

    async def aclose(self) -> None:
        """Nothing to stop."""
