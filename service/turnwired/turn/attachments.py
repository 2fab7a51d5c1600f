"""Attachments of a run: which of them the model can see, what it is told of those that do not come. Pure.

A file that is not there when the run begins is awaited before the first model call, for a while. In the message that
refers to it stands that it is to follow; it then follows as a message of its own, or a note says that it does not. So
nothing that was sent or stored ever changes, and a late file enters the next iteration like any other input.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from turnwired.domain.attachment import Attachment, AttachmentState
from turnwired.domain.event import AttachmentUpdated, InputAppended
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import Message, Part, Role, Text
from turnwired.domain.policy import MissingAttachmentMode
from turnwired.turn.effects import AwaitAttachments
from turnwired.turn.facts import AttachmentArrived, AttachmentsOverdue, InputGiven
from turnwired.turn.history import Transcript
from turnwired.turn.ids import Ids
from turnwired.turn.out import Out


class Attachments:
    """The attachments of one run as they stand."""

    def __init__(self, attachments: Sequence[Attachment], run_id: str, ids: Ids, mode: MissingAttachmentMode) -> None:
        self.known = {attachment.attachment_id: attachment for attachment in attachments}
        self._run_id = run_id
        self._ids = ids
        self._mode = mode
        self.failure: Failure | None = None  # why the run is to end, once a file has not come that it cannot do without

    @property
    def pending(self) -> list[Attachment]:
        """Those that are awaited."""
        return [each for each in self.known.values() if each.state is AttachmentState.PENDING]

    def begin(self, out: Out, limit: float | None) -> bool:
        """Tell of all of them. True: some are to be awaited, for so many seconds or as long as the run may last."""
        if not self.known:
            return False
        for attachment in self.known.values():
            out.emit(AttachmentUpdated(attachment))
            if attachment.failure is not None and self._mode is MissingAttachmentMode.FAIL:
                self.failure = self.failure or attachment.failure
        if self.failure is not None:
            return False
        if self.pending and limit is not None:
            out.do(AwaitAttachments(limit))
        return bool(self.pending)

    def take(self, fact: InputGiven | AttachmentArrived | AttachmentsOverdue, transcript: Transcript, out: Out) -> bool:
        """A file is there, or those that are not will not be waited for. False: it was there already.

        Words that come without a file wait for the same iteration.
        """
        match fact:
            case InputGiven(messages):
                out.emit(InputAppended(messages))
                transcript.hold(messages)
            case AttachmentArrived(attachment, message):
                known = self.known.get(attachment.attachment_id)
                if known is not None and known.state is AttachmentState.READY:
                    return False
                self._update(attachment, out)
                out.emit(InputAppended((message,)))
                transcript.hold((message,))
            case AttachmentsOverdue(limit):
                failed = AttachmentState.FAILED
                ends = self._mode is MissingAttachmentMode.FAIL
                late = [replace(each, state=failed, failure=_late(each, limit, ends=ends)) for each in self.pending]
                for attachment in late:
                    self._update(attachment, out)
                transcript.hold((missing(late, self._ids, self._run_id),))  # the session's next turn has to know it too
                if ends:
                    self.failure = late[0].failure
        return True

    def _update(self, attachment: Attachment, out: Out) -> None:
        self.known[attachment.attachment_id] = attachment
        out.emit(AttachmentUpdated(attachment))


def _late(attachment: Attachment, limit: float, *, ends: bool) -> Failure:
    """Why a file that did not come in time cannot be seen. ``limit`` in seconds; ``ends``: the run ends with it."""
    then = (
        "context.missing_attachments is FAIL, so the model was not called. Send the turn again when the file is there, "
        "or wait longer"
        if ends
        else "the model was told so. AppendInput can still bring it while the run goes on"
    )
    words = f"The attachment {attachment.attachment_id} did not arrive within {limit:g} s (context.attachment_wait)"
    return Failure(FailurePhase.PREPARATION, Reason.ATTACHMENT_NOT_READY, f"{words}, and {then}.")


def refused(attachment: Attachment, why: str) -> Attachment:
    """A file of a kind that the model does not take. ``why``: in the provider's words, for developers."""
    words = f"The model cannot see the attachment {attachment.attachment_id}: {why}."
    failure = Failure(FailurePhase.PREPARATION, Reason.ATTACHMENT_FAILED, words)
    return replace(attachment, state=AttachmentState.FAILED, failure=failure)


def named(attachment: Attachment) -> str:
    """How the model is told of a file: its name, or its id, and its type."""
    name = attachment.filename or attachment.attachment_id
    return f"{name} ({attachment.media_type})" if attachment.media_type else name


def to_follow(attachment: Attachment) -> str:
    """What stands in a message in place of a file that is not there yet."""
    return f"[{named(attachment)}: not here yet. The file, or a note that it is missing, follows in another message.]"


def unreadable(attachment: Attachment) -> str:
    """What stands in a message in place of a file that the model does not take."""
    return f"[{named(attachment)}: you are not able to read files of this kind. Say so if it matters.]"


def missing(attachments: Iterable[Attachment], ids: Ids, run_id: str) -> Message:
    """The note that files have not come."""
    lines = [
        f"[{named(each)}: did not arrive in time. You cannot see this file; say so if it matters.]"
        for each in attachments
    ]
    return Message(Role.USER, (Part(ids.part(), Text("\n".join(lines))),), ids.message(), run_id)
