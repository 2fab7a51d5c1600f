"""Attachments of a request: checked, and put into the input that refers to them.

Bytes that came with the request become part of the input, and so of the session. In place of a file that AppendInput
will bring stands that it is to follow. Nothing is fetched: no scheme of a URI is allowed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from turnwire.v1 import message_pb2
from turnwired.domain.attachment import Attachment, AttachmentState
from turnwired.domain.message import AttachmentRef, Blob, Content, Message, Part, Role, Text
from turnwired.turn.attachments import to_follow

MAX_ATTACHMENTS = 64
MAX_FILENAME = 256
MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}(;.{0,127})?\Z")


class Findings(Protocol):
    """Where broken rules are gathered."""

    def add(self, path: str, description: str) -> None:
        """A rule that the request breaks."""
        ...

    def check_id(self, path: str, value: str) -> None:
        """Whether it can be an id."""
        ...


@dataclass(frozen=True, slots=True)
class Given:
    """An attachment as it came: READY with its ``content``, or PENDING without."""

    attachment: Attachment
    content: Blob | None


def read_attachments(
    messages: Sequence[message_pb2.Attachment], path: str, problems: Findings, *, pending: bool = True
) -> list[Given]:
    """The attachments of a request. ``pending``: their bytes may come later."""
    if len(messages) > MAX_ATTACHMENTS:
        problems.add(path, f"has {len(messages)} entries; at most {MAX_ATTACHMENTS} are allowed")
        return []
    for name, times in Counter(each.attachment_id for each in messages).items():
        if times > 1:
            problems.add(path, f"the attachment_id {name[:64]!r} is there {times} times")
    return [_read(each, f"{path}[{index}]", problems, pending=pending) for index, each in enumerate(messages)]


def _read(message: message_pb2.Attachment, path: str, problems: Findings, *, pending: bool) -> Given:
    problems.check_id(f"{path}.attachment_id", message.attachment_id)
    source = message.WhichOneof("source")
    if len(message.filename) > MAX_FILENAME or not message.filename.isprintable():
        problems.add(f"{path}.filename", f"must be at most {MAX_FILENAME} printable characters")
    if (message.media_type or source == "data") and not MEDIA_TYPE.match(message.media_type):
        problems.add(f"{path}.media_type", "must be an IANA media type such as application/pdf")
    if message.state or message.HasField("failure"):
        problems.add(f"{path}.state", "is output only; leave state and failure unset")
    content: Blob | None = None
    match source:
        case "data":
            content = Blob(message.media_type, message.data)
            if not message.data:
                problems.add(f"{path}.data", "must not be empty")
        case "uri":
            problems.add(f"{path}.uri", "no scheme is allowed: this server fetches nothing; send the bytes as data")
        case None:
            if not pending:
                problems.add(f"{path}.data", "must be set")
    state = AttachmentState.PENDING if content is None else AttachmentState.READY
    return Given(Attachment(message.attachment_id, message.filename, message.media_type, state), content)


def put_in(
    messages: tuple[Message, ...], given: Sequence[Given], problems: Findings, path: str = "turn."
) -> tuple[Message, ...]:
    """The input with its files. Each attachment is to be referred to once, by a message of the user.

    ``path`` is what stands before the names of the request's fields.
    """
    if not given and not any(_refers(message) for message in messages):
        return messages
    known = {each.attachment.attachment_id: each for each in given}
    used: Counter[str] = Counter()
    out: list[Message] = []
    for index, message in enumerate(messages):
        if _refers(message):
            out.append(_with_files(message, f"{path}input[{index}]", known, used, problems))
        else:
            out.append(message)
    for index, each in enumerate(given):
        times = used[each.attachment.attachment_id]
        if times != 1:
            what = "is not referred to by the input" if not times else f"is referred to {times} times; once is allowed"
            problems.add(f"{path}attachments[{index}]", what)
    return tuple(out)


def _with_files(
    message: Message, path: str, known: Mapping[str, Given], used: Counter[str], problems: Findings
) -> Message:
    parts: list[Part] = []
    for place, part in enumerate(message.parts):
        content = part.content
        if isinstance(content, AttachmentRef):
            where = f"{path}.parts[{place}].attachment_id"
            used[content.attachment_id] += 1
            if message.role is not Role.USER:
                problems.add(where, "only messages of ROLE_USER may refer to attachments")
            elif content.attachment_id not in known:
                problems.add(where, "names no attachment of this request")
            else:
                content = _content(known[content.attachment_id])
        parts.append(replace(part, content=content))
    return replace(message, parts=tuple(parts))


def _refers(message: Message) -> bool:
    return any(type(part.content) is AttachmentRef for part in message.parts)


def _content(given: Given) -> Content:
    return Text(to_follow(given.attachment)) if given.content is None else given.content
