"""Files that a turn refers to by an id of the caller's: what is known of them while they come, without their bytes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from turnwired.domain.failure import Failure


class AttachmentState(StrEnum):
    """Whether the model can use an attachment."""

    PENDING = "PENDING"
    READY = "READY"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file by its id in the request. ``failure`` says why, where the state is FAILED."""

    attachment_id: str
    filename: str
    media_type: str
    state: AttachmentState
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file that a program sends with a turn: its id there, what it is, and its bytes. None: they are to come."""

    attachment_id: str
    filename: str
    media_type: str
    data: bytes | None = None
