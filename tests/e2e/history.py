"""What a provider may be sent: every call answered exactly once, in call order, right after its message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def assert_well_formed(messages: Sequence[dict[str, Any]]) -> None:
    """Fail with the first thing that is wrong with a conversation of chat completions."""
    open_ids: list[str] = []
    for number, message in enumerate(messages):
        role = message["role"]
        if role == "tool":
            assert open_ids, f"message {number} answers no call: {message}"
            assert message["tool_call_id"] == open_ids.pop(0), f"message {number} answers out of order"
            assert message["content"] != "", f"message {number} is an empty result"
            continue
        assert not open_ids, f"calls {open_ids} have no result before message {number} ({role})"
        assert role in ("system", "user", "assistant"), message
        if role == "assistant":
            open_ids = [call["id"] for call in message.get("tool_calls") or ()]
            assert len(set(open_ids)) == len(open_ids), f"call ids repeat in message {number}"
            assert open_ids or message.get("content"), f"message {number} of the assistant is empty"
    assert not open_ids, f"calls {open_ids} have no result"
