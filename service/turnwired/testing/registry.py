"""An in-memory registry: async functions as tools, without validation or discovery, for tests of what uses tools."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from turnwired.domain.errors import FieldViolation, ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import Part, Text, ToolResult, ToolResultStatus
from turnwired.domain.policy import ArgumentValidation
from turnwired.domain.run import Caller
from turnwired.domain.tool import ClientTool, Tool, ToolAnnotations, ToolCollision, ToolRef, ToolSelection, ToolSource
from turnwired.tools.client import client_tool_problems, client_toolsets
from turnwired.tools.port import CheckedCall, ToolInvocation, ToolOutput, Toolset, ToolView
from turnwired.tools.result import settle_output
from turnwired.tools.selecting import joined

Function = Callable[[ToolInvocation], Awaitable[str]]
"""Gives the text of the result, or raises ToolError."""


@dataclass(slots=True)
class MemoryRegistry:
    """``functions`` by routed name. ``executed`` are the calls that ran, in order of their start.

    ``annotations`` by routed name: what the tools say of themselves, which decides who is asked where no rule does.
    """

    functions: Mapping[str, Function] = field(default_factory=dict[str, Function])
    executed: list[ToolInvocation] = field(default_factory=list[ToolInvocation])
    failures: tuple[Failure, ...] = ()
    collisions: tuple[ToolCollision, ...] = ()
    annotations: Mapping[str, ToolAnnotations] = field(default_factory=dict[str, ToolAnnotations])

    async def start(self) -> None:
        """Nothing to start."""

    async def aclose(self) -> None:
        """Nothing to stop."""

    async def view(self, selection: ToolSelection, caller: Caller, more: Sequence[Toolset] = ()) -> ToolView:
        """All functions, whatever the selection says, ``more``, and the caller's own tools."""
        beside = (*more, *client_toolsets(selection.client_tools))
        return await joined(self, beside, selection) if beside else self

    async def revised(self, view: ToolView, selection: ToolSelection, caller: Caller) -> ToolView:
        """As it is: the functions do not change."""
        return view

    def problems(self, tools: Sequence[ClientTool]) -> Sequence[FieldViolation]:
        """What is wrong with a caller's own tools."""
        return client_tool_problems(tools)

    @property
    def tools(self) -> Sequence[Tool]:
        """One tool per function, taking any object."""
        return [
            Tool(
                ToolRef(name, name, ToolSource.LOCAL),
                f"The tool {name}.",
                '{"type":"object"}',
                annotations=self.annotations.get(name, ToolAnnotations()),
            )
            for name in self.functions
        ]

    @property
    def offered(self) -> Sequence[Tool]:
        """All of them."""
        return self.tools

    @property
    def refs(self) -> Mapping[str, ToolRef]:
        """All of them."""
        return {tool.ref.routed_name: tool.ref for tool in self.tools}

    @property
    def finder(self) -> str | None:
        """None: all are shown."""
        return None

    def tool(self, routed_name: str) -> Tool | None:
        """The function of this name."""
        return next((tool for tool in self.tools if tool.ref.routed_name == routed_name), None)

    @property
    def own_collisions(self) -> Sequence[ToolCollision]:
        """All of them."""
        return self.collisions

    def check(self, routed_name: str, arguments_json: str, validation: ArgumentValidation) -> CheckedCall:
        """The name must be known and the arguments a JSON object."""
        if routed_name not in self.functions:
            return CheckedCall(None, None, _failure(Reason.TOOL_NOT_FOUND, f"There is no tool {routed_name!r}."))
        hints = self.annotations.get(routed_name, ToolAnnotations())
        return _checked(ToolRef(routed_name, routed_name, ToolSource.LOCAL), arguments_json, hints)

    async def execute(self, routed_name: str, invocation: ToolInvocation, max_result_bytes: int | None) -> ToolResult:
        """Run the function."""
        self.executed.append(invocation)
        try:
            text = await self.functions[routed_name](invocation)
        except ToolError as error:
            part = Part("", Text(error.failure.message))
            return ToolResult(invocation.call_id, ToolResultStatus.ERROR, (part,), failure=error.failure)
        return ToolResult(invocation.call_id, ToolResultStatus.OK, (Part("", Text(text)),))

    def settle(self, call_id: str, output: ToolOutput, max_result_bytes: int | None) -> ToolResult:
        """As the real registry does."""
        return settle_output(call_id, output, max_result_bytes)


def _checked(ref: ToolRef, arguments_json: str, hints: ToolAnnotations) -> CheckedCall:
    try:
        arguments = json.loads(arguments_json or "{}")
    except ValueError:
        return CheckedCall(ref, None, _failure(Reason.TOOL_ARGUMENTS_INVALID, "The arguments are not JSON."))
    if not isinstance(arguments, dict):
        return CheckedCall(ref, None, _failure(Reason.TOOL_ARGUMENTS_INVALID, "The arguments are not an object."))
    return CheckedCall(ref, arguments, annotations=hints)


def _failure(reason: Reason, message: str) -> Failure:
    return Failure(FailurePhase.ROUTING, reason, message)
