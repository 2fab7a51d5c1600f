"""What callers do to a run in progress: answer its questions, hand in results, add input. And reading the questions.

Each answer is told when what it decided is durable. Whether anything waits for it is the turn machine's to say, asked
right before it is told, with nothing in between: of several answers at once exactly one counts.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from turnwired.codec.approval import decode_approval
from turnwired.domain.approval import Approval, ApprovalDecision, ApprovalState
from turnwired.domain.attachment import Attachment, AttachmentState
from turnwired.domain.errors import Conflict, FieldViolation, InvalidRequest, NotFound
from turnwired.domain.event import InputAppended
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import Blob, Message, Part, Text, ToolResult
from turnwired.domain.run import Caller, Run
from turnwired.domain.text import clean_text
from turnwired.engine.attaching import arrived, require_fitting
from turnwired.engine.execution import Execution
from turnwired.engine.ids import new_message_ids
from turnwired.engine.log import now_ns
from turnwired.engine.recovery import read_log
from turnwired.store.port import ApprovalFilter, Store
from turnwired.tools.port import ToolOutput
from turnwired.turn.facts import ApprovalAnswered, AttachmentArrived, CallerResult, InputGiven


class Runs(Protocol):
    """What this module needs of the engine."""

    async def get_run(self, caller: Caller, run_id: str) -> Run:
        """The run as it stands. Raises NotFound."""
        ...

    async def execution(self, caller: Caller, run_id: str) -> Execution | None:
        """The run's execution in this process; None when it has ended. Raises NotFound, Unavailable."""
        ...


File = tuple[Attachment, Blob]
"""A file that comes while the run goes on, and its bytes."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A person's answer. ``patterns``: those of the question's ``always_patterns`` that ALWAYS allows; empty: all.

    ``call_digest``: of the call that the person was shown; None: not held against it. ``input_json``: the values that a
    tool asked for, an object.
    """

    decision: ApprovalDecision
    patterns: tuple[str, ...] = ()
    comment: str = ""
    call_digest: str | None = None
    input_json: str | None = None


@dataclass(frozen=True, slots=True)
class Handed:
    """What a call gave that the caller executed."""

    call_id: str
    content: tuple[Part, ...] = ()
    structured_json: str | None = None
    is_error: bool = False
    message: str = ""
    """With an error: why, in the caller's words, for the model where ``content`` says nothing."""


class Receipt(StrEnum):
    """What became of a result that was handed in."""

    ACCEPTED = "ACCEPTED"
    DUPLICATE = "DUPLICATE"
    UNKNOWN_CALL = "UNKNOWN_CALL"


@dataclass(frozen=True, slots=True)
class Receipts:
    """One receipt per result, in their order, the calls that are still missing, and the run after the results."""

    receipts: tuple[tuple[str, Receipt], ...]
    pending_call_ids: tuple[str, ...]
    run: Run


class Steering:
    """Answers, results and input for the runs of one engine."""

    def __init__(self, store: Store, runs: Runs) -> None:
        self._store = store
        self._runs = runs

    async def list_approvals(
        self, query: ApprovalFilter, page_size: int, page_token: str
    ) -> tuple[Sequence[Approval], str]:
        """Oldest first, and the token of the next page. Raises InvalidRequest on a bad token."""
        stored, token = await self._store.list_approvals(query, page_size, page_token)
        return [decode_approval(item.body) for item in stored], token

    # --- answers ------------------------------------------------------------------------------------------------------

    async def resolve(self, caller: Caller, run_id: str, approval_id: str, answer: Answer) -> Run:
        """Answer a question; returns the run when the decision is durable. The same decision again changes nothing.

        Raises NotFound; Conflict APPROVAL_DIGEST_MISMATCH, APPROVAL_ALREADY_RESOLVED (metadata ``decision`` and
        ``resolved_by``) or RUN_SETTLED; InvalidRequest for patterns that the question does not offer.
        """
        execution = await self._runs.execution(caller, run_id)
        asked = None if execution is None else execution.caller_side.approvals.get(approval_id)
        if execution is None or asked is None:
            stored = await self._store.get_approval(caller.tenant, run_id, approval_id)
            if stored is None:
                words = f"The run has no approval {approval_id!r}. ListApprovals names those that it has."
                ids = {"run_id": run_id, "approval_id": approval_id}
                raise NotFound(Reason.APPROVAL_NOT_FOUND, words, ids)
            _require_fit(decode_approval(stored.body), answer)
            _require_same_answer(decode_approval(stored.body), answer)
            return await self._runs.get_run(caller, run_id)
        _require_fit(asked, answer)
        if asked.state is ApprovalState.PENDING and approval_id in execution.machine.pending_approvals:
            by = caller.principal
            execution.questions.require_fitting(asked, answer.decision, answer.input_json)
            comment = clean_text(answer.comment)  # the model reads it in the place of a result
            execution.feed(ApprovalAnswered(approval_id, answer.decision, by, answer.patterns, comment))
        # Also a refusal waits: an answer that is not durable yet may still be lost, and the question be open again.
        await _durable(execution, lambda: execution.caller_side.resolutions.get(approval_id))
        _require_same_answer(execution.caller_side.approvals[approval_id], answer)
        return await self._runs.get_run(caller, run_id)

    # --- results ------------------------------------------------------------------------------------------------------

    async def submit(self, caller: Caller, run_id: str, results: Sequence[Handed]) -> Receipts:
        """Hand in results of calls that the caller executed; returns when those that were taken are durable.

        Raises NotFound, and Conflict RUN_SETTLED when the run has ended.
        """
        execution = await self._runs.execution(caller, run_id)
        if execution is None:
            raise _settled(run_id, "No result can be handed in any more.")
        calls = execution.caller_side.calls
        receipts: list[tuple[str, Receipt]] = []
        for handed in results:
            call_id = handed.call_id
            if call_id in execution.machine.pending_calls:
                taken = _settled_outside(execution, handed)
                since = calls[call_id].since_ns if call_id in calls else now_ns()
                execution.feed(CallerResult(taken, max(0, now_ns() - since)))
                receipts.append((call_id, Receipt.ACCEPTED))
            else:
                receipts.append((call_id, Receipt.DUPLICATE if call_id in calls else Receipt.UNKNOWN_CALL))
        pending = tuple(execution.machine.pending_calls)
        for call_id, receipt in receipts:
            if receipt is not Receipt.UNKNOWN_CALL:
                await _durable(execution, lambda call_id=call_id: calls[call_id].finished)  # type: ignore[misc]
        return Receipts(tuple(receipts), pending, await self._runs.get_run(caller, run_id))

    # --- input --------------------------------------------------------------------------------------------------------

    async def append_input(
        self, caller: Caller, run_id: str, request_id: str, messages: Sequence[Message], files: Sequence[File] = ()
    ) -> tuple[tuple[str, ...], Run]:
        """Add messages of the user, and files behind them; returns the messages' ids and the run when all is durable.

        A file is one that the run awaits, or another. The same ``request_id`` again adds nothing, whatever happened in
        between; empty: not idempotent. Raises NotFound, InvalidRequest for what the run's provider cannot take or what
        is there already, and Conflict: RUN_SETTLED when there will be no next iteration, REQUEST_ID_REUSED.
        """
        ids = _message_ids(run_id, request_id, len(messages) + len(files))
        now = now_ns()
        arrivals = [
            arrived(attachment, content, message_id, run_id, now)
            for (attachment, content), message_id in zip(files, ids[len(messages) :], strict=True)
        ]
        all_ = [*messages, *(fact.message for fact in arrivals)]
        execution = await self._runs.execution(caller, run_id)
        if execution is None:
            run = await self._appended_before(caller, run_id, request_id, ids, all_)
            return ids[: len(messages)], run
        appended = execution.caller_side.appended
        if ids[0] not in appended:
            _require_sendable(execution, messages)
            _require_new(execution, files, arrivals)
            if not execution.machine.takes_input:
                raise _settled(run_id, "The run will not ask its model again. Send the input as a turn of its own.")
            given = tuple(
                Message(message.role, message.parts, message_id, run_id)
                for message, message_id in zip(messages, ids, strict=False)
            )
            if given:
                # Before the files: the last one that a run awaits lets it go on, and the words belong to that.
                execution.feed(InputGiven(given))
            for fact in arrivals:
                execution.feed(fact)
        else:
            _require_same(run_id, request_id, [item for _, item in appended.values()], all_)
        await _durable(execution, lambda: appended[ids[-1]][0] if ids[-1] in appended else None)
        return ids[: len(messages)], await self._runs.get_run(caller, run_id)

    async def _appended_before(
        self, caller: Caller, run_id: str, request_id: str, ids: tuple[str, ...], messages: Sequence[Message]
    ) -> Run:
        """A run that has ended may have taken this input before."""
        run = await self._runs.get_run(caller, run_id)
        known = [
            message
            for logged in await read_log(self._store, run_id)
            if isinstance(logged.event, InputAppended)
            for message in logged.event.input
        ]
        if all(message.message_id != ids[0] for message in known):
            raise _settled(run_id, "Nothing can be added any more. Send the input as a turn of its own.")
        _require_same(run_id, request_id, known, messages)
        return run


async def _durable(execution: Execution, sequence: Callable[[], int | None]) -> None:
    """Return when an event that is to come, or came, is durable. Raises StoreError, and Conflict when it never comes.

    What ends a run may hold its events back for as long as its tools take to unwind, which is bounded.
    """
    log = execution.log
    changed = asyncio.Event()
    log.subscribe(changed.set)
    try:
        while (found := sequence()) is None:
            if log.finished:
                raise _settled(log.run_id, "It ended before this could be taken.")
            if log.failure is not None:
                raise log.failure
            changed.clear()
            await changed.wait()
        await log.flushed(found)
    finally:
        log.unsubscribe(changed.set)


def _require_fit(asked: Approval, answer: Answer) -> None:
    """Raises Conflict for an answer to another call, and InvalidRequest for patterns that are not on offer."""
    ids = {"run_id": asked.run_id, "approval_id": asked.approval_id}
    if answer.call_digest is not None and answer.call_digest != asked.call_digest:
        words = "The call to approve is not the one that the digest is of. Read the approval again and decide on that."
        raise Conflict(Reason.APPROVAL_DIGEST_MISMATCH, words, ids)
    unknown = [pattern for pattern in answer.patterns if pattern not in asked.always_patterns]
    if unknown:
        raise InvalidRequest([FieldViolation("always_patterns", "must be among those of the approval")])


def _require_same_answer(asked: Approval, answer: Answer) -> None:
    """Raises Conflict where another answer stands, or none can be given any more."""
    ids = {"run_id": asked.run_id, "approval_id": asked.approval_id}
    match asked.state:
        case ApprovalState.PENDING:
            return
        case ApprovalState.WITHDRAWN:
            raise _settled(asked.run_id, "It ended before the question was answered.")
        case ApprovalState.RESOLVED | ApprovalState.EXPIRED:
            if asked.decision is answer.decision:
                return
            decision = "" if asked.decision is None else asked.decision.value
            words = f"The approval was resolved before, as {decision} by {asked.resolved_by}; the first answer stands."
            told = {**ids, "decision": decision, "resolved_by": asked.resolved_by}
            raise Conflict(Reason.APPROVAL_ALREADY_RESOLVED, words, told)


def _settled(run_id: str, words: str) -> Conflict:
    return Conflict(Reason.RUN_SETTLED, f"Run {run_id} takes no more: {words}", {"run_id": run_id})


def _settled_outside(execution: Execution, handed: Handed) -> ToolResult:
    """The result of a call that the caller executed, capped and cleaned as that of any other."""
    tools = execution.prepared.tools
    assert tools is not None, "a call that was handed out comes from a view"
    return tools.view.settle(handed.call_id, _output(handed), execution.prepared.longest_result)


def _require_sendable(execution: Execution, messages: Sequence[Message]) -> None:
    """Raises InvalidRequest for messages that the run's provider cannot take."""
    provider = execution.prepared.provider
    assert provider is not None, "a prepared run has a provider"
    for index, message in enumerate(messages):
        try:
            provider.encode_message(message)
        except InvalidRequest as error:
            violations = [FieldViolation(f"input[{index}].{v.field}", v.description) for v in error.violations]
            raise InvalidRequest(violations, error.reason) from error


def _require_new(execution: Execution, files: Sequence[File], arrivals: Sequence[AttachmentArrived]) -> None:
    """Raises InvalidRequest for files that the run's provider cannot take, or that are there already."""
    provider = execution.prepared.provider
    assert provider is not None, "a prepared run has a provider"
    for index, ((attachment, content), fact) in enumerate(zip(files, arrivals, strict=True)):
        path = f"attachments[{index}]"
        require_fitting(content, fact.message, provider, path)
        known = execution.machine.attachments.known.get(attachment.attachment_id)
        if known is not None and known.state is AttachmentState.READY:
            raise InvalidRequest([FieldViolation(f"{path}.attachment_id", "is there already")])


def _output(handed: Handed) -> ToolOutput:
    if not handed.is_error:
        return ToolOutput(handed.content, handed.structured_json)
    content = handed.content or ((Part("", Text(handed.message)),) if handed.message else ())
    words = "the caller reports that the call failed"
    failure = Failure(FailurePhase.TOOL, Reason.TOOL_FAILED, words, origin="caller")
    return ToolOutput(content, handed.structured_json, is_error=True, failure=failure)


def _message_ids(run_id: str, request_id: str, count: int) -> tuple[str, ...]:
    """The same for the same request, whoever asks and whenever: what was added before is known by them."""
    if not request_id:
        return tuple(new_message_ids(count))
    digests = (hashlib.sha256(f"{run_id}\0{request_id}\0{index}".encode()) for index in range(count))
    return tuple(f"msg_{digest.hexdigest()[:32]}" for digest in digests)


def _require_same(run_id: str, request_id: str, known: Sequence[Message], messages: Sequence[Message]) -> None:
    """Raises Conflict unless the request that these were added with had the same messages, and no more."""
    by_id = {message.message_id: message for message in known}
    ids = _message_ids(run_id, request_id, len(messages) + 1)
    before = [by_id[message_id] for message_id in ids if message_id in by_id]
    if [(message.role, message.parts) for message in before] != [(item.role, item.parts) for item in messages]:
        words = f"request_id {request_id} was used for another input of this run: take a new one"
        raise Conflict(Reason.REQUEST_ID_REUSED, words, {"request_id": request_id})
