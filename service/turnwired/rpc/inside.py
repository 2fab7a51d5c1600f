"""A turn that was made in this process, held to the same rules as one that came over the wire.

It takes the same path through the contract's messages, so that nothing is allowed here that a server would refuse.
"""

from __future__ import annotations

from collections.abc import Sequence

from turnwire.v1 import message_pb2, turn_service_pb2
from turnwired.codec.message import message_to_pb
from turnwired.codec.run import turn_to_pb
from turnwired.domain.attachment import AttachedFile
from turnwired.domain.errors import FieldViolation, InvalidRequest
from turnwired.domain.message import Message
from turnwired.domain.run import TurnSpec
from turnwired.engine.steering import File
from turnwired.rpc.request import turn_spec
from turnwired.rpc.waiting_request import appended


def checked(spec: TurnSpec, files: Sequence[AttachedFile] = ()) -> TurnSpec:
    """The turn as the service takes it. Raises InvalidRequest, with paths as in RunTurn."""
    message = turn_service_pb2.TurnSpec()
    try:
        turn_to_pb(spec, message)
        message.attachments.extend(map(_attachment, files))
    except ValueError as error:  # text with lone surrogates, numbers that the contract has no room for
        raise InvalidRequest([FieldViolation("turn", "holds a value that the contract cannot carry")]) from error
    return turn_spec(message, spec.caller, spec.on_disconnect)


def checked_input(
    run_id: str, request_id: str, messages: Sequence[Message], files: Sequence[AttachedFile] = ()
) -> tuple[tuple[Message, ...], tuple[File, ...]]:
    """Input for a run in progress, as the service takes it. Raises InvalidRequest, with paths as in AppendInput."""
    request = turn_service_pb2.AppendInputRequest(run_id=run_id, request_id=request_id)
    try:
        for message in messages:
            message_to_pb(message, request.input.add())
        request.attachments.extend(map(_attachment, files))
    except ValueError as error:
        raise InvalidRequest([FieldViolation("input", "holds a value that the contract cannot carry")]) from error
    return appended(request)


def _attachment(file: AttachedFile) -> message_pb2.Attachment:
    found = message_pb2.Attachment(attachment_id=file.attachment_id, filename=file.filename, media_type=file.media_type)
    if file.data is not None:
        found.data = file.data
    return found
