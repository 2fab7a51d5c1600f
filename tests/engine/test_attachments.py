"""Files that come with a turn, during it or not at all, through the engine."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from engine.harness import CALLER, LIMIT, Reader, World, user, world
from turnwired.domain.attachment import Attachment, AttachmentState
from turnwired.domain.errors import Conflict, FieldViolation, InvalidRequest, NotFound
from turnwired.domain.event import AttachmentUpdated, InputAppended, ToolCallExecuting
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import Blob, Message, Role
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.policy import ContextPolicy, LimitMode, Policy, TimeoutPolicy
from turnwired.engine.attaching import MAX_BYTES
from turnwired.engine.recovery import read_log
from turnwired.testing.provider import ScriptedProvider, answer, calls
from turnwired.tools.port import ToolInvocation

REPORT = Attachment("report", "report.pdf", "application/pdf", AttachmentState.PENDING)
PDF = Blob("application/pdf", b"%PDF-1.7")
SOON = Policy(context=ContextPolicy(attachment_wait=0.01))


def states(reader: Reader) -> list[str]:
    events = [event for event in reader.of(AttachmentUpdated) if isinstance(event, AttachmentUpdated)]
    return [f"{event.attachment.attachment_id} {event.attachment.state.value}" for event in events]


def roles(w: World, call: int) -> list[object]:
    return [message["role"] for message in w.provider.messages(call)]


async def bring(w: World, run_id: str, attachment: Attachment = REPORT, content: Blob = PDF) -> Message:
    async with asyncio.timeout(LIMIT):
        await w.engine.steering.append_input(CALLER, run_id, "", (), [(attachment, content)])
    messages = [
        message
        for logged in await read_log(w.store, run_id)
        if isinstance(logged.event, InputAppended)
        for message in logged.event.input
    ]
    return messages[-1]


@pytest.mark.requirement("CTX-18")
async def test_a_run_waits_for_its_file_and_shows_it_to_the_model() -> None:
    async with world([answer("I see it.")]) as w:
        run_id, reader, task = await w.start(attachments=(REPORT,), session_id="s")
        await reader.until(AttachmentUpdated)
        assert w.provider.requests == []
        brought = await bring(w, run_id)
        await task
        assert roles(w, 0) == ["system", "USER", "USER"]
        assert {"file": "application/pdf", "bytes": 8} in w.provider.messages(0)[-1]["parts"]  # type: ignore[operator]
        kept, _ = await w.engine.sessions.messages(CALLER, "s", 10, "")
    assert states(reader) == ["report PENDING", "report READY"]
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
    assert [message.role for message in kept] == [Role.USER, Role.USER, Role.ASSISTANT]
    assert kept[1].message_id == brought.message_id
    assert kept[1].parts[1].content == PDF


@pytest.mark.requirement("CTX-19")
async def test_a_file_that_does_not_come_is_told_to_the_model_by_name_and_the_run_goes_on() -> None:
    async with world([answer("I have not received report.pdf.")], policy=SOON) as w:
        reader = await w.run(attachments=(REPORT,), include_trace=True)
        note = w.provider.messages(0)[-1]
    assert states(reader) == ["report PENDING", "report FAILED"]
    assert "report.pdf (application/pdf)" in str(note["parts"])
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
    assert reader.finished.trace is not None
    (seen,) = [entry.entry for entry in reader.finished.trace.entries if isinstance(entry.entry, Attachment)]
    assert seen.failure is not None
    assert seen.failure.reason is Reason.ATTACHMENT_NOT_READY


@pytest.mark.requirement("CTX-20")
async def test_a_file_that_comes_while_a_tool_runs_is_in_the_next_request_behind_the_result() -> None:
    release = asyncio.Event()

    async def look(_: ToolInvocation) -> str:
        await release.wait()
        return "seen"

    async with world([calls(("look", "{}")), answer("done")], {"look": look}, policy=SOON) as w:
        run_id, reader, task = await w.start(attachments=(REPORT,))
        await reader.until(ToolCallExecuting)
        await bring(w, run_id)
        release.set()
        await task
        assert roles(w, 1) == ["system", "USER", "USER", "ASSISTANT", "TOOL", "USER"]
    assert states(reader) == ["report PENDING", "report FAILED", "report READY"]


@pytest.mark.requirement("CTX-24")
async def test_a_file_that_was_taken_is_stored() -> None:
    async with world([answer("I see it.")]) as w:
        two = Attachment("scan", "", "", AttachmentState.PENDING)
        run_id, _, task = await w.start(attachments=(REPORT, two))
        brought = await bring(w, run_id)
        appended = [item.event for item in await read_log(w.store, run_id) if isinstance(item.event, InputAppended)]
        assert appended == [InputAppended((brought,))]
        await bring(w, run_id, two)
        await task


@pytest.mark.requirement("CTX-21")
async def test_a_file_for_a_run_that_has_ended_or_is_unknown_is_refused() -> None:
    async with world([answer("fine")]) as w:
        run_id, _, task = await w.start()
        await task
        await w.engine.until_ended(run_id)
        with pytest.raises(Conflict) as caught:
            await bring(w, run_id)
        assert caught.value.reason is Reason.RUN_SETTLED
        with pytest.raises(NotFound):
            await bring(w, "run_of_nobody")


@pytest.mark.requirement("CTX-21")
async def test_a_file_that_is_there_already_is_refused() -> None:
    two = Attachment("scan", "", "", AttachmentState.PENDING)
    async with world([answer("fine")]) as w:
        run_id, _, task = await w.start(attachments=(REPORT, two))
        await bring(w, run_id)
        with pytest.raises(InvalidRequest) as caught:
            await bring(w, run_id)
        assert caught.value.violations[0].field == "attachments[0].attachment_id"
        await bring(w, run_id, two)
        await task


@dataclass(frozen=True)
class Unfit:
    """A file that cannot be taken, and what is wrong with it."""

    content: Blob
    problem: str


@pytest.mark.requirement("CTX-22")
@pytest.mark.parametrize(
    "unfit", [Unfit(Blob("text/plain", b"x" * (MAX_BYTES + 1)), "bytes"), Unfit(Blob("video/x", b"x"), "no video")]
)
async def test_a_file_that_cannot_be_taken_is_refused_and_still_awaited(
    unfit: Unfit, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = ScriptedProvider.encode_message

    def picky(self: ScriptedProvider, message: Message) -> bytes:
        for part in message.parts:
            if isinstance(part.content, Blob) and part.content.media_type == "video/x":
                raise InvalidRequest([FieldViolation("parts[1]", "no video")])
        return encode(self, message)

    monkeypatch.setattr(ScriptedProvider, "encode_message", picky)
    async with world([answer("fine")]) as w:
        run_id, reader, task = await w.start(attachments=(REPORT,))
        with pytest.raises(InvalidRequest, match=unfit.problem) as caught:
            await bring(w, run_id, content=unfit.content)
        assert caught.value.violations[0].field == "attachments[0].data"
        await bring(w, run_id)
        await task
    assert states(reader) == ["report PENDING", "report READY"]


@pytest.mark.requirement("CTX-23")
async def test_a_run_that_waits_for_a_file_can_be_cancelled() -> None:
    async with world([]) as w:
        run_id, reader, task = await w.start(attachments=(REPORT,))
        await reader.until(AttachmentUpdated)
        await w.engine.cancel_run(CALLER, run_id, Failure(FailurePhase.MODEL, Reason.CANCELLED, "Cancelled."))
        await task
        await asyncio.wait_for(w.engine.until_ended(run_id), LIMIT)
    assert reader.finished.outcome.kind is OutcomeKind.ABORTED


@pytest.mark.requirement("CTX-23")
async def test_an_unbounded_wait_ends_with_the_runs_own_time() -> None:
    policy = Policy(context=ContextPolicy(attachment_wait=LimitMode.UNBOUNDED), timeout=TimeoutPolicy(run=0.05))
    async with world([], policy=policy) as w:
        reader = await w.run(attachments=(REPORT,))
    assert reader.finished.outcome.kind is OutcomeKind.BUDGET_EXCEEDED


@pytest.mark.requirement("CTX-23")
async def test_a_run_does_not_outlast_its_answer_for_a_wait_that_is_over() -> None:
    async with world([answer("I see it.")]) as w:
        run_id, _, task = await w.start(attachments=(REPORT,))
        await bring(w, run_id)
        await task
        await asyncio.wait_for(w.engine.until_ended(run_id), LIMIT)  # the wait was to last 30 s


@pytest.mark.requirement("CTX-15")
async def test_a_later_turn_of_the_session_has_the_file() -> None:
    async with world([answer("fine"), answer("still")]) as w:
        run_id, _, task = await w.start(attachments=(REPORT,), session_id="s")
        await bring(w, run_id)
        await task
        await w.engine.until_ended(run_id)
        await w.run("And now?", session_id="s", input=(user("And now?"),))
        assert {"file": "application/pdf", "bytes": 8} in w.provider.messages(1)[2]["parts"]  # type: ignore[operator]
