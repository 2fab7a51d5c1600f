"""Results of calls: capped, cleaned, numbered, and one form for the model."""

from __future__ import annotations

import json

import pytest
from tools.kit import FakeToolset, described, invocation, view_of, words_of

from turnwired.domain.message import Blob, Content, Data, OpaqueBlock, Part, Text, ToolResultStatus
from turnwired.tools.port import ToolOutput, ToolView
from turnwired.tools.registry import Source


async def _giving(*content: Content, **fields: object) -> ToolView:
    output = ToolOutput(tuple(Part("", item) for item in content), **fields)  # type: ignore[arg-type]
    return await view_of(Source(FakeToolset("s", [described("act")], output=lambda _: output)))


@pytest.mark.requirement("TOOL-11")
@pytest.mark.parametrize("character", ["x", "é", "😀"])
async def test_a_long_text_is_cut_at_a_character_with_a_marker_and_its_size(character: str) -> None:
    size = len(character.encode())
    view = await _giving(Text(character * 100_000))
    result = await view.execute("act", invocation(), 65_537)
    kept, marker = (part.content for part in result.content)
    assert isinstance(kept, Text)
    assert isinstance(marker, Text)
    assert kept.text == character * (65_537 // size)
    assert marker.text == f"\n[The result was cut: it has {100_000 * size} bytes, the limit is 65537.]"
    assert result.original_size_bytes == 100_000 * size
    assert result.status is ToolResultStatus.OK


@pytest.mark.requirement("TOOL-11")
async def test_a_result_at_the_limit_is_whole() -> None:
    result = await (await _giving(Text("x" * 10))).execute("act", invocation(), 10)
    assert words_of(result) == "x" * 10
    assert result.original_size_bytes is None


@pytest.mark.requirement("TOOL-11")
async def test_parts_that_cannot_be_cut_are_left_out_and_named() -> None:
    view = await _giving(Blob("image/png", b"x" * 50), OpaqueBlock("mcp/ui", '"' + "y" * 50 + '"'), Text("short"))
    result = await view.execute("act", invocation(), 20)
    words = words_of(result)
    assert "[image/png of 59 bytes left out]" in words
    assert "[a part of 58 bytes left out]" in words
    assert "short" in words
    assert "the limit is 20" in words
    assert result.original_size_bytes == 59 + 58 + 5


@pytest.mark.requirement("TOOL-11")
async def test_a_structured_value_above_the_limit_is_not_kept_in_part() -> None:
    value = json.dumps({"rows": ["x" * 10] * 100})
    result = await (await _giving(structured_json=value)).execute("act", invocation(), 100)
    assert result.structured_json is None
    assert result.original_size_bytes == len(value)
    assert words_of(result).startswith(value[:100])


@pytest.mark.requirement("TOOL-12")
async def test_nul_and_lone_surrogates_are_replaced_and_all_else_is_kept() -> None:
    view = await _giving(
        Text("W\0S\0 \ud800 end \ud83d\ude00 😀"),
        Data('{"a":"\\u0000","b":"\\ud83d ok","c":"\\ud83d\\ude00"}'),
        structured_json='{"x":"\\udfff"}',
    )
    result = await view.execute("act", invocation(), None)
    text, data = (part.content for part in result.content)
    assert text == Text("W\ufffdS\ufffd \ufffd end 😀 😀")
    assert isinstance(data, Data)
    assert json.loads(data.json) == {"a": "\ufffd", "b": "\ufffd ok", "c": "😀"}
    assert result.structured_json == '{"x":"\ufffd"}'
    repr(result).encode()


@pytest.mark.requirement("TOOL-14")
async def test_the_error_flag_comes_first_and_structured_data_stays() -> None:
    view = await _giving(structured_json='{"code":"RATE_LIMITED"}', is_error=True)
    result = await view.execute("act", invocation(), None)
    assert result.status is ToolResultStatus.ERROR
    assert result.failure is not None
    assert words_of(result) == 'The tool call failed.\n{"code":"RATE_LIMITED"}'
    assert result.structured_json == '{"code":"RATE_LIMITED"}'


@pytest.mark.requirement("TOOL-14")
async def test_text_beside_structured_data_is_the_one_form_for_the_model() -> None:
    result = await (await _giving(Text("2 rows"), structured_json="[1,2]")).execute("act", invocation(), None)
    assert (words_of(result), result.structured_json) == ("2 rows", "[1,2]")


@pytest.mark.requirement("TOOL-14")
async def test_parts_are_numbered_within_their_call() -> None:
    result = await (await _giving(Text("a"), Text("b"))).execute("act", invocation(), None)
    assert [part.part_id for part in result.content] == ["call-1.0", "call-1.1"]
