"""A file that comes while its run goes on: the message in which the model sees it, checked before anything is told.

Knows the provider by its port and nothing of runs.
"""

from __future__ import annotations

from dataclasses import replace

from turnwired.domain.attachment import Attachment, AttachmentState
from turnwired.domain.errors import FieldViolation, InvalidRequest
from turnwired.domain.message import Blob, Message, Part, Role, Text
from turnwired.engine.ids import new_message_ids
from turnwired.providers.port import ModelProvider
from turnwired.turn.attachments import named
from turnwired.turn.facts import AttachmentArrived

MAX_BYTES = 3 << 20
"""Of a file that comes while its run goes on: it is an event, and has to fit the 4 MiB that gRPC clients take."""


def arrival(
    attachment: Attachment, content: Blob, provider: ModelProvider, run_id: str, now_ns: int, path: str
) -> AttachmentArrived:
    """The fact for a file. ``path`` leads to it in the request. Raises InvalidRequest for one that cannot be sent."""
    if len(content.data) > MAX_BYTES:
        problem = f"has {len(content.data)} bytes; at most {MAX_BYTES} may come while the run goes on"
        raise InvalidRequest([FieldViolation(f"{path}.data", problem)])
    (message_id,) = new_message_ids(1)
    words = Part(f"{message_id}_1", Text(f"[{named(attachment)} is here:]"))
    message = Message(Role.USER, (words, Part(f"{message_id}_2", content)), message_id, run_id, now_ns)
    try:
        provider.encode_message(message)
    except InvalidRequest as error:
        told = [FieldViolation(f"{path}.data", violation.description) for violation in error.violations]
        raise InvalidRequest(told, error.reason) from error
    return AttachmentArrived(replace(attachment, state=AttachmentState.READY, failure=None), message)
