"""What only a provider understands comes back to it as it was: in the next iteration, the next turn, after a reload."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.harness import world
from turnwired.codec.message import decode_message
from turnwired.domain.event import PartFinished
from turnwired.domain.generation import FinishReason, MediaProduced, NativeItem, ReasoningChunk, TextChunk
from turnwired.domain.message import OpaqueBlock, Reasoning
from turnwired.domain.outcome import OutcomeKind
from turnwired.store.sqlite import SqliteStore
from turnwired.testing.provider import Step, answer, stopped, usage
from turnwired.testing.provider import calls as calls_of
from turnwired.tools.port import ToolInvocation

pytestmark = pytest.mark.anyio

TURN = [
    {"reasoning": "First.", "signature": "S1", "of": "scripted"},
    {"reasoning": "", "signature": "ENC==", "of": "scripted", "redacted": True},
    {"native": "server_tool_use", "value": '{ "b":1,  "a":"\\u00e9" }', "of": "scripted"},
    "Let me look.",
    {"native": "citations", "value": "[1, 2]", "of": "scripted"},
    {"call": "", "tool": "look", "arguments": "{}"},
    {"native": "extra_content", "value": '{"google":{"thought_signature":"x"}}', "of": "scripted"},
]
"""The turn as the scripted provider encodes it, its call id left out."""


def thinking_and_calling() -> list[Step]:
    """Signed and redacted thinking, native items and a call in between, the items for one part apart."""
    call = [step for step in calls_of(("look", "{}")) if not callable(step)]
    first = call[0]
    assert not isinstance(first, Exception)
    return [
        [ReasoningChunk(10, "Fir"), ReasoningChunk(10, "st.", b"S1")],
        [
            ReasoningChunk(11, "", b"ENC==", redacted=True),
            NativeItem(12, "server_tool_use", '{ "b":1,  "a":"\\u00e9" }'),
        ],
        [TextChunk(13, "Let me "), NativeItem(13, "citations", "[1, 2]"), TextChunk(13, "look.")],
        list(first),
        [NativeItem(0, "extra_content", '{"google":{"thought_signature":"x"}}')],
        [stopped(FinishReason.TOOL_CALLS), usage()],
    ]


def without_call_id(parts: object) -> object:
    assert isinstance(parts, list)
    return [part | {"call": ""} if isinstance(part, dict) and "call" in part else part for part in parts]


async def look(invocation: ToolInvocation) -> str:
    return "seen"


@pytest.mark.requirement("OUT-2", "SCN-080", "SCN-081")
async def test_an_assistants_turn_is_in_every_later_request_as_it_was_also_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    script = [thinking_and_calling(), answer("Done."), answer("Again.")]
    async with world(script, {"look": look}, store=SqliteStore(path)) as w:
        await w.run(session_id="s")
        await w.run(session_id="s")
    kept = [w.provider.messages(call) for call in (1, 2)]
    async with world([answer("After.")], {"look": look}, store=SqliteStore(path)) as w:
        await w.run(session_id="s")
        kept.append(w.provider.messages(0))
    for messages in kept:
        assert messages[2]["role"] == "ASSISTANT"
        assert without_call_id(messages[2]["parts"]) == TURN
        assert messages[3]["role"] == "TOOL"
    assert kept[2][:4] == kept[1][:4] == kept[0][:4], "the prefix grows only at its end"


@pytest.mark.requirement("OUT-2")
async def test_stored_parts_name_the_provider_that_they_are_for() -> None:
    async with world([thinking_and_calling(), answer("Done.")], {"look": look}) as w:
        await w.run(session_id="s")
        stored = [decode_message(item.body) for item in await w.store.load_messages("default", "s")]
    natives = [
        part.content
        for message in stored
        for part in message.parts
        if isinstance(part.content, Reasoning | OpaqueBlock)
    ]
    assert len(natives) == 5
    assert {content.provider for content in natives} == {"scripted"}


@pytest.mark.requirement("OUT-3")
async def test_an_image_is_an_output_event_and_the_answer_of_the_run_and_of_the_session() -> None:
    image: list[Step] = [[MediaProduced(0, "image/png", b"\x89PNG")], [stopped(), usage()]]
    async with world([image, answer("Again.")]) as w:
        reader = await w.run(session_id="s")
        await w.run(session_id="s")
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
    (part,) = [event.part for event in reader.of(PartFinished) if isinstance(event, PartFinished)]
    assert reader.finished.message is not None
    assert reader.finished.message.parts == (part,)
    assert w.provider.messages(1)[2]["parts"] == [{"file": "image/png", "bytes": 4}]
