"""Results of a conversation that a caller brings: in the order of their calls."""

from __future__ import annotations

import json

import pytest
from engine.harness import world
from hypothesis import given
from hypothesis import strategies as st

from turnwired.context.pairing import in_call_order
from turnwired.domain.message import Message, Part, Role, Text, ToolCall, ToolResult, ToolResultStatus
from turnwired.domain.tool import ToolRef, ToolSource
from turnwired.testing.provider import answer

pytestmark = pytest.mark.anyio


def asks(*call_ids: str) -> Message:
    ref = ToolRef("look", "look", ToolSource.LOCAL)
    return Message(Role.ASSISTANT, tuple(Part(f"p_{each}", ToolCall(each, ref, "{}")) for each in call_ids))


def gives(*call_ids: str) -> Message:
    return Message(
        Role.TOOL,
        tuple(
            Part(f"r_{each}", ToolResult(each, ToolResultStatus.OK, (Part("", Text(f"of {each}")),)))
            for each in call_ids
        ),
    )


def results(messages: object) -> list[str]:
    assert isinstance(messages, (list, tuple))
    return [part.content.call_id for m in messages for part in m.parts if isinstance(part.content, ToolResult)]


WORDS = Message(Role.USER, (Part("p_words", Text("Hello")),))


@pytest.mark.requirement("CTX-40")
@given(data=st.data(), sizes=st.lists(st.integers(0, 5), max_size=4))
def test_results_come_in_the_order_of_their_calls_whatever_messages_they_are_in(
    data: st.DataObject, sizes: list[int]
) -> None:
    given_: list[Message] = []
    wanted: list[str] = []
    for group, size in enumerate(sizes):
        ids = [f"{group}_{number}" if data.draw(st.booleans()) else f"same_{number}" for number in range(size)]
        mixed = data.draw(st.permutations(ids))
        cut = data.draw(st.integers(0, size))
        given_ += [WORDS, asks(*ids), *(gives(*part) for part in (mixed[:cut], mixed[cut:]) if part)]
        wanted += ids
    ordered = in_call_order(given_)
    assert results(ordered) == wanted
    assert [message.role for message in ordered] == [message.role for message in given_]
    assert [len(message.parts) for message in ordered] == [len(message.parts) for message in given_]
    assert in_call_order(ordered) == ordered


@pytest.mark.requirement("CTX-40")
def test_a_conversation_without_results_costs_nothing() -> None:
    messages = (WORDS, WORDS)
    assert in_call_order(messages) is messages


@pytest.mark.requirement("CTX-40")
async def test_a_provider_gets_them_in_order_too() -> None:
    input_ = (WORDS, asks("a", "b", "c"), gives("c", "a"), gives("b"), WORDS)
    async with world([answer("Done.")]) as w:
        await w.run(input=input_)
        sent = [json.loads(piece) for piece in w.provider.requests[0].messages]
    text = json.dumps([message for message in sent if message["role"] == "TOOL"])
    assert text.index("of a") < text.index("of b") < text.index("of c")
