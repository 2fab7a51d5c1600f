"""The caller in the property tests: it answers, executes calls, adds input and files, and lets things expire.

The part of ``TurnRules`` (test_invariants.py) that is about people; the rest of the world is played there.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from turn.draws import brought, file
from turn.shadow import Shadow

from turnwired.domain.approval import ApprovalDecision
from turnwired.domain.attachment import AttachmentState
from turnwired.domain.failure import Reason
from turnwired.domain.message import Message, Part, Role, Text, ToolResultStatus
from turnwired.domain.policy import WaitExpiryMode
from turnwired.turn.facts import (
    ApprovalAnswered,
    AttachmentArrived,
    AttachmentsOverdue,
    Fact,
    InputGiven,
    WaitExpired,
)
from turnwired.turn.machine import TurnMachine
from turnwired.turn.resume import resumed
from turnwired.turn.setup import TurnSetup


class CallerRules(RuleBasedStateMachine):
    """Plays the caller of one run after another."""

    setup: TurnSetup
    machine: TurnMachine
    twin: TurnMachine | None
    shadow: Shadow
    begun: bool
    given: int
    brought: int
    restarts: int
    ignored: int

    def tell(self, fact: Fact, *, means_something: bool = True) -> None:
        raise NotImplementedError

    def finish_tool(self, call_id: str, status: ToolResultStatus) -> None:
        raise NotImplementedError

    # --- people -----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.begun and self.shadow.caller.pending and self.shadow.settled is None)
    @rule(data=st.data(), decision=st.sampled_from(list(ApprovalDecision)), comment=st.sampled_from(["", "Not now."]))
    def a_person_answers(self, data: st.DataObject, decision: ApprovalDecision, comment: str) -> None:
        self.answer(data.draw(st.sampled_from(list(self.shadow.caller.pending))), decision, comment)

    def answer(self, approval_id: str, decision: ApprovalDecision, comment: str) -> None:
        assert approval_id in self.machine.pending_approvals
        call = self.shadow.calls[self.shadow.caller.asked[approval_id]]
        self.tell(ApprovalAnswered(approval_id, decision, "ann", (), comment))
        assert approval_id not in self.machine.pending_approvals
        if decision is ApprovalDecision.REJECT:
            assert call.result is not None
            assert call.result.status is ToolResultStatus.DENIED
            words = [part.content.text for part in call.result.content if isinstance(part.content, Text)]
            assert (f"The user says: {comment}" in words) == bool(comment), "the comment is not told to the model"

    @precondition(lambda self: self.begun and self.shadow.with_caller and self.shadow.settled is None)
    @rule(data=st.data(), status=st.sampled_from([ToolResultStatus.OK, ToolResultStatus.OK, ToolResultStatus.ERROR]))
    def the_caller_hands_in_a_result(self, data: st.DataObject, status: ToolResultStatus) -> None:
        assert list(self.machine.pending_calls) == self.shadow.with_caller
        self.finish_tool(data.draw(st.sampled_from(self.shadow.with_caller)), status)

    @precondition(lambda self: self.begun and self.waited_for and self.shadow.settled is None)
    @rule(data=st.data())
    def nobody_answers_in_time(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(self.waited_for))
        call = self.shadow.calls[self.shadow.caller.asked.get(key, key)]
        self.tell(WaitExpired(key, 5.0))
        assert call.result is not None
        assert call.result.failure is not None
        assert call.result.failure.reason is Reason.WAIT_EXPIRED
        assert call.result.status is (ToolResultStatus.ERROR if call.executed else ToolResultStatus.DENIED)
        if self.shadow.bounds.wait_expiry is WaitExpiryMode.ABORT:
            assert self.shadow.finished is not None, "approval.wait_expiry ABORT did not abort"

    @precondition(lambda self: self.begun and self.shadow.caller.told is not None and self.shadow.settled is None)
    @rule()
    def another_process_takes_over(self) -> None:
        """From here on there are two machines: one that was never interrupted, and one that the log tells of it."""
        self.restarts += 1
        machine = resumed(self.setup, self.shadow.log, 1 + self.restarts)
        assert machine is not None, "a run that waits cannot be resumed"
        assert list(machine.pending_approvals.items()) == list(self.machine.pending_approvals.items())
        assert machine.pending_calls == self.machine.pending_calls
        assert (machine.waiting, machine.takes_input) == (self.machine.waiting, self.machine.takes_input)
        self.twin, self.machine = self.machine, machine
        self.ignored = 0
        self.shadow.restarted()

    @property
    def waited_for(self) -> list[str]:
        return [*self.shadow.caller.pending, *self.shadow.with_caller]

    @precondition(lambda self: self.begun and self.given < 3 and self.shadow.settled is None)
    @rule(number=st.sampled_from([1, 1, 2]))
    def the_caller_adds_input(self, number: int) -> None:
        messages = tuple(
            Message(Role.USER, (Part(f"given_{self.given + n}", Text("More.")),), f"msg_given_{self.given + n}")
            for n in range(number)
        )
        self.given += number
        takes = self.shadow.takes_input
        assert self.machine.takes_input == takes, "promises to read input, or not, and does otherwise"
        known = len(self.shadow.log)
        self.tell(InputGiven(messages), means_something=takes)
        assert len(self.shadow.log) == known + takes

    # --- files ------------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.begun and self.shadow.settled is None)
    @rule(name=st.sampled_from(["a", "b", "c"]))
    def a_file_comes(self, name: str) -> None:
        assert self.machine.takes_input == self.shadow.takes_input, "promises to read what it does not, or the reverse"
        takes = self.shadow.takes_input and name not in self.shadow.ready
        self.brought += 1
        self.tell(AttachmentArrived(file(name, AttachmentState.READY), brought(self.brought)), means_something=takes)
        assert (name in self.shadow.ready) or not takes, "a file that was taken is not told of"

    @precondition(lambda self: self.begun and self.shadow.awaiting)
    @rule()
    def the_wait_for_files_is_over(self) -> None:
        self.tell(AttachmentsOverdue(30.0))
        assert not self.shadow.awaiting, "still waits for files"
