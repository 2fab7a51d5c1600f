"""What a run asks of its caller and what it waits for: questions about calls, their answers, and being told so. Pure.

It rules over calls that the registry has found, and knows permissions and the calls of one batch at a time; it never
starts a call, and knows nothing of models, clocks or stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from turnwired.domain.approval import (
    BY_CASCADE,
    BY_TIMEOUT,
    BY_TOOL,
    INPUT,
    Approval,
    ApprovalDecision,
    ApprovalKind,
    PermissionRequest,
    digest_of_call,
)
from turnwired.domain.event import ApprovalRequested, ApprovalResolved, RunResumed, RunWaiting
from turnwired.domain.failure import Reason
from turnwired.domain.message import ToolCall
from turnwired.domain.permission import DOOM_LOOP, literal
from turnwired.domain.policy import PermissionAction, PermissionRule
from turnwired.policy.permissions import ASKING, Permissions, Ruling, asking_for
from turnwired.turn.batch import ToolBatch
from turnwired.turn.effects import AnswerTool, AwaitCaller
from turnwired.turn.facts import (
    ApprovalAnswered,
    CallerResult,
    InputAsked,
    InputDropped,
    ToolFact,
    ToolFinished,
    ToolProgress,
    ToolResolved,
    WaitExpired,
)
from turnwired.turn.history import unknown_tool
from turnwired.turn.ids import Ids
from turnwired.turn.out import Out
from turnwired.turn.pieces import Call, CallState

FEW = 16
"""So many questions and calls are told in full each time; of more, after the first time, only what is new.

Else the log would grow with the square of the questions that are answered one by one.
"""
REJECTED_TOO = "Not executed: the user rejected another call of this answer, and with it this one."


class Waiting:
    """The questions of one run. ``permissions`` are those in force now: answers of ALWAYS add to them."""

    def __init__(self, run_id: str, permissions: Permissions, ids: Ids) -> None:
        self._run_id = run_id
        self._ids = ids
        self.permissions = permissions
        self._pending: dict[str, Approval] = {}
        self._asking: dict[str, str] = {}
        self._waits = False
        self._told: frozenset[str] = frozenset()

    @property
    def approvals(self) -> Mapping[str, Approval]:
        """Questions without an answer, by id, in the order in which they were asked."""
        return MappingProxyType(self._pending)

    def now(self, batch: ToolBatch | None) -> RunWaiting | None:
        """All that the run waits for, as far as it was told; None: it goes on. The times are the driver's to put in."""
        if not self._waits or batch is None:
            return None
        return RunWaiting(tuple(self._pending.values()), tuple(calls_with_caller(batch).values()))

    def loop_action(self, routed_name: str) -> PermissionAction:
        """What is done about a call of this tool that goes round in circles."""
        return self.permissions.loop_action(routed_name)

    def take(self, fact: ToolFact, batch: ToolBatch, out: Out) -> bool:
        """Take a fact about a call. False when it means nothing: nobody waits for it, or not any more."""
        match fact:
            case ToolProgress():
                return batch.progressed(fact, out)
            case ToolResolved():
                taken = batch.resolved(fact, out)
                if taken:
                    self._rule(fact, batch, out)
                return taken
            case InputAsked():
                return self._input(fact, batch, out)
            case InputDropped():
                return self._give_up(fact.call_id, batch, out)
            case ToolFinished():
                taken = batch.finished(fact, out)
                if taken:
                    self._give_up(fact.call_id, batch, out)
                return taken
            case CallerResult():
                return batch.finished(fact, out)
            case ApprovalAnswered():
                return self._answered(fact, batch, out)
            case WaitExpired():
                return self._expired(fact, batch, out)

    # --- a call was found ---------------------------------------------------------------------------------------------

    def _rule(self, fact: ToolResolved, batch: ToolBatch, out: Out) -> None:
        """Say of a call that may run otherwise whether it does, is denied, or waits for a person."""
        call = batch.call(fact.call_id)
        if call is None or call.state is not CallState.READY or call.tool is None:
            return
        asks_for = fact.asks_for or asking_for(call.tool.routed_name)
        ruling = self.permissions.decide_call(call.tool.routed_name, asks_for, fact.annotations)
        verdict = batch.verdicts.get(call.call_id)
        if ruling.action is PermissionAction.DENY:
            batch.deny(out, call, Reason.TOOL_DENIED, _denied(call.name, ruling))
        elif verdict is not None:
            name = call.tool.routed_name
            circle = PermissionRequest(DOOM_LOOP, (name,), (literal(name),), verdict.question)
            self._ask(ApprovalKind.LOOP_DETECTED, circle, call, out)
        elif ruling.action in ASKING:
            self._ask(ruling.kind, asks_for, call, out)

    def _ask(self, kind: ApprovalKind, request: PermissionRequest, call: Call, out: Out) -> None:
        call.state = CallState.ASKED
        self._put(kind, request, call, out)

    def _put(
        self, kind: ApprovalKind, request: PermissionRequest, call: Call, out: Out, schema: str | None = None
    ) -> str:
        called = call_of(call)
        name = called.tool.routed_name
        approval = Approval(
            approval_id=self._ids.approval(),
            kind=kind,
            call=called,
            permission=request.permission,
            patterns=request.patterns,
            always_patterns=request.always_patterns,
            title=request.title or f"Call {name}?",
            run_id=self._run_id,
            call_digest=digest_of_call(name, call.arguments),
            input_schema_json=schema,
        )
        self._pending[approval.approval_id] = approval
        out.emit(ApprovalRequested(approval))
        out.do(AwaitCaller(approval.approval_id))
        return approval.approval_id

    # --- a tool asks while it runs ------------------------------------------------------------------------------------

    def _input(self, fact: InputAsked, batch: ToolBatch, out: Out) -> bool:
        """Put a tool's question to a person. No rule answers it: it is the tool that wants to know."""
        call = batch.call(fact.call_id)
        if call is None or call.state is not CallState.EXECUTING or call.asking:
            return False
        request = PermissionRequest(INPUT, (), title=fact.title)
        self._asking[call.call_id] = self._put(ApprovalKind.INPUT, request, call, out, fact.input_schema_json)
        call.asking = True
        return True

    def _tell(self, approval: Approval, answer: ApprovalResolved, batch: ToolBatch, out: Out) -> None:
        """Give a tool the answer to its question; its call goes on, whatever the answer is."""
        del self._pending[approval.approval_id]
        out.emit(answer)
        call = batch.call(approval.call.call_id)
        assert call is not None, "a question is about a call of the batch"
        del self._asking[call.call_id]
        call.asking = False
        decision = None if answer.resolved_by == BY_TIMEOUT else answer.decision
        out.do(AnswerTool(call.call_id, approval.approval_id, decision))

    def _give_up(self, call_id: str, batch: ToolBatch, out: Out) -> bool:
        """A tool does not wait for the answer to its question any more, or has ended. False: it has none."""
        approval_id = self._asking.pop(call_id, None)
        call = batch.call(call_id)
        if approval_id is None or call is None:
            return False
        call.asking = False
        del self._pending[approval_id]
        out.emit(ApprovalResolved(approval_id, ApprovalDecision.REJECT, BY_TOOL))
        return True

    # --- answers ------------------------------------------------------------------------------------------------------

    def _answered(self, fact: ApprovalAnswered, batch: ToolBatch, out: Out) -> bool:
        """Take an answer. False when nobody waits for it: the first one stands."""
        approval, by = self._pending.get(fact.approval_id), fact.resolved_by
        if approval is None:
            return False
        if approval.kind is ApprovalKind.INPUT:
            self._tell(approval, ApprovalResolved(fact.approval_id, fact.decision, by, fact.comment), batch, out)
            return True
        match fact.decision:
            case ApprovalDecision.ONCE:
                self._resolve(out, batch, approval, ApprovalResolved(approval.approval_id, fact.decision, by))
            case ApprovalDecision.ALWAYS:
                shown = approval.always_patterns
                chosen = tuple(pattern for pattern in shown if not fact.patterns or pattern in fact.patterns)
                added = tuple(PermissionRule(approval.permission, each, PermissionAction.ALLOW) for each in chosen)
                answer = ApprovalResolved(approval.approval_id, fact.decision, by, added_rules=added)
                self._resolve(out, batch, approval, answer)
                self.permissions = self.permissions.with_rules(added)
                self._allow_others(out, batch)
            case ApprovalDecision.REJECT:
                answer = ApprovalResolved(approval.approval_id, fact.decision, by, fact.comment)
                words = "Not executed: the user rejected the call."
                comment = f"The user says: {fact.comment}" if fact.comment else ""
                self._reject(out, batch, approval, answer, Reason.TOOL_REJECTED, words, comment)
                for other in tuple(self._pending.values()):
                    if other.kind is ApprovalKind.INPUT:
                        continue  # its call was let run, and runs
                    answer = ApprovalResolved(other.approval_id, fact.decision, BY_CASCADE)
                    self._reject(out, batch, other, answer, Reason.TOOL_REJECTED, REJECTED_TOO)
        return True

    def _expired(self, fact: WaitExpired, batch: ToolBatch, out: Out) -> bool:
        """Nobody answered, or handed in the result, in time. False when nobody waits for it any more."""
        approval = self._pending.get(fact.key)
        if approval is not None:
            answer = ApprovalResolved(fact.key, ApprovalDecision.REJECT, BY_TIMEOUT)
            if approval.kind is ApprovalKind.INPUT:
                self._tell(approval, answer, batch, out)
                return True
            words = "Not executed: the call needs the user's approval, and nobody answered in time."
            self._reject(out, batch, approval, answer, Reason.WAIT_EXPIRED, words)
            return True
        call = batch.call(fact.key)
        if call is None or call.state is not CallState.WITH_CALLER:
            return False
        batch.expired(out, call)
        return True

    def _allow_others(self, out: Out, batch: ToolBatch) -> None:
        """Settle the questions that need none any more, now that there are new rules.

        But not those about circles: each stands for what its tool would be asked about, too; and not those of tools,
        and not those that nothing is allowed for longer by: each waits for an answer of its own.
        """
        for approval in tuple(self._pending.values()):
            ruled = approval.kind in {ApprovalKind.RULE, ApprovalKind.DESTRUCTIVE}
            name = approval.call.tool.routed_name
            if (
                ruled
                and approval.always_patterns
                and self.permissions.rules_allow(name, approval.permission, approval.patterns)
            ):
                answer = ApprovalResolved(approval.approval_id, ApprovalDecision.ONCE, BY_CASCADE)
                self._resolve(out, batch, approval, answer)

    def _resolve(self, out: Out, batch: ToolBatch, approval: Approval, answer: ApprovalResolved) -> Call:
        del self._pending[answer.approval_id]
        out.emit(answer)
        call = batch.call(approval.call.call_id)
        assert call is not None, "a question is about a call of the batch"
        if answer.decision is not ApprovalDecision.REJECT:
            batch.allow(call)
        return call

    def _reject(
        self,
        out: Out,
        batch: ToolBatch,
        approval: Approval,
        answer: ApprovalResolved,
        reason: Reason,
        words: str,
        comment: str = "",
    ) -> None:
        batch.deny(out, self._resolve(out, batch, approval, answer), reason, words, comment)

    # --- waiting ------------------------------------------------------------------------------------------------------

    def resume(self, batch: ToolBatch, out: Out) -> None:
        """Say that the run goes on, if it waited and something of it can."""
        if self._waits and batch.goes_on:
            self._waits = False
            out.emit(RunResumed())

    def wait(self, batch: ToolBatch, out: Out) -> None:
        """Say what the run waits for, if nothing of it can go on without the caller. Called when that has changed."""
        self._waits = not batch.goes_on
        waiting = self.now(batch)
        if waiting is not None:
            out.emit(self._news(waiting))

    def _news(self, waiting: RunWaiting) -> RunWaiting:
        """What is to be told of this: all, or what was not told before."""
        before, self._told = self._told, _keys(waiting)
        if len(self._told) <= FEW or not before & self._told:
            return waiting
        approvals = tuple(item for item in waiting.approvals if item.approval_id not in before)
        calls = tuple(call for call in waiting.client_tool_calls if call.call_id not in before)
        return replace(waiting, approvals=approvals, client_tool_calls=calls, only_new=True)

    def withdraw(self) -> None:
        """The run has ended: nothing is asked any more."""
        self._pending.clear()
        self._asking.clear()
        self._waits = False

    def restore(self, waiting: RunWaiting) -> None:
        """Stand where a run stood that was told to wait for this."""
        self._pending = {approval.approval_id: approval for approval in waiting.approvals}
        self._told = _keys(waiting)
        self._waits = True


def _keys(waiting: RunWaiting) -> frozenset[str]:
    calls = (call.call_id for call in waiting.client_tool_calls)
    return frozenset((*(approval.approval_id for approval in waiting.approvals), *calls))


def calls_with_caller(batch: ToolBatch | None) -> dict[str, ToolCall]:
    """The calls that the caller executes now, by id."""
    return {call.call_id: call_of(call) for call in batch.with_caller} if batch is not None else {}


def call_of(call: Call) -> ToolCall:
    """The call as readers see it, with the model's own arguments."""
    return ToolCall(call.call_id, call.tool if call.tool is not None else unknown_tool(call.name), call.arguments)


def _denied(name: str, ruling: Ruling) -> str:
    who = f"the rule for {ruling.source[:128]!r}" if ruling.kind is ApprovalKind.RULE else ruling.source
    return f"Not executed: the policy of this run ({who}) denies {name[:64]}. Go on without it, or say what you lack."
