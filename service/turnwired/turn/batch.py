"""The tool calls of one answer: found, checked, run side by side within bounds, each settled exactly once.

Calls start in the model's order, finish in any, and give their results in the model's order again. Nothing starts
before every call of the batch is checked, so that one durable write covers all that start together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from turnwired.domain.event import ToolCallExecuting, ToolCallFinished, ToolCallProgressed
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import Part, Text, ToolResult, ToolResultStatus
from turnwired.domain.tool import ToolRef, ToolSource
from turnwired.turn import aftermath
from turnwired.turn.admission import Obstacle, Verdict
from turnwired.turn.effects import AwaitCaller, ResolveTool, RunTool
from turnwired.turn.facts import CallerResult, ToolFinished, ToolProgress, ToolResolved
from turnwired.turn.ids import Ids
from turnwired.turn.out import Out
from turnwired.turn.pieces import Call, CallState

COMPLETED = frozenset({ToolResultStatus.OK, ToolResultStatus.ERROR})
"""What a tool that ran gave: something to answer from."""
NAMES_SHOWN = 40
"""Names of tools that the model is told of when it asks for one that does not exist."""


_ROUTING = frozenset({Reason.TOOL_NOT_FOUND, Reason.TOOL_ARGUMENTS_INVALID, Reason.TOOL_DENIED, Reason.TOOL_REJECTED})
"""Reasons for which a call never reached its tool."""


def failed(result: ToolResult) -> bool:
    """Whether the tool itself did not do what was asked; being denied or never started is no fault of a tool."""
    return result.status in {
        ToolResultStatus.ERROR,
        ToolResultStatus.INTERRUPTED,
        ToolResultStatus.OUTCOME_UNKNOWN,
    }


def settled_result(
    call_id: str, part_id: str, status: ToolResultStatus, reason: Reason, message: str, iteration: int
) -> ToolResult:
    """A result that the runtime writes itself, in words for the model."""
    phase = FailurePhase.ROUTING if reason in _ROUTING else FailurePhase.TOOL
    failure = Failure(phase, reason, message, iteration=iteration, call_id=call_id)
    return ToolResult(call_id, status, (Part(part_id, Text(message)),), failure=failure)


class ToolBatch:
    """Calls of one iteration: ``admit`` and ``resolve``, or ``refuse``; ``done`` when every call has settled."""

    def __init__(self, calls: Sequence[Call], ids: Ids, max_parallel: int, *, returns: bool = False) -> None:
        """``returns``: the caller executes every call, whatever its source."""
        self._calls = tuple(calls)
        self._by_id = {call.call_id: call for call in self._calls}
        self._ids = ids
        self._max_parallel = max(max_parallel, 1)
        self._returns = returns
        self._unsettled = len(self._calls)
        self._unresolved = 0
        self._running = 0
        self.verdicts: dict[str, Verdict] = {}
        self.completed = 0
        self.culprit: Call | None = None

    @property
    def done(self) -> bool:
        """Whether every call has its result."""
        return self._unsettled == 0

    @property
    def calls(self) -> tuple[Call, ...]:
        """All of them, in the model's order."""
        return self._calls

    @property
    def over_bound(self) -> bool:
        """Whether the run may not call as many tools in all."""
        return any(verdict.obstacle is Obstacle.RUN_BOUND for verdict in self.verdicts.values())

    @property
    def executing(self) -> tuple[str, ...]:
        """Ids of the calls that run now, in the model's order."""
        return tuple(call.call_id for call in self._calls if call.state is CallState.EXECUTING)

    @property
    def with_caller(self) -> tuple[Call, ...]:
        """The calls that the caller executes now, in the model's order."""
        return tuple(call for call in self._calls if call.state is CallState.WITH_CALLER)

    @property
    def goes_on(self) -> bool:
        """Whether anything can go on without the caller. A call that it is to execute, or asks it, cannot."""
        return self.done or any(
            call.state is CallState.RESOLVING
            or (call.state is CallState.EXECUTING and not call.asking)
            or (call.state is CallState.READY and self._may_start(call))
            for call in self._calls
        )

    def call(self, call_id: str) -> Call | None:
        """One of its calls."""
        return self._by_id.get(call_id)

    def results(self) -> tuple[ToolResult, ...]:
        """Results so far, in the model's order."""
        return tuple(call.result for call in self._calls if call.result is not None)

    # --- the ways in ------------------------------------------------------------------------------------------------

    def admit(self, out: Out, tools: Mapping[str, ToolRef], verdicts: Mapping[str, Verdict]) -> None:
        """Let in the calls that may run, if only after a question; settle those that cannot, whatever anybody says."""
        self.verdicts = dict(verdicts)
        for call in self._calls:
            verdict = verdicts.get(call.call_id)
            if verdict is not None and not verdict.question:
                self._write(out, call, ToolResultStatus.NOT_EXECUTED, verdict.reason, verdict.message)
            elif call.damaged:
                self._write(
                    out,
                    call,
                    ToolResultStatus.ERROR,
                    Reason.TOOL_ARGUMENTS_INVALID,
                    "Not executed: fragments of the arguments were mixed up on their way. Make the call again.",
                )
            elif call.tool is None:
                self._write(out, call, ToolResultStatus.ERROR, Reason.TOOL_NOT_FOUND, _not_found(call.name, tools))
            else:
                call.state = CallState.RESOLVING
                self._unresolved += 1

    def resolve(self, out: Out) -> None:
        """Have every call that was let in found and checked."""
        for call in self._calls:
            if call.state is CallState.RESOLVING:
                out.do(ResolveTool(call.call_id, call.name, call.arguments))

    def refuse(self, out: Out, why: str, reason: Reason = Reason.TOOL_NOT_EXECUTED) -> None:
        """Settle every call as not executed."""
        for call in self._calls:
            if call.state is not CallState.SETTLED:
                self._write(out, call, ToolResultStatus.NOT_EXECUTED, reason, why)

    # --- facts ------------------------------------------------------------------------------------------------------

    def resolved(self, fact: ToolResolved, out: Out) -> bool:
        """Take the registry's answer. False when no such answer is waited for."""
        call = self._by_id.get(fact.call_id)
        if call is None or call.state is not CallState.RESOLVING:
            return False
        self._unresolved -= 1
        failure = fact.failure
        if failure is None and fact.tool is not None:
            call.tool = fact.tool
            call.state = CallState.READY
            if fact.repairs:
                call.repairs = fact.repairs
                out.emit(aftermath.repaired(call))
            return True
        verdict = self.verdicts.get(call.call_id)
        if verdict is not None:  # nobody need be asked about a call that cannot run
            self._write(out, call, ToolResultStatus.NOT_EXECUTED, verdict.reason, verdict.message)
            return True
        reason = Reason.TOOL_NOT_FOUND if failure is None else failure.reason
        message = f"There is no tool {call.name[:64]!r}." if failure is None else failure.message
        denied = reason is Reason.TOOL_DENIED
        status = ToolResultStatus.DENIED if denied else ToolResultStatus.ERROR
        result = settled_result(call.call_id, self._ids.part(), status, reason, message, out.iteration)
        if failure is not None:
            result = replace(result, failure=replace(failure, iteration=out.iteration, call_id=call.call_id))
        self._settle(out, call, result, 0)
        return True

    def start(self, out: Out) -> None:
        """Start what may start now: all is checked, and there is a free place."""
        if self._unresolved:
            return
        for call in self._calls:
            if call.state is not CallState.READY or call.tool is None:
                continue
            if self._for_caller(call):
                call.state = CallState.WITH_CALLER
                out.emit(ToolCallExecuting(call.call_id))
                out.do(AwaitCaller(call.call_id))
            elif self._may_start(call):
                call.state = CallState.EXECUTING
                self._running += 1
                out.emit(ToolCallExecuting(call.call_id))
                out.do(RunTool(call.call_id, call.tool.routed_name, call.arguments))

    def _may_start(self, call: Call) -> bool:
        return self._running < self._max_parallel and not self._for_caller(call)

    def _for_caller(self, call: Call) -> bool:
        return self._returns or (call.tool is not None and call.tool.source is ToolSource.CLIENT)

    def allow(self, call: Call) -> None:
        """A person lets a call run, also one that a verdict stood against."""
        self.verdicts.pop(call.call_id, None)
        call.state = CallState.READY

    def deny(self, out: Out, call: Call, reason: Reason, message: str, comment: str = "") -> None:
        """A call may not run. ``comment`` is a person's, and for the model alone."""
        result = settled_result(call.call_id, self._ids.part(), ToolResultStatus.DENIED, reason, message, out.iteration)
        if comment:
            result = replace(result, content=(*result.content, Part(self._ids.part(), Text(comment))))
        self._settle(out, call, result, 0)

    def expired(self, out: Out, call: Call) -> None:
        """The caller has not handed in the result of a call in time."""
        words = "The caller did not hand in a result in time. The call may have taken effect."
        self._write(out, call, ToolResultStatus.ERROR, Reason.WAIT_EXPIRED, words)

    def progressed(self, fact: ToolProgress, out: Out) -> bool:
        """Pass progress on. False when the call does not run."""
        call = self._by_id.get(fact.call_id)
        if call is None or call.state is not CallState.EXECUTING:
            return False
        out.emit(ToolCallProgressed(fact.call_id, fact.progress, fact.total, fact.message))
        return True

    def finished(self, fact: ToolFinished | CallerResult, out: Out) -> bool:
        """Take a result. False when the call does not run, or is not with the caller: the first settlement wins."""
        by_caller = type(fact) is CallerResult
        call = self._by_id.get(fact.result.call_id if isinstance(fact, CallerResult) else fact.call_id)
        if call is None or call.state is not (CallState.WITH_CALLER if by_caller else CallState.EXECUTING):
            return False
        result = replace(
            fact.result,
            call_id=call.call_id,
            content=tuple(Part(self._ids.part(), part.content) for part in fact.result.content),
        )
        if result.status in COMPLETED:
            self.completed += 1
        if call.repairs:
            result = aftermath.with_repairs(result, call, self._ids.part())
        self._settle(out, call, result, fact.duration_ns)
        return True

    def interrupt(self, out: Out) -> None:
        """Settle all that has not: what runs as interrupted, the rest as not executed."""
        for call in self._calls:
            if call.state in {CallState.EXECUTING, CallState.WITH_CALLER}:
                self._write(
                    out,
                    call,
                    ToolResultStatus.INTERRUPTED,
                    Reason.TOOL_INTERRUPTED,
                    "Interrupted: the run was stopped while the tool ran. It may have taken effect.",
                )
        self.refuse(out, "Not executed: the run was stopped before the tool began.")

    def restore(self, call: Call, result: ToolResult, *, completed: bool) -> None:
        """Take over a call that has settled, in a batch that begins where another process left it."""
        call.state, call.result = CallState.SETTLED, result
        self._unsettled -= 1
        self.completed += completed

    # --- settling ---------------------------------------------------------------------------------------------------

    def _write(self, out: Out, call: Call, status: ToolResultStatus, reason: Reason, message: str) -> None:
        result = settled_result(call.call_id, self._ids.part(), status, reason, message, out.iteration)
        self._settle(out, call, result, 0)

    def _settle(self, out: Out, call: Call, result: ToolResult, duration_ns: int) -> None:
        if call.state is CallState.EXECUTING:
            self._running -= 1
        call.state = CallState.SETTLED
        call.result = result
        self._unsettled -= 1
        if self.culprit is None and failed(result):
            self.culprit = call
        out.emit(ToolCallFinished(result, duration_ns))


def _not_found(name: str, tools: Mapping[str, ToolRef]) -> str:
    if not tools:
        return f"There is no tool {name[:64]!r}: this run has no tools. Answer without one."
    names = list(tools)
    shown = ", ".join(names[:NAMES_SHOWN])
    more = "" if len(names) <= NAMES_SHOWN else f" and {len(names) - NAMES_SHOWN} more"
    return f"There is no tool {name[:64]!r}. The tools are: {shown}{more}."
