"""The ports of tools: what a source offers (``Toolset``) and what the engine uses (``ToolRegistry``, ``ToolView``)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeGuard, runtime_checkable

from turnwired.domain.approval import PermissionRequest
from turnwired.domain.errors import FieldViolation
from turnwired.domain.failure import Failure
from turnwired.domain.message import Part, ToolResult
from turnwired.domain.policy import ArgumentValidation
from turnwired.domain.run import Caller
from turnwired.domain.tool import ClientTool, Tool, ToolAnnotations, ToolCollision, ToolRef, ToolSelection

ProgressReporter = Callable[[float, float | None, str], None]
"""Called with progress, total if known, and a message, in units of the tool."""
LateReporter = Callable[[], None]
"""Called on the event loop when a call that was given up ends after all. What it gave is dropped by then."""


@dataclass(frozen=True, slots=True)
class InputRequest:
    """What a tool asks a person while it runs. ``schema_json``: JSON Schema of an object; None: consent alone.

    ``problems`` says what is wrong with values that do not match; the registry fills it in.
    """

    message: str
    schema_json: str | None = None
    problems: Callable[[Mapping[str, object]], Sequence[str]] = field(default=lambda _: ())


@dataclass(frozen=True, slots=True)
class InputAnswer:
    """The person's answer, in the words of MCP's elicitation. ``cancel``: nobody answered in time."""

    action: Literal["accept", "decline", "cancel"]
    values: Mapping[str, object] = field(default_factory=dict[str, object])


AskUser = Callable[[InputRequest], Awaitable[InputAnswer]]
"""Asks a person and waits for as long as a run waits; the time does not count against the call's timeout."""


@dataclass(frozen=True, slots=True)
class ToolInvocation:
    """One execution of a tool. ``arguments`` is the parsed and checked JSON object.

    ``timeout`` is in seconds and enforced by the registry around the source's call. ``headers`` carries trace
    propagation (``traceparent``). ``ask`` puts a question to a person; None: nobody can be asked.
    """

    run_id: str
    call_id: str
    native_name: str
    arguments: Mapping[str, object]
    caller: Caller
    session_id: str | None = None
    attempt: int = 1
    timeout: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    on_progress: ProgressReporter | None = None
    on_late: LateReporter | None = None
    ask: AskUser | None = None


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a source's tool gave, typed and whole; the registry caps and cleans it. ``is_error``: the tool says so.

    ``failure`` says why in words without content, where the source knows more than that the tool said so: the words
    for the model, which may quote what it sent, belong in ``content``.
    """

    content: tuple[Part, ...]
    structured_json: str | None = None
    is_error: bool = False
    failure: Failure | None = None
    cut_from: int | None = None
    """Bytes that it had before its own source cut it."""


class Toolset(Protocol):
    """A source of tools. A broken source fails alone: ``tools`` goes on with what is known, ``failure`` says why."""

    @property
    def set_id(self) -> str:
        """Stable id in the deployment, such as the MCP server's id; namespaces its tools."""
        ...

    @property
    def failure(self) -> Failure | None:
        """Why the source cannot be used now, or None."""
        ...

    @property
    def left_out(self) -> Sequence[Failure]:
        """Tools that the source has but cannot offer, one failure each; empty before discovery."""
        ...

    async def start(self) -> None:
        """Begin connecting and discovering, in a task of its own. Never raises for a broken source."""
        ...

    async def tools(self) -> Sequence[Tool]:
        """The tools with native names, discovering them first when that has not happened. Bounded."""
        ...

    async def call(self, invocation: ToolInvocation) -> ToolOutput:
        """Run one tool. Raises ToolError with a typed failure; cancellation reaches the tool."""
        ...

    async def aclose(self) -> None:
        """Stop everything the source started. Bounded."""
        ...


def is_toolset(value: object) -> TypeGuard[Toolset]:
    """Whether a value is a source and not, say, a function or a class."""
    members = ("set_id", "tools", "call", "start", "aclose")
    return not isinstance(value, type) and all(hasattr(value, name) for name in members)


@runtime_checkable
class Discovers(Protocol):
    """What a ``Toolset`` is besides that learns its tools from elsewhere, in a task of its own."""

    @property
    def discovering(self) -> bool:
        """Whether the first attempt to learn them goes on, so that ``tools`` would wait for its end."""
        ...


@runtime_checkable
class AsksPermission(Protocol):
    """What a ``Toolset`` is besides whose tools ask for something finer than their names, such as a path."""

    def asks_for(self, native_name: str, arguments: Mapping[str, object]) -> PermissionRequest | None:
        """What a call with these checked arguments asks for; None: its name. Quick and without side effects.

        Raises ToolError for a call that must not run.
        """
        ...


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """A call that was found and checked: arguments to run with, or why it cannot run.

    ``repairs``: what lenient validation changed in the arguments, one sentence each, without values. ``annotations``
    are the tool's, wherever it was found. ``asks_for``: what it asks permission for, None: for its name.
    """

    tool: ToolRef | None
    arguments: Mapping[str, object] | None = None
    failure: Failure | None = None
    repairs: tuple[str, ...] = ()
    annotations: ToolAnnotations = field(default_factory=ToolAnnotations)
    asks_for: PermissionRequest | None = None


class ToolView(Protocol):
    """The tools of a run as they are at one time, in the order the model sees them. A value: it does not change."""

    @property
    def tools(self) -> Sequence[Tool]:
        """All that may be called, with routed names, in a deterministic order."""
        ...

    @property
    def offered(self) -> Sequence[Tool]:
        """Those of ``tools`` that the model is shown without having looked for them: all where there are few."""
        ...

    @property
    def refs(self) -> Mapping[str, ToolRef]:
        """All that may be called, by routed name, in the same order."""
        ...

    @property
    def finder(self) -> str | None:
        """The routed name of the tool that finds the others; None where all are shown. Its structured result is
        ``{"tools": [{"name": ...}]}``.
        """
        ...

    def tool(self, routed_name: str) -> Tool | None:
        """The tool of this name, if there is one."""
        ...

    @property
    def failures(self) -> Sequence[Failure]:
        """Sources and tools left out, and why, and patterns that select nothing. Collisions are told apart."""
        ...

    @property
    def collisions(self) -> Sequence[ToolCollision]:
        """Names that several tools claim, in the whole deployment, whatever the selection."""
        ...

    @property
    def own_collisions(self) -> Sequence[ToolCollision]:
        """Those of ``collisions`` whose name, or whose tools' names, the selection lets in."""
        ...

    def check(self, routed_name: str, arguments_json: str, validation: ArgumentValidation) -> CheckedCall:
        """Find the tool and check the arguments. Never raises: what is wrong is told in words the model can act on."""
        ...

    async def execute(self, routed_name: str, invocation: ToolInvocation, max_result_bytes: int | None) -> ToolResult:
        """Run a checked call and settle its result: capped, cleaned, typed. Raises only cancellation."""
        ...

    def settle(self, call_id: str, output: ToolOutput, max_result_bytes: int | None) -> ToolResult:
        """The result of a call that the caller executed: capped, cleaned, typed like any other. Pure."""
        ...


class ToolRegistry(Protocol):
    """All tool sources of a deployment, composed."""

    async def start(self) -> None:
        """Start all sources, side by side."""
        ...

    async def view(self, selection: ToolSelection, caller: Caller, more: Sequence[Toolset] = ()) -> ToolView:
        """The tools that a run of this caller sees, its own (``client_tools``) last. Waits, bounded, for sources that
        are required or that are only now needed; others that have not answered, and broken ones, are left out.

        ``more`` are sources of this run alone, such as agents: under their native names, behind the others, whatever
        the selection includes; the registry neither starts nor closes them. Raises ToolError when a source that the
        configuration calls required cannot be used, and TOOL_NAME_COLLISION when a name of ``more`` or of the caller's
        tools is taken.
        """
        ...

    async def revised(self, view: ToolView, selection: ToolSelection, caller: Caller) -> ToolView:
        """A view of this registry as the sources are now: the same object where nothing has changed. Waits for nobody.

        What the run has besides stays, also where a source now claims its name. Never raises: where a view could not be
        made, the old one is given.
        """
        ...

    def problems(self, tools: Sequence[ClientTool]) -> Sequence[FieldViolation]:
        """What is wrong with the caller's own tools in themselves, with paths below the list (``[0].name``). Pure."""
        ...

    async def aclose(self) -> None:
        """Stop all sources, side by side. Bounded."""
        ...
