"""The reader of JSON turns: any cut of the text gives the same, and nothing is claimed before it was written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwired.domain.generation import ModelItem, TextChunk, ToolArgumentsChunk, ToolCallClosed, ToolCallOpened
from turnwired.providers.json_reader import JsonToolReader
from turnwired.providers.json_tools import answer_text, call_text


@dataclass
class Folded:
    """The parts of an answer, as a consumer of the items sees them in the end."""

    texts: dict[int, str] = field(default_factory=dict[int, str])
    names: dict[int, str] = field(default_factory=dict[int, str])
    arguments: dict[int, str] = field(default_factory=dict[int, str])
    closed: list[int] = field(default_factory=list[int])

    def add(self, items: Sequence[ModelItem]) -> None:
        for item in items:
            match item:
                case TextChunk(index, text):
                    self.texts[index] = self.texts.get(index, "") + text
                case ToolCallOpened(index, _, name):
                    assert index not in self.names
                    self.names[index] = name
                case ToolArgumentsChunk(index, fragment):
                    assert index in self.names
                    self.arguments[index] = self.arguments.get(index, "") + fragment
                case ToolCallClosed(index):
                    assert index in self.names
                    assert index not in self.closed
                    self.closed.append(index)
                case _:
                    raise AssertionError(item)


def read(*pieces: str) -> Folded:
    reader, folded = JsonToolReader(), Folded()
    for piece in pieces:
        folded.add(reader.feed(piece))
    folded.add(reader.finish())
    return folded


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.text(max_size=8), JSON_VALUES, max_size=4)
NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True).filter(lambda name: name != "none")


@st.composite
def turns(draw: st.DrawFn) -> str:
    """Make turns as models write them, well-formed and not."""
    ascii_only = draw(st.booleans())
    indent = draw(st.sampled_from([None, 1, 2]))
    whole = draw(
        st.one_of(
            st.builds(lambda answer: {"tool": "none", "answer": answer}, st.text()),
            st.builds(lambda name, values: {"tool": name, "arguments": values}, NAMES, ARGUMENTS),
            st.builds(lambda values, name: {"arguments": values, "tool": name}, ARGUMENTS, NAMES),
            ARGUMENTS,
        )
    )
    text = json.dumps(whole, ensure_ascii=ascii_only, indent=indent)
    cut = draw(st.none() | st.integers(min_value=0, max_value=len(text)))
    return draw(st.sampled_from(["", " ", "\n"])) + text[:cut] + draw(st.sampled_from(["", "\n", " then text", "{"]))


@pytest.mark.requirement("JSONTOOLS-4")
@given(turn=turns() | st.text(), data=st.data())
def test_any_cut_of_the_text_gives_the_same_parts(turn: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(min_value=0, max_value=len(turn)), max_size=8)))
    pieces = [turn[start:end] for start, end in zip([0, *cuts], [*cuts, len(turn)], strict=True)]
    assert read(*pieces) == read(turn) == read(*turn)


@pytest.mark.requirement("JSONTOOLS-1")
@given(answer=st.text(), ascii_only=st.booleans())
def test_an_answer_comes_back_as_it_was_written(answer: str, ascii_only: bool) -> None:
    turn = json.dumps({"tool": "none", "answer": answer}, ensure_ascii=ascii_only)
    assert read(turn).texts == ({0: answer} if answer else {})
    assert read(answer_text(answer)).texts == ({0: answer} if answer else {})


@pytest.mark.requirement("JSONTOOLS-1")
@given(name=NAMES, arguments=ARGUMENTS)
def test_a_call_comes_back_as_it_was_written(name: str, arguments: dict[str, object]) -> None:
    folded = read(call_text(name, json.dumps(arguments)))
    assert folded.names == {0: name}
    assert json.loads(folded.arguments[0]) == arguments
    assert folded.closed == [0]
    assert folded.texts == {}


@pytest.mark.requirement("JSONTOOLS-1")
@given(name=NAMES, arguments=ARGUMENTS)
def test_arguments_before_the_name_or_inside_a_string_are_understood(name: str, arguments: dict[str, object]) -> None:
    encoded = json.dumps(arguments)
    for turn in ({"arguments": arguments, "tool": name}, {"tool": name, "arguments": encoded}):
        folded = read(json.dumps(turn))
        assert folded.names == {0: name}
        assert json.loads(folded.arguments[0]) == arguments
        assert folded.closed == [0]


@pytest.mark.requirement("JSONTOOLS-5")
def test_an_answer_streams_with_every_piece() -> None:
    reader = JsonToolReader()
    assert reader.feed('{"tool": "none", "ans') == []
    assert reader.feed('wer": "It is') == [TextChunk(0, "It is")]
    assert reader.feed(" 17:48\\") == [TextChunk(0, " 17:48")]
    assert reader.feed("n in Tok") == [TextChunk(0, "\n in Tok")]
    assert reader.feed('yo."') == [TextChunk(0, "yo.")]
    assert reader.feed("}") == []
    assert reader.finish() == []


@pytest.mark.requirement("JSONTOOLS-5")
def test_a_call_opens_with_its_arguments_and_closes_with_its_last_bracket() -> None:
    reader = JsonToolReader()
    assert reader.feed('{"tool": "now", "arguments"') == []
    assert reader.feed(': {"zone": "}\\"') == [ToolCallOpened(0, "", "now"), ToolArgumentsChunk(0, '{"zone": "}\\"')]
    assert reader.feed('"') == [ToolArgumentsChunk(0, '"')]
    assert reader.feed("}") == [ToolArgumentsChunk(0, "}"), ToolCallClosed(0)]
    assert reader.feed("}") == []


@pytest.mark.requirement("JSONTOOLS-6")
@given(data=st.data())
def test_a_call_that_was_cut_is_never_closed(data: st.DataObject) -> None:
    turn = call_text("search", '{"query": "a}b", "limits": {"rows": [1, 2]}}')
    cut = data.draw(st.integers(min_value=0, max_value=len(turn) - 2))
    folded = read(turn[:cut])
    assert folded.closed == []


@pytest.mark.requirement("JSONTOOLS-7")
@pytest.mark.parametrize(
    "text",
    [
        "It is noon.",
        '{"temperature": 21, "unit": "C"}',
        "{not json at all}",
        '{"a" 1}',
        '{"thought": "cut in the midd',
        '[{"tool": "now"}]',
    ],
)
def test_text_that_is_no_turn_is_shown_as_it_came(text: str) -> None:
    assert "".join(read(text).texts.values()) == text
    assert read(text).names == {}


@pytest.mark.requirement("JSONTOOLS-1")
def test_a_tool_without_arguments_is_called_with_an_empty_object() -> None:
    folded = read('{"tool": "list_files"}')
    assert (folded.names, folded.arguments, folded.closed) == ({0: "list_files"}, {0: "{}"}, [0])


@pytest.mark.requirement("JSONTOOLS-1")
def test_several_objects_are_several_parts_in_order() -> None:
    folded = read(call_text("a", '{"x": 1}') + "\n" + call_text("b", "{}") + answer_text("done"))
    assert folded.names == {0: "a", 1: "b"}
    assert folded.closed == [0, 1]
    assert folded.texts == {2: "done"}


@pytest.mark.requirement("JSONTOOLS-4")
@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        (r"\ud83d\ude00", "\N{GRINNING FACE}"),
        (r"\ud83dx", "\N{REPLACEMENT CHARACTER}x"),
        (r"\ude00", "\N{REPLACEMENT CHARACTER}"),
        (r"\ud83d\ud83d\ude00", "\N{REPLACEMENT CHARACTER}\N{GRINNING FACE}"),
        (r"\ud83d", "\N{REPLACEMENT CHARACTER}"),
        (r"a\"b\\c\/d\té", 'a"b\\c/d\té'),
    ],
)
def test_escapes_are_decoded_and_broken_ones_leave_a_mark(encoded: str, text: str) -> None:
    turn = f'{{"tool": "none", "answer": "{encoded}"}}'
    assert read(*turn).texts == {0: text}
    assert read(turn).texts == {0: text}
