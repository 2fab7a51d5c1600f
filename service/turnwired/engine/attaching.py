"""Files of a run against what its model takes: those of the turn, and those that come while the run goes on.

Knows the provider by its port and nothing of runs.
"""

from __future__ import annotations

from dataclasses import replace

from turnwired.domain.attachment import Attachment, AttachmentState
from turnwired.domain.errors import FieldViolation, InvalidRequest
from turnwired.domain.message import Blob, Message, Part, Role, Text
from turnwired.domain.run import TurnSpec
from turnwired.providers.port import ModelProvider
from turnwired.turn.attachments import named, refused, unreadable
from turnwired.turn.facts import AttachmentArrived

MAX_BYTES = 3 << 20
"""Of a file that comes while its run goes on: it is an event, and has to fit the 4 MiB that gRPC clients take."""


def arrived(attachment: Attachment, content: Blob, message_id: str, run_id: str, now_ns: int) -> AttachmentArrived:
    """The fact for a file, with the message of this id in which the model sees it."""
    words = Part(f"{message_id}_1", Text(f"[{named(attachment)} is here:]"))
    message = Message(Role.USER, (words, Part(f"{message_id}_2", content)), message_id, run_id, now_ns)
    return AttachmentArrived(replace(attachment, state=AttachmentState.READY, failure=None), message)


def without_unreadable(spec: TurnSpec, provider: ModelProvider) -> TurnSpec:
    """The turn with a note in place of each attachment of a kind that the provider does not take; itself if all are.

    For turns that were refused: it encodes the files anew.
    """
    messages = list(spec.input)
    attachments = list(spec.attachments)
    for number, attachment in enumerate(attachments):
        index, place = spec.attachment_places.get(attachment.attachment_id, (-1, -1))
        if attachment.state is not AttachmentState.READY or index < 0:
            continue
        message = messages[index]
        part = message.parts[place]
        try:
            provider.encode_message(replace(message, parts=(part,)))
        except InvalidRequest as error:
            why = "; ".join(violation.description for violation in error.violations)
            attachments[number] = refused(attachment, why)
            note = replace(part, content=Text(unreadable(attachment)))
            messages[index] = replace(message, parts=(*message.parts[:place], note, *message.parts[place + 1 :]))
    if attachments == list(spec.attachments):
        return spec
    return replace(spec, input=tuple(messages), attachments=tuple(attachments))


def require_fitting(content: Blob, message: Message, provider: ModelProvider, path: str) -> None:
    """Raises InvalidRequest for a file that cannot be sent. ``path`` leads to it in the request."""
    if len(content.data) > MAX_BYTES:
        problem = f"has {len(content.data)} bytes; at most {MAX_BYTES} may come while the run goes on"
        raise InvalidRequest([FieldViolation(f"{path}.data", problem)])
    try:
        provider.encode_message(message)
    except InvalidRequest as error:
        told = [FieldViolation(f"{path}.data", violation.description) for violation in error.violations]
        raise InvalidRequest(told, error.reason) from error
