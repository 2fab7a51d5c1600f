"""Files of a turn in process: with it, and while it goes on, by the rules of the wire."""

from __future__ import annotations

from typing import cast

import pytest

from turnwired import Rewound, Runtime
from turnwired.domain.attachment import AttachedFile, AttachmentState
from turnwired.domain.errors import InvalidRequest
from turnwired.domain.event import AttachmentUpdated, LoggedEvent, RunStarted
from turnwired.domain.message import AttachmentRef, Message, Part, Role, Text
from turnwired.testing import ScriptedProvider, answer

pytestmark = pytest.mark.anyio
PICTURE = AttachedFile("a", "a.png", "image/png", b"\x89PNG")
LATER = AttachedFile("b", "b.pdf", "application/pdf")
ARRIVED = AttachedFile("b", "b.pdf", "application/pdf", b"%PDF-1.7")


def asking(*names: str) -> Message:
    """A question about files."""
    refers = (Part(f"p{number}", AttachmentRef(name)) for number, name in enumerate(names))
    return Message(Role.USER, (Part("p", Text("What is it?")), *refers))


@pytest.mark.requirement("KIT-33")
async def test_files_come_with_a_turn_and_while_it_waits_for_them() -> None:
    model = ScriptedProvider([answer("A cat.")])
    states: list[AttachmentState] = []
    run_id = ""

    async def hear(item: LoggedEvent | Rewound) -> None:
        nonlocal run_id
        match item:
            case LoggedEvent(event=RunStarted(run_id=started)):
                run_id = started
            case LoggedEvent(event=AttachmentUpdated(attachment=attachment)):
                states.append(attachment.state)
                if attachment.state is AttachmentState.PENDING:
                    await runtime.append_input(run_id, attachments=[ARRIVED], request_id="once")
                    await runtime.append_input(run_id, attachments=[ARRIVED], request_id="once")
            case _:
                pass

    async with Runtime({}, providers={"scripted": model}, environ={}) as runtime:
        result = await runtime.run_turn(asking("a", "b"), attachments=[PICTURE, LATER], on_event=hear)
    assert result.answered
    assert states == [AttachmentState.READY, AttachmentState.PENDING, AttachmentState.READY]
    parts: list[object] = []
    for message in model.messages(0):
        parts += cast("list[object]", message["parts"])
    files = [part for part in parts if isinstance(part, dict)]
    assert files == [{"file": "image/png", "bytes": 4}, {"file": "application/pdf", "bytes": 8}]


@pytest.mark.requirement("KIT-33")
@pytest.mark.parametrize(
    ("names", "files", "path"),
    [
        (("x",), (PICTURE,), "turn.input[0].parts[1].attachment_id"),
        ((), (PICTURE,), "turn.attachments[0]"),
        (("a",), (AttachedFile("a", "a.png", "picture", b"x"),), "turn.attachments[0].media_type"),
        (("a",), (AttachedFile("a", "a.png", "image/png", b""),), "turn.attachments[0].data"),
        (("a",), (PICTURE, PICTURE), "turn.attachments"),
        (("a",), (AttachedFile("a", "\ud800", "image/png", b"x"),), "turn"),
    ],
)
async def test_a_file_that_a_server_would_refuse_is_refused_with_the_same_path(
    names: tuple[str, ...], files: tuple[AttachedFile, ...], path: str
) -> None:
    async with Runtime({}, providers={"scripted": ScriptedProvider([])}, environ={}) as runtime:
        with pytest.raises(InvalidRequest) as refused:
            await runtime.run_turn(asking(*names), attachments=files)
        with pytest.raises(InvalidRequest) as empty:
            await runtime.append_input("run_1")
    assert path in [violation.field for violation in refused.value.violations]
    assert [violation.field for violation in empty.value.violations] == ["input"]
