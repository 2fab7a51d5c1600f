"""The side of one run that faces its caller: questions and handed-out calls, when they expire, what the store keeps.

It watches the events of the run go by and stamps those that carry times. What the run asks and when it waits is the
turn machine's to say; what answers mean too. It starts no task: what is due is fed through the function it was given.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from turnwired.codec.approval import encode_approval, encode_waiting
from turnwired.domain.approval import Approval, ApprovalKind, ApprovalState
from turnwired.domain.event import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
    InputAppended,
    LoggedEvent,
    RunFinished,
    RunResumed,
    RunStarted,
    RunWaiting,
    ToolCallExecuting,
    ToolCallFinished,
    ToolCallStarted,
)
from turnwired.domain.message import Message
from turnwired.domain.policy import PermissionRule
from turnwired.domain.run import Run, RunState
from turnwired.domain.tool import ToolSource
from turnwired.domain.waiting import Awaited
from turnwired.engine.log import now_ns
from turnwired.store.port import Changes, StoredApproval, StoredRule
from turnwired.turn.facts import WaitExpired
from turnwired.turn.trace import resolved

FACING_CALLER = (
    ApprovalRequested,
    ApprovalResolved,
    RunWaiting,
    RunResumed,
    InputAppended,
    ToolCallFinished,
    RunFinished,
)
"""Events that this module takes note of."""


@dataclass(slots=True)
class HandedOut:
    """A call that the caller executes: since when, and the sequence of its end once it has one."""

    since_ns: int
    finished: int | None = None


class CallerSide:
    """What one run asks of its caller, and the answers.

    ``approvals`` are all questions of the run as they stand, ``resolutions`` the sequences of their answers, ``calls``
    the calls that were handed out, ``appended`` the messages that were added, with the sequence of each;
    ``added_rules`` what was allowed always.
    """

    def __init__(self, run: Run, tenant: str, wait_timeout: float | None, due: Callable[[WaitExpired], None]) -> None:
        self.approvals: dict[str, Approval] = {}
        self.resolutions: dict[str, int] = {}
        self.calls: dict[str, HandedOut] = {}
        self.appended: dict[str, tuple[int, Message]] = {}
        self._waits: deque[tuple[int, RunWaiting | None]] = deque()  # newest last; the first may be what is visible
        self.added_rules: tuple[PermissionRule, ...] = ()
        self._run = run
        self._tenant = tenant
        self._timeout = wait_timeout
        self._due = due
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._executing: dict[str, int] = {}
        self._awaited = Awaited()
        self._newest_question = 0  # Unix nanoseconds

    @property
    def waiting(self) -> tuple[int, RunWaiting] | None:
        """What the run waits for now, with the sequence of the event that says so."""
        sequence, waiting = self._waits[-1] if self._waits else (0, None)
        return None if waiting is None else (sequence, waiting)

    def waiting_as_of(self, sequence: int) -> RunWaiting | None:
        """What the run waited for when this was its last event. It is asked for no earlier one afterwards."""
        while len(self._waits) > 1 and self._waits[1][0] <= sequence:
            self._waits.popleft()
        return self._waits[0][1] if self._waits and self._waits[0][0] <= sequence else None

    @property
    def is_asked_by_tool(self) -> bool:
        """Whether the run waits for an answer to a tool that is at work in this process."""
        asked = () if self.waiting is None else self.waiting[1].approvals
        return any(approval.kind is ApprovalKind.INPUT for approval in asked)

    def close(self) -> None:
        """Nothing expires any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def executing(self, call_id: str, time_ns: int) -> None:
        """A call is being executed, by whomever."""
        self._executing[call_id] = time_ns

    # --- expiry -------------------------------------------------------------------------------------------------------

    def await_caller(self, key: str) -> None:
        """The run waits for the answer to a question, or for the result of a call, from now on or since before."""
        if key not in self.approvals:
            self._hand_out(key)
        timeout, expires = self._timeout, self._expires(key)
        if timeout is None or expires is None:
            return
        delay = max(0.0, (expires - now_ns()) / 1e9)
        self._timers[key] = asyncio.get_running_loop().call_later(delay, self._due, WaitExpired(key, timeout))

    def _hand_out(self, call_id: str) -> None:
        if call_id not in self.calls:
            self.calls[call_id] = HandedOut(self._executing.get(call_id) or now_ns())

    def _expires(self, key: str) -> int | None:
        """Unix nanoseconds; None: never."""
        if (approval := self.approvals.get(key)) is not None:
            return approval.expire_time_ns or None
        call = self.calls.get(key)
        return None if call is None or self._timeout is None else call.since_ns + int(self._timeout * 1e9)

    def _over(self, key: str) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    # --- events -------------------------------------------------------------------------------------------------------

    def stamped(self, event: Event, time_ns: int) -> Event:
        """The event with the times that only the driver knows."""
        match event:
            case ApprovalRequested(approval):
                # Lists go by the time: no two questions of a run have the same.
                self._newest_question = asked_at = max(time_ns, self._newest_question + 1)
                expires = 0 if self._timeout is None else asked_at + int(self._timeout * 1e9)
                asked = replace(approval, run_id=self._run.run_id, create_time_ns=asked_at, expire_time_ns=expires)
                return ApprovalRequested(asked)
            case RunWaiting(approvals, calls):
                for call in calls:
                    self._hand_out(call.call_id)
                keys = [*(item.approval_id for item in approvals), *(call.call_id for call in calls)]
                keys += self._awaited.keys if event.only_new else ()
                times = [time for time in map(self._expires, keys) if time is not None]
                known = tuple(self.approvals.get(item.approval_id, item) for item in approvals)
                return replace(event, approvals=known, expire_time_ns=min(times, default=0))
            case InputAppended(messages):
                return InputAppended(tuple(_dated(message, time_ns) for message in messages))
            case _:
                return event

    def record(self, event: Event, sequence: int, time_ns: int) -> Changes | None:
        """Take note of an event that is in the log now, and say what the store keeps of it beside the log."""
        self._awaited.take(event)
        match event:
            case ApprovalRequested(approval):
                self.approvals[approval.approval_id] = approval
                self._newest_question = max(self._newest_question, approval.create_time_ns)
                return Changes(approvals=(self._stored(approval),))
            case ApprovalResolved(approval_id):
                return self._resolved(event, approval_id, sequence, time_ns)
            case RunWaiting():
                waiting = self._awaited.now or event
                self._waits.append((sequence, waiting))
                return Changes(RunState.WAITING, encode_waiting(waiting))
            case RunResumed():
                self._waits.append((sequence, None))
                return Changes(RunState.RUNNING)
            case InputAppended(messages):
                for message in messages:
                    self.appended[message.message_id] = sequence, message
            case ToolCallFinished(result):
                self._executing.pop(result.call_id, None)
                if (call := self.calls.get(result.call_id)) is not None:
                    call.finished = sequence
                    self._over(result.call_id)
            case RunFinished():
                self._waits.append((sequence, None))
                return self._withdrawn()
            case _:
                pass
        return None

    def _resolved(self, event: ApprovalResolved, approval_id: str, sequence: int, time_ns: int) -> Changes | None:
        self._over(approval_id)
        asked = self.approvals.get(approval_id)
        if asked is None:
            return None
        self.approvals[approval_id] = answered = resolved(asked, event, time_ns)
        self.resolutions[approval_id] = sequence
        self.added_rules += event.added_rules
        rules = {
            (rule.permission, rule.pattern, str(rule.action)): StoredRule(
                rule.permission, rule.pattern, str(rule.action), time_ns
            )
            for rule in event.added_rules
        }
        return Changes(approvals=(self._stored(answered),), rules=tuple(rules.values()))

    def _withdrawn(self) -> Changes | None:
        """The run has ended: nobody needs to answer what is still open."""
        open_ones = [approval for approval in self.approvals.values() if approval.state is ApprovalState.PENDING]
        if not open_ones:
            return None
        gone = [replace(approval, state=ApprovalState.WITHDRAWN) for approval in open_ones]
        self.approvals.update({approval.approval_id: approval for approval in gone})
        return Changes(approvals=tuple(self._stored(approval) for approval in gone))

    def _stored(self, approval: Approval) -> StoredApproval:
        run = self._run
        return StoredApproval(
            approval.approval_id,
            self._tenant,
            run.run_id,
            run.agent_id,
            approval.state,
            approval.create_time_ns,
            encode_approval(approval),
            run.session_id,
        )

    # --- after a restart ----------------------------------------------------------------------------------------------

    def restore(self, events: Iterable[LoggedEvent], call_ids: Iterable[str]) -> None:
        """Take note of a log that was written before. ``call_ids`` are those of the calls that the caller has.

        Those that it had and has answered are known by their source, or by what the run waited for: their results may
        be handed in again.
        """
        with_caller, executing = set(call_ids), dict[str, int]()
        for logged in events:
            match event := logged.event:
                case ToolCallStarted(call_id, tool) if tool is not None and tool.source is ToolSource.CLIENT:
                    with_caller.add(call_id)
                case ToolCallExecuting(call_id) if call_id in with_caller:
                    self.calls[call_id] = HandedOut(logged.time_ns)
                case ToolCallExecuting(call_id):
                    executing[call_id] = logged.time_ns
                case RunWaiting(client_tool_calls=calls):
                    for call in calls:  # also those of other sources, in the mode RETURN
                        since = executing.get(call.call_id, logged.time_ns)
                        self.calls.setdefault(call.call_id, HandedOut(since))
                case _:
                    pass
            self.record(event, logged.sequence, logged.time_ns)


def active_ns(events: Iterable[LoggedEvent], until_ns: int) -> int:
    """How long a run was active before ``until_ns``, without the time that it waited for its caller."""
    active = 0
    since: int | None = None
    for logged in events:
        match logged.event:
            case RunStarted() | RunResumed():
                since = logged.time_ns
            case RunWaiting() if since is not None:
                active += max(0, logged.time_ns - since)
                since = None
            case _:
                pass
    return active if since is None else active + max(0, until_ns - since)


def _dated(message: Message, time_ns: int) -> Message:
    return message if message.create_time_ns else replace(message, create_time_ns=time_ns)
