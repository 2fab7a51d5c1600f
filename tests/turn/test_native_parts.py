"""Parts that only their provider understands, and files that a model made: their order, and what becomes of them."""

from __future__ import annotations

import pytest
from turn.machinekit import RUN_ID, Driven, a_call, bounds_with, failure, ok, setup_with, stop

from turnwired.domain.event import PartFinished, ToolCallExecuting, ToolCallStarted
from turnwired.domain.failure import Reason
from turnwired.domain.generation import (
    FinishReason,
    MediaProduced,
    ModelItem,
    NativeItem,
    ReasoningChunk,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallClosed,
    ToolCallOpened,
)
from turnwired.domain.message import Blob, Message, OpaqueBlock, Part, Reasoning, Text, ToolCall
from turnwired.domain.outcome import Notice, OutcomeKind
from turnwired.domain.trace import IterationTrace
from turnwired.turn.answer import MAX_FILE_BYTES
from turnwired.turn.effects import CallModel, ResolveTool
from turnwired.turn.recovery import closing_step
from turnwired.turn.trace import trace_of


def native(index: int, kind: str = "native", json: str = '{"n":1}') -> NativeItem:
    return NativeItem(index, kind, json)


def kinds(parts: tuple[Part, ...]) -> list[str]:
    """Parts in short: their text, call name or native kind."""
    names: list[str] = []
    for part in parts:
        match part.content:
            case Text(text) | Reasoning(text=text):
                names.append(text)
            case ToolCall() as call:
                names.append(call.tool.routed_name)
            case OpaqueBlock(kind):
                names.append(kind)
            case content:
                names.append(type(content).__name__)
    return names


def first_turn(run: Driven) -> Message:
    """The assistant's first turn as the second request has it."""
    run.runs_all_tools()
    return run.every(CallModel)[1].append[0]


TURNS: list[tuple[str, list[ModelItem], list[str]]] = [
    (
        "behind a call, though it comes after the next one began",
        [
            ToolCallOpened(0, "a", "look"),
            ToolCallOpened(1, "b", "write"),
            native(0, "first"),
            ToolArgumentsChunk(0, "{}"),
            native(0, "second"),
            native(1, "third"),
            ToolCallClosed(0),
        ],
        ["look", "first", "second", "write", "third"],
    ),
    (
        "behind a part that is still open, when that ends",
        [TextChunk(0, "Hel"), native(0, "citation"), TextChunk(0, "lo"), native(0, "again"), *a_call(1)],
        ["Hello", "citation", "again", "look"],
    ),
    (
        "behind a part that has ended, without ending the one that grows",
        [TextChunk(0, "One"), ReasoningChunk(1, "Two "), native(0, "late"), ReasoningChunk(1, "two"), *a_call(2)],
        ["One", "late", "Two two", "look"],
    ),
    (
        "as a part of its own at a position of its own",
        [ReasoningChunk(0, "Hm."), native(1, "server_tool_use"), native(2, "result"), TextChunk(3, "So"), *a_call(4)],
        ["Hm.", "server_tool_use", "result", "So", "look"],
    ),
    (
        "behind another native item at its position",
        [native(0, "one"), TextChunk(1, "x"), native(0, "two"), *a_call(2)],
        ["one", "two", "x", "look"],
    ),
    (
        "behind a call that is named late",
        [ToolCallOpened(0, "a", ""), native(0, "early"), TextChunk(1, "x"), ToolCallOpened(0, "a", "look")],
        ["x", "look", "early"],
    ),
    (
        "as a part of its own when the part at its position is blank and so none",
        [TextChunk(0, " "), native(0, "alone"), *a_call(1)],
        ["alone", "look"],
    ),
]


@pytest.mark.requirement("OUT-1")
@pytest.mark.parametrize(("items", "order"), [turn[1:] for turn in TURNS], ids=[turn[0] for turn in TURNS])
def test_a_native_item_is_kept(items: list[ModelItem], order: list[str]) -> None:
    run = Driven()
    run.answers(*items, stop())
    turn = first_turn(run)
    assert kinds(turn.parts) == order
    (iteration,) = [e.entry for e in trace_of(run.log()).entries if isinstance(e.entry, IterationTrace)][:1]
    assert kinds(iteration.parts) == order
    recovered = closing_step(RUN_ID, "agent", None, run.log(), failure(Reason.SERVER_RESTARTED))
    assert kinds(recovered.messages[0].parts) == order


@pytest.mark.requirement("OUT-1")
def test_the_id_of_what_is_attached_names_its_owner() -> None:
    run = Driven()
    run.answers(TextChunk(0, "Hi."), native(0), native(0), *a_call(1), native(1), stop())
    ids = [part.part_id for part in first_turn(run).parts]
    assert ids == ["part_1", "part_1.1", "part_1.2", "call_89abcdef_1", "call_89abcdef_1.1"]


@pytest.mark.requirement("OUT-2")
def test_redacted_reasoning_is_kept_by_its_signature_alone_and_names_its_provider() -> None:
    run = Driven()
    run.answers(
        ReasoningChunk(0, "First.", b"S1"),
        ReasoningChunk(1, "", b"ENC==", redacted=True),
        ReasoningChunk(2, "", b"S3"),
        ReasoningChunk(3, "", redacted=True),
        *a_call(4),
        stop(),
    )
    assert [part.content for part in first_turn(run).parts][:3] == [
        Reasoning("First.", b"S1", "provider"),
        Reasoning("", b"ENC==", "provider", redacted=True),
        Reasoning("", b"S3", "provider"),
    ]
    assert len(first_turn(run).parts) == 4


@pytest.mark.requirement("OUT-2")
def test_a_cut_turn_keeps_text_files_and_whole_calls_and_nothing_that_only_its_provider_understands() -> None:
    run = Driven()
    run.produced(ReasoningChunk(0, "Hm.", b"S"), TextChunk(1, "Let me"), native(1, "citation"), native(2, "search"))
    run.produced(MediaProduced(3, "image/png", b"png"), *a_call(4), native(4, "signature"))
    run.produced(ToolCallOpened(5, "", "write"), ToolArgumentsChunk(5, '{"a'))
    run.failed(failure(Reason.PROVIDER_NETWORK))
    assert kinds(run.settled[0].parts) == ["Let me", "Blob", "look"]


@pytest.mark.requirement("OUT-3")
def test_a_turn_with_nothing_but_an_image_is_an_answer() -> None:
    run = Driven()
    run.answers(*a_call(0), stop())
    run.runs_all_tools()
    run.answers(MediaProduced(0, "image/png", b"\x89PNG"), stop())
    assert run.outcome.kind is OutcomeKind.ANSWERED
    assert run.finished.message is not None
    assert [part.content for part in run.finished.message.parts] == [Blob("image/png", b"\x89PNG")]
    assert run.finished.iteration_count == 2
    assert run.settled[-1].parts == run.finished.message.parts


@pytest.mark.requirement("OUT-3")
def test_a_file_that_no_event_could_carry_is_left_out_with_a_notice() -> None:
    run = Driven()
    half = bytes(MAX_FILE_BYTES // 2)
    run.produced(MediaProduced(0, "image/png", half), MediaProduced(1, "image/webp", half + b"+"))
    run.answers(MediaProduced(2, "image/png", half), stop())
    (notice,) = run.events(Notice)
    assert notice.reason is Reason.MESSAGE_TOO_LARGE
    assert "image/webp" in notice.message
    assert run.finished.message is not None
    assert [part.content for part in run.finished.message.parts] == [Blob("image/png", half)] * 2


@pytest.mark.requirement("OUT-3")
def test_an_answer_whose_only_file_was_too_large_has_nothing_to_show() -> None:
    run = Driven()
    run.answers(MediaProduced(0, "image/png", bytes(MAX_FILE_BYTES + 1)), stop())
    assert run.outcome.kind is OutcomeKind.ERRORED
    assert run.outcome.failure is not None
    assert run.outcome.failure.reason is Reason.ANSWER_MISSING


@pytest.mark.requirement("OUT-4")
def test_a_tool_that_the_provider_executed_is_shown_and_neither_run_nor_counted() -> None:
    run = Driven(setup_with(bounds_with(max_tool_calls=1)))
    run.answers(
        NativeItem(0, "server_tool_use", '{"name":"web_search"}'),
        NativeItem(1, "web_search_tool_result", '{"content":[]}'),
        TextChunk(2, "Found."),
        stop(FinishReason.TOOL_CALLS),
    )
    assert run.outcome.kind is OutcomeKind.ANSWERED
    assert run.finished.tool_call_count == 0
    assert run.every(ResolveTool) == []
    assert run.events(ToolCallStarted) == []
    assert run.events(ToolCallExecuting) == []
    shown = [event.part.content for event in run.events(PartFinished)]
    assert shown[0] == OpaqueBlock("server_tool_use", '{"name":"web_search"}', "provider")
    assert kinds(run.settled[0].parts) == ["server_tool_use", "web_search_tool_result", "Found."]


@pytest.mark.requirement("OUT-5")
def test_a_paused_turn_goes_back_as_it_is_and_the_loop_goes_on_within_its_bound() -> None:
    run = Driven(setup_with(bounds_with(max_steps=2)))
    search = NativeItem(0, "server_tool_use", '{"id":"s"}')
    run.answers(search, stop(FinishReason.PAUSE))
    second = run.every(CallModel)[1]
    assert [part.content for message in second.append for part in message.parts] == [
        OpaqueBlock("server_tool_use", '{"id":"s"}', "provider")
    ]
    run.answers(search, stop(FinishReason.PAUSE))
    assert run.outcome.kind is OutcomeKind.MAX_STEPS
    assert len(run.settled) == 2


@pytest.mark.requirement("OUT-5")
def test_a_paused_turn_with_calls_of_ours_runs_them_first() -> None:
    run = Driven()
    run.answers(native(0, "server_tool_use"), *a_call(1), stop(FinishReason.PAUSE))
    run.resolves()
    run.finishes(run.machine.executing[0], ok())
    assert [message.role.value for message in run.every(CallModel)[1].append] == ["ASSISTANT", "TOOL"]
