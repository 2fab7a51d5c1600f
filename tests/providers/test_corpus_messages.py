"""Every recorded Messages answer gives its truth, whatever the reads."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from providers import corpus
from providers.folding import Folded, reads
from providers.messages import Answer, answer_of

from turnwired.domain.generation import (
    FinishReason,
    ModelItem,
    NativeItem,
    ReasoningChunk,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallOpened,
)
from turnwired.domain.message import Content, Message, OpaqueBlock, Part, Reasoning, Role, Text, ToolCall
from turnwired.domain.tool import ToolRef, ToolSource
from turnwired.providers.anthropic_messages_content import call_id, encode_message
from turnwired.providers.anthropic_messages_parser import MessagesParser
from turnwired.providers.errors import classify
from turnwired.providers.profiles import Profile, Wire

CASES = corpus.cases("anthropic.messages")
DISPUTED: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("disputed_messages.json").read_text())
FINISH = {
    FinishReason.STOP: "stop",
    FinishReason.TOOL_CALLS: "tool_calls",
    FinishReason.OUTPUT_LIMIT: "length",
    FinishReason.CONTEXT_LIMIT: "context_window",
    FinishReason.REFUSAL: "refusal",
    FinishReason.PAUSE: "pause",
}

pytestmark = pytest.mark.skipif(not CASES, reason=corpus.ABSENT)


def found_in(answer: Answer) -> dict[str, Any]:
    """What the parser found, in the words of the corpus."""
    folded = answer.folded
    return {
        "text": folded.text,
        "text_parts": [text for _, (kind, text) in sorted(folded.parts.items()) if kind == "text"],
        "reasoning": folded.reasoning,
        "refusal": folded.refusal,
        "tool_calls": [
            {"id": call.id, "name": call.name, "arguments": call.arguments} for _, call in sorted(folded.calls.items())
        ],
        "server_tools": [item.kind for item in folded.natives if item.index not in {*folded.parts, *folded.calls}],
        "finish": "error" if folded.error else FINISH[folded.stopped.reason] if folded.stopped else None,
        "finish_reason": folded.stopped.provider_reason if folded.stopped else None,
        "usage": usage_of(folded),
        "error": error_of(folded),
        "broken": folded.broken is not None,
    }


def usage_of(folded: Folded) -> dict[str, int | None] | None:
    """Usage with the sum of input that both sides know."""
    if (usage := folded.usage) is None:
        return None
    return {
        "input_total": usage.input_tokens,
        "output": usage.output_tokens,
        "cached": usage.cache_read_tokens,
        "cache_write": usage.cache_write_tokens,
        "reasoning": usage.reasoning_tokens,
    }


def error_of(folded: Folded) -> dict[str, Any] | None:
    """The error's words."""
    if (error := folded.error) is None:
        return None
    return {"status": error.status, "type": error.type, "code": error.code, "message": error.message}


def expected(truth: dict[str, Any]) -> dict[str, Any]:
    """The truth in the forms of the domain."""
    truth = dict(truth)
    # A text block without text is no part: the API refuses it in a history.
    truth["text_parts"] = [text for text in truth["text_parts"] if text]
    if usage := truth["usage"]:
        names = ("input_total", "output", "cached", "cache_write", "reasoning")
        truth["usage"] = {name: usage[name] for name in names}
    if error := truth["error"]:
        words = {name: "" if error[name] is None else str(error[name]) for name in ("type", "code", "message")}
        truth["error"] = {"status": error["status"], **words}
    truth["broken"] = False
    return truth


@pytest.mark.requirement("MSG-1", "MSG-2")
@pytest.mark.parametrize("size", [1, 7, 64, 4096, 0], ids=lambda size: f"reads-of-{size or 'all'}")
@pytest.mark.parametrize("name", list(CASES))
def test_a_recorded_answer_gives_its_truth_in_reads_of_any_size(name: str, size: int) -> None:
    case = CASES[name]
    answer = answer_of(MessagesParser(case["status"]), reads(case["body"].encode(), size))
    found, truth = found_in(answer), expected(case["truth"])
    for field in set(DISPUTED.get(name, {})) - {"error_kind"}:
        assert found.pop(field) != truth.pop(field), f"{field} is no longer disputed"
    assert found == truth


@pytest.mark.requirement("MSG-1")
def test_at_most_one_recorded_answer_in_a_hundred_is_disputed() -> None:
    answers = {name for name, fields in DISPUTED.items() if set(fields) - {"error_kind"}}
    assert set(DISPUTED) <= set(CASES)
    assert len(answers) <= len(CASES) / 100


@pytest.mark.requirement("MSG-9")
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case["error_kind"]])
def test_a_recorded_error_is_of_its_kind(name: str) -> None:
    case = CASES[name]
    folded = answer_of(MessagesParser(case["status"]), [case["body"].encode()]).folded
    assert folded.error is not None
    if "error_kind" in DISPUTED.get(name, {}):
        assert classify(folded.error) != case["error_kind"]
    else:
        assert classify(folded.error) == case["error_kind"]


def written(body: str) -> list[dict[str, Any]]:
    """The content blocks of a recorded answer, put together the plain way."""
    if body.lstrip().startswith("{"):
        whole: list[dict[str, Any]] = json.loads(body)["content"]
        return whole
    blocks: dict[int, dict[str, Any]] = {}
    arguments: dict[int, str] = {}
    for line in body.splitlines():
        event = json.loads(line[5:]) if line.startswith("data: {") else {}
        match event.get("type"):
            case "message_start":
                blocks = dict(enumerate(event["message"].get("content") or [], -1000))
            case "content_block_start":
                blocks[event["index"]] = event["content_block"]
            case "content_block_delta":
                block, delta = blocks[event["index"]], event["delta"]
                match delta["type"]:
                    case "input_json_delta":
                        arguments[event["index"]] = arguments.get(event["index"], "") + delta["partial_json"]
                    case "citations_delta":
                        block.setdefault("citations", []).append(delta["citation"])
                    case "signature_delta":
                        block["signature"] = delta["signature"]
                    case _:
                        for name in set(delta) - {"type"}:
                            block[name] = (block.get(name) or "") + delta[name]
            case _:
                pass
    for index, text in arguments.items():
        if text:
            blocks[index]["input"] = json.loads(text)
    return list(blocks.values())


def comparable(block: dict[str, Any]) -> dict[str, Any]:
    """A block without what says nothing: empty citations, and that the model itself made a call. Ids are ours."""
    unset: dict[str, tuple[Any, ...]] = {"citations": ([], None), "caller": ({"type": "direct"},)}
    if block["type"] == "tool_use":
        block = {**block, "id": call_id(block["id"])}
    return {name: value for name, value in block.items() if value not in unset.get(name, ()) or name not in unset}


@pytest.mark.requirement("MSG-15", "MSG-16")
@pytest.mark.parametrize(
    "name",
    [
        name
        for name, case in CASES.items()
        if case["status"] == 200
        and not case["truth"]["error"]
        and name not in DISPUTED
        and "tool_args_invalid_json" not in case["features"]
    ],
)
def test_a_recorded_turn_goes_back_as_it_came(name: str) -> None:
    body = CASES[name]["body"].replace("\r\n", "\n").replace("\u2028", "_").replace("\u0085", "_")
    sent = json.loads(encode_message(turn_of(body), PROFILE) or b'{"content":[]}')
    expected = [comparable(block) for block in written(body) if block.get("text", "x").strip()]
    assert [comparable(block) for block in sent["content"]] == [
        block for block in expected if block["type"] != "thinking" or block["signature"]
    ]


PROFILE = Profile("anthropic", Wire.ANTHROPIC_MESSAGES, "anthropic")


def turn_of(body: str) -> Message:
    """The assistant's message that an answer makes, as the turn machine puts it together."""
    parser = MessagesParser()
    items: list[ModelItem] = [*parser.feed(body.encode()), *parser.finish()]
    contents: dict[int, list[Content]] = {}
    for item in items:
        match item:
            case TextChunk(index, text):
                before = contents.get(index)
                joined = before[0].text + text if before and isinstance(before[0], Text) else text
                contents[index] = [Text(joined)]
            case ReasoningChunk(index, text, signature, redacted):
                kept = contents.get(index, [Reasoning("", b"", PROFILE.name)])[0]
                assert isinstance(kept, Reasoning)
                contents[index] = [
                    Reasoning(kept.text + text, signature or kept.signature, PROFILE.name, redacted or kept.redacted)
                ]
            case ToolCallOpened(index, call_id, call_name):
                contents[index] = [ToolCall(call_id, ToolRef(call_name, call_name, ToolSource.LOCAL), "")]
            case ToolArgumentsChunk(index, fragment):
                call = contents[index][0]
                assert isinstance(call, ToolCall)
                contents[index][0] = replace(call, arguments_json=call.arguments_json + fragment)
            case NativeItem(index, kind, value):
                contents.setdefault(index, []).append(OpaqueBlock(kind, value, PROFILE.name))
            case _:
                pass
    parts = [content for _, found in sorted(contents.items()) for content in found]
    return Message(Role.ASSISTANT, tuple(Part(f"p{i}", content) for i, content in enumerate(parts)))
