"""A turn machine that stands where a run stood that waits for its caller, made of the run's stored events alone. Pure.

For a process that takes over a run after a restart. Nothing is run again: such a run has nothing under way but
questions and calls that are with the caller. It may know the parts of the machine, never where the events are stored.
"""

from __future__ import annotations

from collections.abc import Iterable

from turnwired.domain.approval import Approval, ApprovalDecision, ApprovalKind
from turnwired.domain.event import (
    ApprovalRequested,
    ApprovalResolved,
    AttachmentUpdated,
    Event,
    IterationFinished,
    IterationRetryScheduled,
    IterationStarted,
    LoggedEvent,
    RunResumed,
    RunWaiting,
    ToolCallArgumentsFinished,
    ToolCallExecuting,
    ToolCallFinished,
    ToolCallStarted,
)
from turnwired.domain.failure import Reason
from turnwired.domain.message import ToolCall, ToolResult
from turnwired.domain.model import IterationKind
from turnwired.domain.outcome import Notice
from turnwired.domain.policy import ToolExecutionMode
from turnwired.domain.usage import Usage
from turnwired.domain.waiting import Awaited
from turnwired.turn.admission import Admission, Verdict
from turnwired.turn.aftermath import repairs_told
from turnwired.turn.attachments import Attachments
from turnwired.turn.batch import COMPLETED, ToolBatch
from turnwired.turn.completion import Completion
from turnwired.turn.ending import COMPLETE
from turnwired.turn.ids import Ids
from turnwired.turn.ledger import Ledger
from turnwired.turn.machine import TurnMachine
from turnwired.turn.pieces import Call, CallState
from turnwired.turn.recovery import Replay
from turnwired.turn.setup import TurnSetup
from turnwired.turn.standing import Standing
from turnwired.turn.waiting import Waiting


def resumed(setup: TurnSetup, events: Iterable[LoggedEvent], epoch: int) -> TurnMachine | None:
    """The machine of a run whose last word is that it waits; None when its log says anything else.

    ``setup`` as the run had it: the permissions without what answers of ALWAYS added in this run. The ids of parts
    carry the ``epoch``, which no process had before. The first model call that follows appends all that the run has
    added to its conversation, since nobody remembers what was sent before. No effect is asked for: the caller of this
    waits for all of ``pending_approvals`` and ``pending_calls``.
    """
    fold = _Fold(setup, epoch)
    for logged in events:
        fold.add(logged)
    standing = fold.standing()
    if standing is None:
        return None
    machine = TurnMachine(setup)
    machine.stand_at(standing)
    return machine


class _Fold:
    """Goes through the log once, and through what the machine decided on its way."""

    def __init__(self, setup: TurnSetup, epoch: int) -> None:
        self._setup = setup
        self._replay = Replay()
        self._ids = Ids(setup.run_id, part_prefix=f"part_e{epoch}_")
        self._ledger = Ledger(setup.price)
        self._attachments = Attachments(setup.attachments, setup.run_id, self._ids, setup.bounds.missing_attachments)
        self._waits = Waiting(setup.run_id, setup.permissions, self._ids)
        self._admission = Admission(setup.bounds, setup.polling_tools, self._waits.loop_action)
        self._awaited = Awaited()
        self._told = False
        self._iteration = 0
        self._kind = IterationKind.STEP
        self._calls: dict[str, Call] = {}  # of this iteration, as is all about calls below
        self._executing: dict[str, bool] = {}
        self._results: dict[str, ToolResult] = {}
        self._verdicts: dict[str, Verdict] = {}
        self._judged = False
        self._pending: dict[str, Approval] = {}
        self._call_count = self._approval_count = self._completed = 0
        self._limit_reported = self._usage_missed = False

    def add(self, logged: LoggedEvent) -> None:
        """Take the next event."""
        self._replay.add(logged)
        event = logged.event
        self._awaited.take(event)
        match event:
            case IterationStarted(kind):
                self._close_batch()
                self._iteration, self._kind = logged.iteration, kind
            case IterationRetryScheduled(usage=usage, cost=cost):
                self._ledger.charged(usage, cost, spent=usage != Usage())
            case IterationFinished(reason, usage=usage, cost=cost):
                self._ledger.charged(usage, cost, spent=True)
                if reason in COMPLETE:
                    self._judge()
                elif self._calls:
                    self._limit_reported = True
            case Notice(Reason.USAGE_UNREPORTED):
                self._usage_missed = True
            case Notice(Reason.TOOL_ARGUMENTS_REPAIRED) if (call := self._call(event)) is not None:
                call.repairs = repairs_told(event, call)
            case AttachmentUpdated(attachment):
                self._attachments.known[attachment.attachment_id] = attachment
            case RunWaiting():
                self._told = True
            case RunResumed():
                self._told = False
            case _:
                self._add_call_event(event)

    def _add_call_event(self, event: Event) -> None:
        match event:
            case ToolCallStarted(call_id, tool, requested_name):
                self._call_count += 1
                call = self._calls[call_id] = Call()
                call.call_id, call.tool = call_id, tool
                call.name = requested_name if tool is None else tool.routed_name
            case ToolCallArgumentsFinished(call_id, arguments):
                self._calls[call_id].arguments = arguments
            case ToolCallExecuting(call_id):
                self._executing[call_id] = True
            case ToolCallFinished(result):
                self._told = False  # what it waits for now was not told any more
                self._results[result.call_id] = result
            case ApprovalRequested(approval):
                self._told = False
                self._approval_count += 1
                self._pending[approval.approval_id] = approval
            case ApprovalResolved():
                self._told = False
                approval = self._pending.pop(event.approval_id)
                self._waits.permissions = self._waits.permissions.with_rules(event.added_rules)
                if event.decision is not ApprovalDecision.REJECT:
                    self._verdicts.pop(approval.call.call_id, None)
            case _:
                pass

    def _call(self, notice: Notice) -> Call | None:
        return self._calls.get(notice.metadata.get("call_id", ""))

    def _judge(self) -> None:
        calls = tuple(self._calls.values())
        if calls:
            self._judged = True
            self._verdicts = self._admission.judge(calls)
            self._admission.notices(calls, self._verdicts)  # so that what was told is not told again

    def _close_batch(self) -> None:
        """The next iteration begins: all calls have settled."""
        for call_id, result in self._results.items():
            self._calls[call_id].result = result
        if self._judged:
            self._completed += sum(map(self._is_completed, self._results))
            self._admission.settled(tuple(self._calls.values()), self._verdicts)
        self._judged = False
        self._calls, self._executing, self._results, self._verdicts = {}, {}, {}, {}

    def _is_completed(self, call_id: str) -> bool:
        """Whether a tool, or the caller in its place, has given the result."""
        result = self._results[call_id]
        expired = result.failure is not None and result.failure.reason is Reason.WAIT_EXPIRED
        return call_id in self._executing and result.status in COMPLETED and not expired

    def standing(self) -> Standing | None:
        """Where the run stands; None when it does not wait, or anything is under way beside."""
        told = self._awaited.now if self._told else None
        if told is not None and any(approval.kind is ApprovalKind.INPUT for approval in told.approvals):
            return None  # the call that asked ran, in a process that is no more
        if told is None or {each.approval_id for each in told.approvals} != set(self._pending):
            return None
        handed = {call.call_id: call for call in told.client_tool_calls}
        asked = {approval.call.call_id: approval.call for approval in told.approvals}
        open_calls = {call_id for call_id in self._calls if call_id not in self._results}
        if not self._judged or open_calls != handed.keys() | asked.keys():
            return None
        self._waits.restore(told)
        batch = self._batch(handed, asked)
        self._ids.goes_on_after(self._call_count, self._approval_count)
        bounds = self._setup.bounds
        completion = Completion(bounds, self._setup.effective_policy.policy.output.max_output_tokens)
        if self._kind is IterationKind.SYNTHESIS:
            completion.resume()
        return Standing(
            iteration=self._iteration,
            kind=self._kind,
            ids=self._ids,
            transcript=self._replay.transcript(self._setup.run_id, self._ids, tools_run=True),
            ledger=self._ledger,
            admission=self._admission,
            completion=completion,
            waiting=self._waits,
            batch=batch,
            attachments=self._attachments,
            calls_settled=self._call_count,
            calls_completed=self._completed,
            limit_reported=self._limit_reported,
            usage_missed=self._usage_missed,
        )

    def _batch(self, handed: dict[str, ToolCall], asked: dict[str, ToolCall]) -> ToolBatch:
        bounds = self._setup.bounds
        returns = bounds.execution_mode is ToolExecutionMode.RETURN
        batch = ToolBatch(tuple(self._calls.values()), self._ids, bounds.max_parallel_calls, returns=returns)
        batch.verdicts = self._verdicts
        for call_id, call in self._calls.items():
            if call_id in handed:
                call.tool, call.state = handed[call_id].tool, CallState.WITH_CALLER
            elif call_id in asked:
                call.tool, call.state = asked[call_id].tool, CallState.ASKED
            else:
                batch.restore(call, self._results[call_id], completed=self._is_completed(call_id))
        return batch
