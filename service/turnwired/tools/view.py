"""The tools of one run: finds, checks and executes the calls of the model, and settles each in a result."""

from __future__ import annotations

import asyncio
import difflib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import anyio

from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.faults import where_raised
from turnwired.domain.message import ToolResult, ToolResultStatus
from turnwired.domain.policy import ArgumentValidation
from turnwired.domain.tool import Tool, ToolCollision, ToolRef
from turnwired.tools.access import EVERYBODY, Allows
from turnwired.tools.deadline import standing_still
from turnwired.tools.port import (
    AsksPermission,
    AskUser,
    CheckedCall,
    InputAnswer,
    InputRequest,
    ToolInvocation,
    ToolOutput,
    Toolset,
    ToolView,
)
from turnwired.tools.repair import repair, unwrapped
from turnwired.tools.result import clean_progress, settle_failure, settle_output
from turnwired.tools.schema import CompiledSchema, compile_schema, parse_arguments

_LOG = logging.getLogger(__name__)
_MAX_NAMES_TOLD: Final = 10

_NOT_EXECUTED: Final = frozenset(
    (
        Reason.TOOL_NOT_FOUND,
        Reason.TOOL_NOT_EXECUTED,
        Reason.TOOL_ARGUMENTS_INVALID,
        Reason.MCP_UNAVAILABLE,
        Reason.MCP_AUTH_FAILED,
        Reason.MCP_SESSION_LOST,
        Reason.TOOL_SOURCE_UNAVAILABLE,
        Reason.OVERLOADED,
    )
)
"""Reasons that say that the tool was never begun."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A tool under its routed name, the source that runs it, and its schema. ``asks``: it is an ``AsksPermission``."""

    toolset: Toolset
    tool: Tool
    schema: CompiledSchema
    asks: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """A ``ToolView``. Holds no state of a run, so runs with the same selection and ``roles`` share one.

    ``allows`` is asked again when a tool is called: what is denied by then is not called, however long it was listed.
    ``finder``: the tool with which the model finds those that it is not shown, which are all but the ``pinned``. It
    shows what the caller may have, so that no rule need allow it.
    """

    entries: Mapping[str, Entry]
    failures: Sequence[Failure] = ()
    collisions: Sequence[ToolCollision] = ()
    own_collisions: Sequence[ToolCollision] = ()
    roles: frozenset[str] = frozenset()
    allows: Allows = EVERYBODY
    finder: str | None = None
    pinned: frozenset[str] = frozenset()
    tools: Sequence[Tool] = field(init=False)
    offered: Sequence[Tool] = field(init=False)
    refs: Mapping[str, ToolRef] = field(init=False)

    def __post_init__(self) -> None:
        lazy = self.finder is not None
        shown = {self.finder, *self.pinned}
        tools = tuple(
            replace(entry.tool, lazy=True) if lazy and name not in shown else entry.tool
            for name, entry in self.entries.items()
        )
        object.__setattr__(self, "tools", tools)
        object.__setattr__(self, "offered", tuple(tool for tool in tools if not tool.lazy) if lazy else tools)
        object.__setattr__(self, "refs", {name: entry.tool.ref for name, entry in self.entries.items()})

    def tool(self, routed_name: str) -> Tool | None:
        """The tool of this name."""
        entry = self.entries.get(routed_name)
        return None if entry is None else entry.tool

    def check(self, routed_name: str, arguments_json: str, validation: ArgumentValidation) -> CheckedCall:
        """Find the tool and check the arguments, which are JSON text in the model's words.

        The failures quote neither the arguments nor values in them.
        """
        entry = self.entries.get(routed_name)
        if entry is None:
            return CheckedCall(tool=None, failure=self._unknown(routed_name))
        if routed_name != self.finder and not self.allows(self.roles, entry.tool.ref):
            return CheckedCall(tool=entry.tool.ref, failure=_not_allowed(routed_name))
        hints = entry.tool.annotations
        lenient = validation is ArgumentValidation.LENIENT
        arguments = parse_arguments(arguments_json)
        repairs: tuple[str, ...] = ()
        if isinstance(arguments, str) and lenient and (inner := unwrapped(arguments_json)) is not None:
            arguments = parse_arguments(inner)
            repairs = ("the arguments as a whole: text became an object",)
        if isinstance(arguments, str):
            return CheckedCall(tool=entry.tool.ref, failure=_invalid(routed_name, arguments))
        if validation is ArgumentValidation.NONE:
            return _permitted(entry, CheckedCall(entry.tool.ref, arguments, annotations=hints))
        violations = entry.schema.violations(arguments)
        if not violations:
            return _permitted(entry, CheckedCall(entry.tool.ref, arguments, repairs=repairs, annotations=hints))
        repaired = repair(arguments, entry.schema.validator) if lenient else None
        if repaired is not None:
            checked = CheckedCall(
                entry.tool.ref, repaired.arguments, repairs=(*repairs, *repaired.repairs), annotations=hints
            )
            return _permitted(entry, checked)
        words = f"The arguments do not match the schema of {routed_name}: {'; '.join(violations)}."
        return CheckedCall(tool=entry.tool.ref, failure=_invalid(routed_name, words))

    async def execute(self, routed_name: str, invocation: ToolInvocation, max_result_bytes: int | None) -> ToolResult:
        """Run a checked call within ``invocation.timeout`` seconds and settle its result. Raises only cancellation."""
        call_id = invocation.call_id
        entry = self.entries.get(routed_name)
        if entry is None:
            return settle_failure(call_id, ToolResultStatus.NOT_EXECUTED, self._unknown(routed_name))
        if routed_name != self.finder and not self.allows(invocation.caller.roles, entry.tool.ref):
            return settle_failure(call_id, ToolResultStatus.DENIED, _not_allowed(routed_name))
        deadline = anyio.CancelScope()
        if invocation.timeout is not None:
            deadline.deadline = anyio.current_time() + invocation.timeout
        invocation = _for_source(invocation, entry.tool.ref.native_name, deadline)
        failure: Failure | None = None
        try:
            with deadline:
                output = await entry.toolset.call(invocation)
                # A tool may answer its cancellation with an error of its own; it has timed out all the same.
                if not (output.is_error and deadline.cancel_called):
                    return settle_output(call_id, output, max_result_bytes)
        except ToolError as error:
            failure = error.failure
        except asyncio.CancelledError:
            if _being_cancelled():
                raise
            failure = _failure(Reason.TOOL_FAILED, routed_name, "the tool cancelled itself")
        except (Exception, SystemExit) as error:  # noqa: BLE001  boundary: a tool's fault is a result, not the run's
            _LOG.warning("source of tool %s raised %s", routed_name, type(error).__name__)
            failure = _failure(Reason.TOOL_FAILED, routed_name, f"its source raised {type(error).__name__}")
        if failure is None or deadline.cancel_called:
            return settle_failure(call_id, ToolResultStatus.ERROR, _timed_out(routed_name, invocation))
        return settle_failure(call_id, _status_of(failure), failure)

    def settle(self, call_id: str, output: ToolOutput, max_result_bytes: int | None) -> ToolResult:
        """The result of a call that the caller executed."""
        return settle_output(call_id, output, max_result_bytes)

    def _unknown(self, routed_name: str) -> Failure:
        known = list(self.entries)
        names = difflib.get_close_matches(routed_name, known, n=3, cutoff=0.5) or known[:_MAX_NAMES_TOLD]
        told = f" Did you mean: {', '.join(names)}?" if names else " No tools are available."
        return _failure(Reason.TOOL_NOT_FOUND, routed_name[:100], f"There is no tool with this name.{told}")


@dataclass(frozen=True, slots=True)
class Joined:
    """A ``ToolView`` of two: what a deployment has, and behind it what this run has besides, which has its name when
    both have it.
    """

    base: ToolView
    more: View
    tools: Sequence[Tool] = field(init=False)
    offered: Sequence[Tool] = field(init=False)
    refs: Mapping[str, ToolRef] = field(init=False)

    def __post_init__(self) -> None:
        more = self.more.refs
        for name in ("tools", "offered"):
            base: Sequence[Tool] = getattr(self.base, name)
            own = (tool for tool in base if tool.ref.routed_name not in more)
            object.__setattr__(self, name, (*own, *self.more.tools))
        object.__setattr__(self, "refs", {**self.base.refs, **more})

    @property
    def finder(self) -> str | None:
        """The deployment's: what a run has besides it is shown."""
        return self.base.finder

    def tool(self, routed_name: str) -> Tool | None:
        """As the view that has the tool."""
        return self._of(routed_name).tool(routed_name)

    @property
    def failures(self) -> Sequence[Failure]:
        """Of both."""
        return (*self.base.failures, *self.more.failures)

    @property
    def collisions(self) -> Sequence[ToolCollision]:
        """Of the deployment: a run's own names collide with nothing."""
        return self.base.collisions

    @property
    def own_collisions(self) -> Sequence[ToolCollision]:
        """Of the deployment."""
        return self.base.own_collisions

    def check(self, routed_name: str, arguments_json: str, validation: ArgumentValidation) -> CheckedCall:
        """As the view that has the tool."""
        return self._of(routed_name).check(routed_name, arguments_json, validation)

    async def execute(self, routed_name: str, invocation: ToolInvocation, max_result_bytes: int | None) -> ToolResult:
        """As the view that has the tool."""
        return await self._of(routed_name).execute(routed_name, invocation, max_result_bytes)

    def settle(self, call_id: str, output: ToolOutput, max_result_bytes: int | None) -> ToolResult:
        """As every view does."""
        return self.more.settle(call_id, output, max_result_bytes)

    def _of(self, routed_name: str) -> ToolView:
        return self.more if routed_name in self.more.entries else self.base


def _for_source(invocation: ToolInvocation, native: str, deadline: anyio.CancelScope) -> ToolInvocation:
    """As the source gets it: by its own name, and with what comes back from it checked."""
    report, ask = invocation.on_progress, invocation.ask
    if report is None and ask is None and invocation.native_name == native:
        return invocation
    return replace(
        invocation,
        native_name=native,
        on_progress=None if report is None else clean_progress(report),
        ask=None if ask is None else _checked(standing_still(deadline, ask)),
    )


def _checked(ask: AskUser) -> AskUser:
    """Questions whose schema can be used, and whose answers match it."""

    async def ask_checked(request: InputRequest) -> InputAnswer:
        if request.schema_json is not None:
            schema = compile_schema(request.schema_json)
            if isinstance(schema, str):
                words = f"The tool asks for input by a schema that cannot be used: {schema}"
                raise ToolError(Failure(FailurePhase.TOOL, Reason.TOOL_FAILED, words))
            request = replace(request, schema_json=schema.offered_json, problems=schema.violations)
        return await ask(request)

    return ask_checked


def _permitted(entry: Entry, checked: CheckedCall) -> CheckedCall:
    """The call with what its tool asks permission for, where its source says that finer than by name."""
    asking = entry.toolset
    if not entry.asks or not isinstance(asking, AsksPermission) or checked.arguments is None:
        return checked
    try:
        return replace(checked, asks_for=asking.asks_for(entry.tool.ref.native_name, checked.arguments))
    except ToolError as error:
        return replace(checked, arguments=None, failure=error.failure)
    except (Exception, SystemExit) as error:  # noqa: BLE001  boundary: a tool's fault is a result, not the run's
        _LOG.warning("tool %s cannot say what it asks for: %s", entry.tool.ref.routed_name, where_raised(error))
        words = f"what it asks permission for is not known: {type(error).__name__} was raised; it was not called"
        failure = _failure(Reason.TOOL_NOT_EXECUTED, entry.tool.ref.routed_name, words)
        return replace(checked, arguments=None, failure=failure)


def _being_cancelled() -> bool:
    """Whether somebody cancels this task, as against a tool that raised CancelledError of its own accord."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _status_of(failure: Failure) -> ToolResultStatus:
    if failure.reason is Reason.TOOL_OUTCOME_UNKNOWN:
        return ToolResultStatus.OUTCOME_UNKNOWN
    return ToolResultStatus.NOT_EXECUTED if failure.reason in _NOT_EXECUTED else ToolResultStatus.ERROR


def _invalid(routed_name: str, words: str) -> Failure:
    return _failure(Reason.TOOL_ARGUMENTS_INVALID, routed_name, words)


def _not_allowed(routed_name: str) -> Failure:
    return _failure(Reason.TOOL_DENIED, routed_name, "The caller may not use this tool. It was not called.")


def _timed_out(routed_name: str, invocation: ToolInvocation) -> Failure:
    words = f"{routed_name} timed out after {invocation.timeout:g} s; it may have taken effect"
    return _failure(Reason.TOOL_TIMEOUT, routed_name, words)


def _failure(reason: Reason, origin: str, message: str) -> Failure:
    return Failure(phase=FailurePhase.TOOL, reason=reason, message=message, origin=origin)
