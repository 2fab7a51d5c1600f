"""What a run asks of its caller, kept beside the store from the log alone: questions, calls, added words and files.

The part of a run's ledger that is about people. It asserts what must hold as the log grows, and knows no engine.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from turnwired.domain.approval import BY_CASCADE, BY_TIMEOUT, BY_TOOL, Approval, ApprovalDecision, ApprovalKind
from turnwired.domain.attachment import AttachmentState
from turnwired.domain.event import (
    ApprovalRequested,
    ApprovalResolved,
    AttachmentUpdated,
    Event,
    InputAppended,
    IterationStarted,
    RunFinished,
    RunResumed,
    RunStarted,
    RunWaiting,
    ToolCallExecuting,
    ToolCallFinished,
    ToolCallStarted,
)
from turnwired.domain.failure import Reason
from turnwired.domain.message import Message, ToolResult
from turnwired.domain.outcome import Notice
from turnwired.domain.policy import ToolExecutionMode
from turnwired.domain.tool import ToolSource
from turnwired.domain.waiting import Awaited


@dataclass
class CallerBook:
    """``questions``, ``answers``, ``handed`` (calls of the caller, with their results) and ``appended`` by id.

    ``seen``: how often which kind of thing has happened, by a name.
    """

    questions: dict[str, Approval] = field(default_factory=dict[str, Approval])
    answers: dict[str, ApprovalResolved] = field(default_factory=dict[str, ApprovalResolved])
    handed: dict[str, ToolResult | None] = field(default_factory=dict[str, ToolResult | None])
    appended: dict[str, Message] = field(default_factory=dict[str, Message])
    files: dict[str, AttachmentState] = field(default_factory=dict[str, AttachmentState])
    seen: Counter[str] = field(default_factory=Counter[str])
    awaited: Awaited = field(default_factory=Awaited)
    begun: bool = False
    _own: set[str] = field(default_factory=set[str])
    _returns: bool = False
    _waited: bool = False

    @property
    def open_questions(self) -> list[str]:
        """Ids of those without an answer."""
        return [approval_id for approval_id in self.questions if approval_id not in self.answers]

    @property
    def open_calls(self) -> list[str]:
        """Ids of the calls that the caller has and has not handed in."""
        return [call_id for call_id, result in self.handed.items() if result is None]

    @property
    def awaits_files(self) -> bool:
        """Whether the model is not called yet because a file may still come."""
        return not self.begun and AttachmentState.PENDING in self.files.values()

    @property
    def asking(self) -> set[str]:
        """Calls whose tool runs and has asked a person something."""
        asked = [self.questions[approval_id] for approval_id in self.open_questions]
        return {each.call.call_id for each in asked if each.kind is ApprovalKind.INPUT}

    def may_run(self, call_id: str) -> bool:
        """Whether nobody has to be asked about the call, or all who were said yes, and it is not the caller's."""
        about = [
            approval_id
            for approval_id, asked in self.questions.items()
            if asked.call.call_id == call_id and asked.kind is not ApprovalKind.INPUT
        ]
        yes = all(key in self.answers and self.answers[key].decision is not ApprovalDecision.REJECT for key in about)
        return yes and call_id not in self.handed

    def take(self, event: Event, *, goes_on: bool) -> None:
        """The next event. ``goes_on``: whether a tool of the service runs."""
        self.awaited.take(event)
        match event:
            case RunStarted():
                self._returns = event.effective_policy.policy.tool.execution_mode is ToolExecutionMode.RETURN
            case IterationStarted():
                self.begun = True
                assert not self.open_questions, "the model is called while a question is open"
            case ToolCallStarted(call_id, tool) if tool is not None and tool.source is ToolSource.CLIENT:
                self._own.add(call_id)
            case ToolCallExecuting(call_id) if self._returns or call_id in self._own:
                self.handed[call_id] = None
                self.seen["a call is handed out"] += 1
            case ToolCallFinished(result):
                self._finished(result)
            case AttachmentUpdated(attachment):
                before = self.files.get(attachment.attachment_id)
                assert before is not AttachmentState.READY, "a file comes twice"
                self.files[attachment.attachment_id] = attachment.state
                late = before is AttachmentState.FAILED
                self.seen["a file comes late" if late else f"a file is {attachment.state.value}"] += 1
            case InputAppended(messages):
                for message in messages:
                    assert message.message_id not in self.appended, "the same words are taken twice"
                    self.appended[message.message_id] = message
                    self.seen["words are added"] += 1
            case Notice(reason=Reason.TOOL_LOOP_DETECTED):
                self.seen["a circle is told"] += 1
            case RunFinished(outcome=outcome):
                by = "" if outcome.limit_trip is None else f" by {outcome.limit_trip.policy_path}"
                self.seen[f"{outcome.kind.value}{by}"] += 1
            case _:
                self._take_question(event, goes_on=goes_on)

    def _take_question(self, event: Event, *, goes_on: bool) -> None:
        match event:
            case ApprovalRequested(approval):
                assert approval.approval_id not in self.questions, "a question is asked twice"
                self.questions[approval.approval_id] = approval
                self.seen[f"asked because of {approval.kind.value}"] += 1
            case ApprovalResolved(approval_id, decision, by):
                assert approval_id in self.questions, "an answer to nothing"
                assert approval_id not in self.answers, "a question is answered twice"
                self.answers[approval_id] = event
                who = by if by in {BY_CASCADE, BY_TIMEOUT, BY_TOOL} else "a person"
                self.seen[f"{decision.value} by {who}"] += 1
            case RunWaiting():
                assert not goes_on, "a run says that it waits, and goes on"
                now = self.awaited.now
                assert now is not None
                assert [item.approval_id for item in now.approvals] == self.open_questions
                assert {call.call_id for call in now.client_tool_calls} == set(self.open_calls)
                assert now.approvals or now.client_tool_calls, "a run waits for nothing"
                self._waited = True
                self.seen["a run waits"] += 1
            case RunResumed():
                assert self._waited, "a run goes on that did not wait"
                self._waited = False
            case _:
                pass

    def _finished(self, result: ToolResult) -> None:
        if result.call_id not in self.handed:
            return
        assert self.handed[result.call_id] is None, "a call of the caller ends twice"
        self.handed[result.call_id] = result
        expired = result.failure is not None and result.failure.reason is Reason.WAIT_EXPIRED
        self.seen["a call expires" if expired else f"a call of the caller gives {result.status.value}"] += 1
