"""What a hostile caller or a broken log puts into a history never leaves the place in the body that it belongs to."""

from __future__ import annotations

import msgspec
import pytest

from turnwired.domain.errors import InvalidRequest
from turnwired.domain.message import Message, OpaqueBlock, Part, Role, Text, ToolCall
from turnwired.domain.tool import ToolRef, ToolSource
from turnwired.providers.build import provider_for
from turnwired.providers.profiles import Wire, shipped

BREAKING_OUT = ('{}],"model":"other","max_tokens":9999999,"x":[{}', "{", "", "NaN", '{"a":1e999}', '"text"', "[" * 2000)
KINDS = ("reasoning", "reasoning_details", "extra_content", "message.extra_content", "web_search_call", "tool_use")


@pytest.mark.requirement("HOSTILE-1")
@pytest.mark.parametrize("value", BREAKING_OUT)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wire", [*Wire])
def test_a_native_block_that_is_no_json_value_does_not_become_a_part_of_a_body(
    wire: Wire, kind: str, value: str
) -> None:
    profile = next(profile for profile in shipped().values() if profile.wire is wire)
    provider = provider_for(profile, environ={})
    call = ToolCall("call-1", ToolRef("f", "f", ToolSource.LOCAL), "{}")
    parts = (Part("p1", Text("words")), Part("p2", call), Part("p3", OpaqueBlock(kind, value, profile.name)))
    try:
        encoded = provider.encode_message(Message(Role.ASSISTANT, parts, "m1"))
    except InvalidRequest:
        return
    assert "other" not in encoded.decode()
    assert len(msgspec.json.decode(b"[" + encoded + b"]")) >= 1
