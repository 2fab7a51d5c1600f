"""Small wrappers of a source, each a ``Toolset`` of its own: name, filter, permission, validation, cap.

They stack in any order, in a configuration and in Python alike: ``capped(filtered(source, exclude=("drop*",)), 4096)``.
They know a source by its port only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from turnwired.domain.approval import PermissionRequest
from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import Part, Text
from turnwired.domain.permission import PERMISSIONS, is_permission, literal
from turnwired.domain.tool import Tool
from turnwired.tools.naming import pattern_of, routed_name
from turnwired.tools.port import AsksPermission, Discovers, ToolInvocation, ToolOutput, Toolset
from turnwired.tools.result import capped_output
from turnwired.tools.schema import Unusable, Validator, compile_schema, loads, validator_of, violations_of

Listed = Callable[[Tool], Tool | None]
"""What a tool of the inner source is in the outer one; None: not there."""
Called = Callable[[Toolset, ToolInvocation], Awaitable[ToolOutput]]
"""How a call is made of the inner source."""
Asked = Callable[[str], PermissionRequest | None]
"""What a call of a tool, by native name, asks for where it does not say so itself."""


def namespaced(toolset: Toolset, namespace: str) -> Toolset:
    """The source with ``{namespace}__`` in front of the names that models and callers use."""

    def listed(tool: Tool) -> Tool:
        name = routed_name(namespace, tool.ref.routed_name or tool.ref.native_name)
        return replace(tool, ref=replace(tool.ref, routed_name=name))

    return Decorated(toolset, listed)


def filtered(toolset: Toolset, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> Toolset:
    """The source with the tools whose native names match. ``*`` is any run of characters; no ``include``: all."""
    wanted, unwanted = pattern_of(tuple(include)), pattern_of(tuple(exclude))

    def listed(tool: Tool) -> Tool | None:
        name = tool.ref.native_name
        return None if (include and not wanted.match(name)) or unwanted.match(name) else tool

    return Decorated(toolset, listed)


def permitted(toolset: Toolset, permission: str) -> Toolset:
    """The source with tools that ask for this permission, by their native names, in place of their routed names.

    A name with a dot, such as ``acme.deploy``, for which the rules of a policy then hold. What a tool asks for by
    itself, such as a path, it still asks for. Raises ValueError for a name that no rule could be about.
    """
    if not is_permission(permission) or permission in PERMISSIONS:
        raise ValueError(f"a permission of your own has a dot in its name, such as acme.deploy, not {permission!r}")

    def asked(native_name: str) -> PermissionRequest:
        title = f"Call {native_name} of {toolset.set_id}"
        return PermissionRequest(permission, (native_name,), (literal(native_name),), title)

    return Decorated(toolset, asking=asked)


def capped(toolset: Toolset, max_result_bytes: int) -> Toolset:
    """The source with results of at most so many bytes, cut as the policy's cap cuts them; the smaller one holds."""

    async def called(inner: Toolset, invocation: ToolInvocation) -> ToolOutput:
        return capped_output(await inner.call(invocation), max_result_bytes)

    return Decorated(toolset, calling=called)


def validated(toolset: Toolset) -> Toolset:
    """The source with calls and structured results held to the tools' schemas, whatever the policy says.

    Arguments that do not conform are refused before the call (TOOL_ARGUMENTS_INVALID). A structured result that does
    not, or that is missing where the tool promises one, is an error result (TOOL_RESULT_INVALID) that says that the
    call was made. Neither quotes values.
    """

    async def called(inner: Toolset, invocation: ToolInvocation) -> ToolOutput:
        name = invocation.native_name
        tool = next((tool for tool in await inner.tools() if tool.ref.native_name == name), None)
        if tool is None:
            return await inner.call(invocation)  # the source says best what has become of it
        schema = compile_schema(tool.input_schema_json)
        wrong = [schema] if isinstance(schema, str) else schema.violations(invocation.arguments)
        if wrong:
            words = f"The arguments do not match the schema of {name}: {'; '.join(wrong)}. The call was not made."
            raise ToolError(_failure(toolset, Reason.TOOL_ARGUMENTS_INVALID, words))
        output = await inner.call(invocation)
        problem = None if output.is_error else _result_problem(tool, output)
        if problem is None:
            return output
        words = f"{name} was called, and may have taken effect, but its result is not what its schema says: {problem}."
        failure = _failure(toolset, Reason.TOOL_RESULT_INVALID, words)
        return ToolOutput((Part("", Text(words)),), is_error=True, failure=failure)

    return Decorated(toolset, calling=called)


def _as_it_is(tool: Tool) -> Tool:
    return tool


def _nothing(native_name: str) -> PermissionRequest | None:  # noqa: ARG001  as others that ask
    return None


async def _plain_call(inner: Toolset, invocation: ToolInvocation) -> ToolOutput:
    return await inner.call(invocation)


@dataclass(slots=True)
class Decorated:
    """A ``Toolset`` that is another one but for how its tools are listed and called.

    It lists the same object for as long as the inner source does, which is how a registry knows that nothing changed.
    """

    inner: Toolset
    listing: Listed = _as_it_is
    calling: Called = _plain_call
    asking: Asked = _nothing
    _from: Sequence[Tool] | None = field(default=None, init=False)
    _tools: Sequence[Tool] = field(default=(), init=False)

    @property
    def set_id(self) -> str:
        """The inner source's."""
        return self.inner.set_id

    @property
    def failure(self) -> Failure | None:
        """The inner source's."""
        return self.inner.failure

    @property
    def left_out(self) -> Sequence[Failure]:
        """The inner source's."""
        return self.inner.left_out

    @property
    def discovering(self) -> bool:
        """The inner source's."""
        return isinstance(self.inner, Discovers) and self.inner.discovering

    async def start(self) -> None:
        """Start the inner source."""
        await self.inner.start()

    async def tools(self) -> Sequence[Tool]:
        """The inner source's, as ``listing`` has them."""
        tools = await self.inner.tools()
        if tools is not self._from:
            self._from = tools
            unchanged = self.listing is _as_it_is
            self._tools = tools if unchanged else tuple(it for it in map(self.listing, tools) if it is not None)
        return self._tools

    def asks_for(self, native_name: str, arguments: Mapping[str, object]) -> PermissionRequest | None:
        """What the inner source asks for, else what ``asking`` says."""
        inner = self.inner
        asked = inner.asks_for(native_name, arguments) if isinstance(inner, AsksPermission) else None
        return asked or self.asking(native_name)

    async def call(self, invocation: ToolInvocation) -> ToolOutput:
        """As ``calling`` says."""
        return await self.calling(self.inner, invocation)

    async def aclose(self) -> None:
        """Close the inner source."""
        await self.inner.aclose()


def _result_problem(tool: Tool, output: ToolOutput) -> str | None:
    if tool.output_schema_json is None:
        return None
    if output.structured_json is None:
        return "it has no structured value"
    validator = _output_validator(tool.output_schema_json)
    if validator is None:
        return None
    try:
        value = loads(output.structured_json)
    except (ValueError, RecursionError):
        return "it is no JSON"
    return "; ".join(violations_of(validator, value)) or None


@lru_cache(maxsize=1024)
def _output_validator(schema_json: str) -> Validator | None:
    """None for a schema that nothing can be held to: that is no reason to lose what a tool has done."""
    try:
        schema = loads(schema_json)
        return validator_of(schema) if isinstance(schema, dict) else None  # pyright: ignore[reportUnknownArgumentType]
    except (ValueError, RecursionError, Unusable):
        return None


def _failure(toolset: Toolset, reason: Reason, words: str) -> Failure:
    return Failure(FailurePhase.TOOL, reason, words, origin=toolset.set_id)
