"""Properties of what is done to foreign text: nothing is lost, nothing that cannot be stored gets through."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwired.domain.message import Data, Part, Text
from turnwired.domain.text import clean_text
from turnwired.tools.mcp.process import TooLong, _Splitter
from turnwired.tools.naming import routed_name
from turnwired.tools.port import ToolOutput
from turnwired.tools.result import clean_json, settle_output
from turnwired.tools.schema import compile_schema, parse_arguments

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.requirement("TOOL-12")
@given(ANY_TEXT)
def test_cleaned_text_can_be_stored_and_clean_text_is_kept(text: str) -> None:
    cleaned = clean_text(text)
    assert "\0" not in cleaned
    assert cleaned.encode().decode() == cleaned
    assert clean_text(cleaned) == cleaned
    storable = "\0" not in text and not any(0xD800 <= ord(character) < 0xE000 for character in text)
    assert (cleaned == text) is storable


@pytest.mark.requirement("TOOL-12")
@given(ANY_JSON, st.booleans())
def test_cleaned_json_is_json_and_can_be_stored(value: object, ascii_only: bool) -> None:
    cleaned = clean_json(json.dumps(value, ensure_ascii=ascii_only))
    cleaned.encode()
    again = json.dumps(json.loads(cleaned), ensure_ascii=False)
    again.encode()
    assert "\\u0000" not in again


@pytest.mark.requirement("TOOL-11")
@given(st.lists(ANY_TEXT, max_size=4), st.integers(0, 40))
def test_a_capped_result_is_within_its_limit_and_says_what_it_was(texts: list[str], limit: int) -> None:
    output = ToolOutput(tuple(Part("", Text(text)) for text in texts))
    whole = settle_output("c", output, None)
    size = sum(len(part.content.text.encode()) for part in whole.content if isinstance(part.content, Text))
    result = settle_output("c", output, limit)
    contents = [part.content for part in result.content]
    if size <= limit:
        assert result == whole
        return
    assert result.original_size_bytes == size
    assert all(isinstance(item, Text) for item in contents)
    kept = "".join(item.text for item in contents[:-1] if isinstance(item, Text))
    assert len(kept.encode()) <= limit
    everything = "".join(part.content.text for part in whole.content if isinstance(part.content, Text))
    assert everything.startswith(kept)
    assert len(kept.encode()) > limit - 4


@pytest.mark.requirement("TOOL-11")
@given(ANY_JSON, st.integers(0, 40), st.booleans())
def test_a_structured_value_is_whole_or_not_there(value: object, limit: int, is_error: bool) -> None:
    output = ToolOutput((), structured_json=json.dumps(value), is_error=is_error)
    result = settle_output("c", output, limit)
    if result.structured_json is not None:
        json.loads(result.structured_json)
        assert len(result.structured_json.encode()) <= limit
        assert Data(result.structured_json) in [part.content for part in result.content]
    else:
        assert result.original_size_bytes is not None


@pytest.mark.requirement("MCP-10")
@given(st.lists(st.binary(max_size=30).map(lambda data: data.replace(b"\n", b"")), max_size=8), st.data())
def test_lines_survive_any_chunking(lines: list[bytes], data: st.DataObject) -> None:
    limit = 12
    stream = b"".join(line + b"\n" for line in lines)
    splitter, found = _Splitter(limit), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += splitter.feed(stream[:size])
        stream = stream[size:]
    assert [line if len(line) <= limit else TooLong(line, line) for line in lines] == found


@pytest.mark.requirement("TOOL-1")
@given(st.none() | ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_names_that_differ_are_routed_apart(namespace: str | None, one: str, other: str) -> None:
    assert (routed_name(namespace, one) == routed_name(namespace, other)) is (one == other)


@pytest.mark.requirement("TOOL-3", "TOOL-7")
@given(ANY_TEXT | ANY_JSON.map(json.dumps))
def test_no_schema_and_no_arguments_raise(text: str) -> None:
    assert isinstance(parse_arguments(text), (dict, str))
    compiled = compile_schema(text)
    if not isinstance(compiled, str):
        assert json.loads(compiled.offered_json)["type"] == "object"
