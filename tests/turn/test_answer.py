"""How an answer is put together from the items of a wire, orderly or not."""

from __future__ import annotations

import pytest
from turn.machinekit import Driven, a_call, stop

from turnwired.domain.event import (
    PartFinished,
    ReasoningDelta,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallArgumentsFinished,
    ToolCallStarted,
)
from turnwired.domain.generation import (
    FinishReason,
    GenerationStopped,
    ModelItem,
    NativeItem,
    ReasoningChunk,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallClosed,
    ToolCallOpened,
    UsageReported,
)
from turnwired.domain.message import OpaqueBlock, Reasoning, Text, ToolCall
from turnwired.domain.outcome import Notice
from turnwired.domain.usage import Usage
from turnwired.turn.effects import CallModel, ResolveTool


def arguments(run: Driven) -> list[str]:
    return [event.arguments_json for event in run.events(ToolCallArgumentsFinished)]


def notices(run: Driven) -> list[str]:
    return [event.message for event in run.events(Notice)]


@pytest.mark.requirement("TURN-11")
def test_chunks_of_one_part_in_one_batch_become_one_delta() -> None:
    run = Driven()
    step = run.produced(TextChunk(0, "a"), TextChunk(0, ""), TextChunk(0, "b"), TextChunk(0, "c"))
    assert [emitted.event for emitted in step.events] == [TextDelta("part_1", "abc")]
    step = run.produced(TextChunk(0, "d"))
    assert [emitted.event for emitted in step.events] == [TextDelta("part_1", "d")]


@pytest.mark.requirement("TURN-11")
def test_a_part_finishes_when_the_next_one_begins_and_equals_its_deltas() -> None:
    run = Driven()
    run.produced(ReasoningChunk(0, "think"), ReasoningChunk(0, "ing", b"sig"), TextChunk(1, "ans"))
    run.answers(TextChunk(1, "wer"), stop())
    assert run.events(ReasoningDelta) == [ReasoningDelta("part_1", "thinking")]
    assert run.events(TextDelta) == [TextDelta("part_2", "ans"), TextDelta("part_2", "wer")]
    assert [event.part.content for event in run.events(PartFinished)] == [
        Reasoning("thinking", b"sig", "provider"),
        Text("answer"),
    ]
    assert run.names.index("PartFinished") < run.names.index("TextDelta")


@pytest.mark.requirement("TURN-11")
def test_text_that_comes_back_to_a_finished_part_begins_a_new_one() -> None:
    run = Driven()
    run.answers(TextChunk(0, "a"), *a_call(1), TextChunk(0, "b"), stop())
    assert [(delta.part_id, delta.text) for delta in run.events(TextDelta)] == [("part_1", "a"), ("part_2", "b")]
    run.runs_all_tools()
    contents = [part.content for part in run.every(CallModel)[1].append[0].parts]
    assert [type(content) for content in contents] == [Text, ToolCall, Text]


@pytest.mark.requirement("TURN-24")
def test_leading_blanks_wait_for_text_and_alone_are_nothing() -> None:
    run = Driven()
    assert run.produced(TextChunk(0, "\n")).events == ()
    run.produced(TextChunk(0, "\n"), *a_call(1))
    run.produced(TextChunk(2, " "))
    run.answers(TextChunk(2, "Hi. "), TextChunk(2, " "), stop())
    assert [delta.text for delta in run.events(TextDelta)] == [" Hi.  "]
    assert [event.part.content for event in run.events(PartFinished)] == [Text(" Hi.  ")]


@pytest.mark.requirement("TURN-24", "TURN-11")
def test_reasoning_blocks_keep_their_order_and_signatures_and_only_empty_unsigned_ones_go() -> None:
    run = Driven()
    run.answers(
        ReasoningChunk(0, "First.", b"S1"),
        NativeItem(1, "redacted_thinking", '{"data":"ENC=="}'),
        ReasoningChunk(2, "", b"S3"),
        ReasoningChunk(3, ""),
        *a_call(4),
        stop(),
    )
    run.runs_all_tools()
    contents = [part.content for part in run.every(CallModel)[1].append[0].parts]
    assert contents[:3] == [
        Reasoning("First.", b"S1", "provider"),
        OpaqueBlock("redacted_thinking", '{"data":"ENC=="}', "provider"),
        Reasoning("", b"S3", "provider"),
    ]
    assert isinstance(contents[3], ToolCall)
    assert len(contents) == 4


@pytest.mark.requirement("TURN-11")
def test_arguments_of_several_calls_may_interleave() -> None:
    run = Driven()
    step = run.produced(
        ToolCallOpened(0, "a", "look"),
        ToolCallOpened(1, "b", "write"),
        ToolArgumentsChunk(0, '{"a"'),
        ToolArgumentsChunk(1, '{"b"'),
        ToolArgumentsChunk(0, ":1}"),
        ToolArgumentsChunk(1, ":2"),
        ToolArgumentsChunk(1, "}"),
    )
    deltas = [e.event for e in step.events if isinstance(e.event, ToolCallArgumentsDelta)]
    assert [delta.fragment for delta in deltas] == ['{"a"', '{"b"', ":1}", ":2}"]
    run.answers(stop())
    assert arguments(run) == ['{"a":1}', '{"b":2}']


@pytest.mark.requirement("TURN-24")
@pytest.mark.parametrize("chunks", [[], [ToolArgumentsChunk(0, "")], [ToolArgumentsChunk(0, "  ")]])
def test_no_arguments_are_the_empty_object(chunks: list[ModelItem]) -> None:
    run = Driven()
    run.answers(ToolCallOpened(0, "a", "look"), *chunks, ToolCallClosed(0), stop())
    assert arguments(run) == ["{}"]
    assert run.every(ResolveTool)[0].arguments_json == "{}"


@pytest.mark.requirement("TURN-24", "TURN-6")
@pytest.mark.parametrize("words", ['{"action": listt"}', "[1]", "3", '{"a":NaN}', "[" * 100_000])
def test_arguments_that_are_no_object_go_to_the_registry_as_they_are_and_back_as_an_empty_object(words: str) -> None:
    run = Driven()
    run.answers(*a_call(0, "look", words), stop())
    assert run.every(ResolveTool)[0].arguments_json == words
    assert arguments(run) == [words]
    run.runs_all_tools()
    (part,) = run.every(CallModel)[1].append[0].parts
    assert isinstance(part.content, ToolCall)
    assert part.content.arguments_json == "{}"


@pytest.mark.requirement("TURN-24")
def test_calls_that_are_never_closed_are_complete_when_the_answer_ends_well() -> None:
    run = Driven()
    run.answers(ToolCallOpened(0, "a", "look"), ToolArgumentsChunk(0, "{}"), stop(FinishReason.OTHER))
    assert arguments(run) == ["{}"]
    assert len(run.every(ResolveTool)) == 1


@pytest.mark.requirement("TURN-24")
def test_a_repeated_opening_or_closing_is_the_same_call() -> None:
    run = Driven()
    run.answers(
        ToolCallOpened(0, "a", "look"),
        ToolCallOpened(0, "a", "look"),
        ToolCallOpened(0, "", "look"),
        ToolCallOpened(0, "a", ""),
        ToolArgumentsChunk(0, "{}"),
        ToolCallClosed(0),
        ToolCallClosed(0),
        ToolCallOpened(0, "a", "look"),
        ToolCallClosed(5),
        stop(FinishReason.TOOL_CALLS),
        stop(FinishReason.TOOL_CALLS),
    )
    assert len(run.events(ToolCallStarted)) == 1
    assert arguments(run) == ["{}"]
    assert len(run.every(ResolveTool)) == 1


@pytest.mark.requirement("TURN-24", "TURN-10")
def test_another_id_or_name_at_the_same_index_is_another_call() -> None:
    run = Driven()
    run.answers(*a_call(0, "look", '{"a":1}', "x"), *a_call(0, "look", '{"a":2}', "y"), *a_call(0, "write"), stop())
    assert [event.tool.routed_name for event in run.events(ToolCallStarted) if event.tool] == ["look", "look", "write"]
    assert arguments(run) == ['{"a":1}', '{"a":2}', "{}"]


@pytest.mark.requirement("TURN-24")
def test_a_call_is_announced_once_its_name_is_known() -> None:
    run = Driven()
    step = run.produced(ToolCallOpened(0, "a", ""), ToolArgumentsChunk(0, '{"a"'))
    assert step.events == ()
    run.produced(ToolCallOpened(0, "", "look"), ToolArgumentsChunk(0, ":1}"))
    run.answers(stop())
    assert run.events(ToolCallStarted)[0].tool is not None
    assert [event.fragment for event in run.events(ToolCallArgumentsDelta)] == ['{"a":1}']
    assert arguments(run) == ['{"a":1}']


@pytest.mark.requirement("TURN-24")
def test_a_name_that_comes_after_the_closing_still_makes_a_call() -> None:
    run = Driven()
    run.answers(
        ToolCallOpened(0, "a", ""),
        ToolArgumentsChunk(0, "{}"),
        ToolCallClosed(0),
        ToolCallOpened(0, "a", "look"),
        stop(),
    )
    assert run.names[2:5] == ["ToolCallStarted", "ToolCallArgumentsDelta", "ToolCallArgumentsFinished"]
    assert len(run.every(ResolveTool)) == 1


@pytest.mark.requirement("TURN-24")
def test_a_call_that_is_never_named_is_left_out_with_a_notice() -> None:
    run = Driven()
    run.answers(TextChunk(0, "Hi."), ToolCallOpened(1, "a", ""), ToolArgumentsChunk(1, "{}"), stop())
    assert run.events(ToolCallStarted) == []
    assert len(notices(run)) == 1
    assert run.outcome.failure is None


@pytest.mark.requirement("TURN-24")
def test_a_stray_fragment_belongs_to_the_only_open_call() -> None:
    run = Driven()
    run.answers(
        ToolCallOpened(0, "a", "look"), ToolArgumentsChunk(0, '{"p":"re'), ToolArgumentsChunk(1, 'port"}'), stop()
    )
    assert arguments(run) == ['{"p":"report"}']
    assert len(notices(run)) == 1
    assert len(run.every(ResolveTool)) == 1


@pytest.mark.requirement("TURN-24")
def test_a_stray_fragment_without_any_call_and_one_after_the_end_are_left_out() -> None:
    run = Driven()
    late = [ToolArgumentsChunk(0, "x"), ToolArgumentsChunk(0, "y")]
    run.answers(ToolArgumentsChunk(3, "{}"), *a_call(0, "look", '{"a":1}'), *late, stop())
    assert arguments(run) == ['{"a":1}']
    assert [event.fragment for event in run.events(ToolCallArgumentsDelta)] == ['{"a":1}']
    assert len(notices(run)) == 1  # one per answer is enough to look into the provider's stream


@pytest.mark.requirement("TURN-24")
def test_the_first_known_finish_word_and_the_last_usage_count() -> None:
    run = Driven()
    run.answers(
        TextChunk(0, "Hi."),
        UsageReported(Usage(8834, 0)),
        GenerationStopped(FinishReason.OTHER, ""),
        GenerationStopped(FinishReason.STOP, "stop"),
        GenerationStopped(FinishReason.OUTPUT_LIMIT, "length"),
        UsageReported(Usage(18, 426)),
    )
    assert run.finished.usage == Usage(18, 426)
    assert run.outcome.failure is None
