"""Attachments without their bytes, to the contract's message and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnwired.codec.enums import ATTACHMENT_STATE
from turnwired.codec.values import failure_from_pb, failure_to_pb
from turnwired.domain.attachment import Attachment

if TYPE_CHECKING:
    from turnwire.v1 import message_pb2


def attachment_to_pb(value: Attachment, out: message_pb2.Attachment) -> None:
    """All fields."""
    out.SetInParent()
    out.attachment_id = value.attachment_id
    out.filename = value.filename
    out.media_type = value.media_type
    out.state = ATTACHMENT_STATE.to_wire[value.state]
    if value.failure is not None:
        failure_to_pb(value.failure, out.failure)


def attachment_from_pb(message: message_pb2.Attachment) -> Attachment:
    """All fields but the source; the state must be set."""
    return Attachment(
        attachment_id=message.attachment_id,
        filename=message.filename,
        media_type=message.media_type,
        state=ATTACHMENT_STATE.from_wire(message.state, "state"),
        failure=failure_from_pb(message.failure) if message.HasField("failure") else None,
    )
