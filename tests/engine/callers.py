"""What somebody asks of a run in a world that goes step by step, and what must be durable once it is answered.

Each request asserts what its answer promises, by the disk's ledgers; a refusal is right when they bear it out.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Protocol

from engine.disk import Disk
from engine.harness import CALLER
from engine.ledgers import Ledger
from turnwired.domain.approval import ApprovalDecision, ApprovalKind
from turnwired.domain.attachment import Attachment
from turnwired.domain.errors import Conflict, NotFound, RequestError, StoreError
from turnwired.domain.failure import Reason
from turnwired.domain.message import Blob, Message, Part, Text, ToolResultStatus
from turnwired.domain.run import Run
from turnwired.engine.service import Engine
from turnwired.engine.steering import Answer, Handed, Receipt, Receipts


class Request(Protocol):
    """Something that is asked. ``told``: what became of it, in a few words, once it is judged."""

    run_id: str
    task: asyncio.Task[None] | None
    judged: bool
    told: str

    @abstractmethod
    async def send(self, engine: Engine) -> None:
        """Ask, and keep the answer."""

    @abstractmethod
    def accepted(self, ledger: Ledger) -> str:
        """It was answered with yes: assert what that promises, and say what it was."""

    @abstractmethod
    def refused(self, ledger: Ledger, error: RequestError) -> str:
        """It was answered with no: assert that this is right."""

    def check(self, disk: Disk) -> bool:
        """Judge the answer when it is there. Whether it has come now."""
        task = self.task
        if self.judged or task is None or not task.done():
            return False
        self.judged = True
        if task.cancelled():  # the process died
            self.told = "nobody answers"
            return True
        error, ledger = task.exception(), disk.ledgers[self.run_id]
        if error is None:
            self.told = self.accepted(ledger)
        elif isinstance(error, RequestError):
            self.told = self.refused(ledger, error)
        else:
            assert isinstance(error, StoreError), repr(error)
            self.told = "the store does not answer"
        return True


def _of_the_end(ledger: Ledger, error: RequestError) -> bool:
    """Whether it is refused because the run has ended, or cannot be reached."""
    assert not isinstance(error, NotFound), error
    return not isinstance(error, Conflict) or error.reason is Reason.RUN_SETTLED


@dataclass(eq=False)
class Decide(Request):
    """Answer a question."""

    run_id: str
    approval_id: str
    decision: ApprovalDecision
    digest: str | None
    task: asyncio.Task[None] | None = None
    judged: bool = False
    told: str = ""
    before: bool = False

    async def send(self, engine: Engine) -> None:
        answer = Answer(self.decision, comment="Do not." * (self.decision is ApprovalDecision.REJECT))
        answer = Answer(self.decision, (), answer.comment, self.digest)
        await engine.steering.resolve(CALLER, self.run_id, self.approval_id, answer)

    def accepted(self, ledger: Ledger) -> str:
        answer = ledger.people.answers.get(self.approval_id)
        assert answer is not None, "an answer is told that is not durable"
        assert answer.decision is self.decision, "another answer is told than the one that counts"
        assert self.digest in {None, ledger.people.questions[self.approval_id].call_digest}
        return "a question is answered again" if self.before else "a question is answered"

    def refused(self, ledger: Ledger, error: RequestError) -> str:
        if error.reason is Reason.APPROVAL_DIGEST_MISMATCH:
            assert self.digest == "of another call"
            return "an answer to another call is refused"
        if error.reason is Reason.INVALID_REQUEST:
            assert ledger.people.questions[self.approval_id].kind is ApprovalKind.INPUT
            assert self.decision is ApprovalDecision.ALWAYS, error
            return "a tool is not answered for always"
        if error.reason is Reason.APPROVAL_ALREADY_RESOLVED:
            answer = ledger.people.answers.get(self.approval_id)
            assert answer is not None, "an answer is refused for one that is not durable"
            assert error.metadata["decision"] == answer.decision.value != self.decision.value
            assert error.metadata["resolved_by"] == answer.resolved_by
            return "another answer is refused"
        assert _of_the_end(ledger, error), error
        return "an answer comes too late"


@dataclass(eq=False)
class HandIn(Request):
    """Hand in results, each with words of its own. ``taken`` are the words that were accepted before, by call."""

    run_id: str
    results: tuple[tuple[str, str], ...]
    taken: dict[str, str]
    task: asyncio.Task[None] | None = None
    judged: bool = False
    told: str = ""
    receipts: Receipts | None = None

    async def send(self, engine: Engine) -> None:
        handed = [
            Handed(call_id, (Part("", Text(words)),), is_error=words.endswith("!")) for call_id, words in self.results
        ]
        self.receipts = await engine.steering.submit(CALLER, self.run_id, handed)

    def accepted(self, ledger: Ledger) -> str:
        assert self.receipts is not None
        assert [call_id for call_id, _ in self.receipts.receipts] == [call_id for call_id, _ in self.results]
        for (call_id, words), (_, receipt) in zip(self.results, self.receipts.receipts, strict=True):
            assert receipt is not Receipt.UNKNOWN_CALL, "a call that was handed out is not known"
            result = ledger.people.handed[call_id]
            assert result is not None, "a result is taken that is not durable"
            if receipt is Receipt.ACCEPTED:
                assert call_id not in self.taken, "a second result is taken"
                self.taken[call_id] = words
                texts = [part.content.text for part in result.content if isinstance(part.content, Text)]
                assert words in texts, "another result is kept than the one that was taken"
                assert (result.status is ToolResultStatus.ERROR) == words.endswith("!")
        receipts = {receipt for _, receipt in self.receipts.receipts}
        return "results are handed in again" if Receipt.DUPLICATE in receipts else "results are handed in"

    def refused(self, ledger: Ledger, error: RequestError) -> str:
        assert _of_the_end(ledger, error), error
        return "a result comes too late"


@dataclass(eq=False)
class Add(Request):
    """Add words, a file, or both. ``known``: the ids that were told before, by request id."""

    run_id: str
    request_id: str
    messages: tuple[Message, ...]
    files: tuple[tuple[Attachment, Blob], ...]
    known: dict[tuple[str, str], tuple[str, ...]]
    task: asyncio.Task[None] | None = None
    judged: bool = False
    told: str = ""
    ids: tuple[str, ...] = ()
    run: Run | None = field(default=None)

    async def send(self, engine: Engine) -> None:
        self.ids, self.run = await engine.steering.append_input(
            CALLER, self.run_id, self.request_id, self.messages, self.files
        )

    def accepted(self, ledger: Ledger) -> str:
        for message_id, message in zip(self.ids, self.messages, strict=True):
            kept = ledger.people.appended.get(message_id)
            assert kept is not None, "words are taken that are not durable"
            assert kept.parts == message.parts
        for attachment, _ in self.files:
            assert ledger.people.files[attachment.attachment_id].value == "READY", "a file is taken, and is not there"
        if not self.request_id:
            return "a file is brought" if self.files else "words are taken"
        key = (self.run_id, self.request_id)
        assert self.known.setdefault(key, self.ids) == self.ids, "the same request adds other words"
        return "words are taken by id"

    def refused(self, ledger: Ledger, error: RequestError) -> str:
        if error.reason is Reason.REQUEST_ID_REUSED:
            assert self.request_id
            return "a request id is used again"
        if error.reason is Reason.INVALID_REQUEST:
            assert self.files, error
            return "a file is refused"
        assert _of_the_end(ledger, error), error
        return "words come too late"
