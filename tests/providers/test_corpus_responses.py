"""Every recorded answer of a Responses endpoint gives its truth, whatever the reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from providers import corpus
from providers.folding import Folded, fold, reads

from turnwired.domain.generation import FinishReason
from turnwired.providers.errors import classify
from turnwired.providers.openai_responses_items import CITATIONS, CLIENT_ITEMS, ENVELOPE, REASONING
from turnwired.providers.openai_responses_parser import ResponsesParser

CASES = corpus.cases("openai.responses")
DISPUTED: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("disputed_responses.json").read_text())
FINISH = {
    FinishReason.STOP: "stop",
    FinishReason.TOOL_CALLS: "tool_calls",
    FinishReason.OUTPUT_LIMIT: "length",
    FinishReason.REFUSAL: "refusal",
    FinishReason.CONTENT_FILTER: "content_filter",
}

pytestmark = pytest.mark.skipif(not CASES, reason=corpus.ABSENT)


def answer(folded: Folded) -> dict[str, Any]:
    """What the parser found, in the words of the corpus."""
    own = {CITATIONS, ENVELOPE, REASONING}
    found: dict[str, Any] = {
        "text": folded.text,
        "text_parts": [text for _, (kind, text) in sorted(folded.parts.items()) if kind == "text"],
        "reasoning": folded.reasoning,
        "refusal": folded.refusal,
        "tool_calls": [[call.id, call.name, call.arguments] for _, call in sorted(folded.calls.items())],
        "server_tools": [item.kind for item in folded.natives if item.kind not in own],
        "finish": None,
        "finish_reason": None,
        "usage": None,
        "error": None,
    }
    if folded.stopped:
        found["finish_reason"] = folded.stopped.provider_reason
        found["finish"] = FINISH[folded.stopped.reason]
    if usage := folded.usage:
        found["usage"] = {
            "input": usage.input_tokens,
            "output": usage.output_tokens,
            "cached": usage.cache_read_tokens,
            "cache_write": usage.cache_write_tokens,
            "reasoning": usage.reasoning_tokens,
        }
    if error := folded.error:
        found["finish"] = "error"
        found["error"] = {"status": error.status, "type": error.type, "code": error.code, "message": error.message}
    return found


def expected(case: dict[str, Any]) -> dict[str, Any]:
    """The truth in the forms of the domain."""
    truth = dict(case["truth"])
    # The provider's tools are never calls of ours, also those that a caller's machine may execute.
    calls = [call for call in truth["tool_calls"] if call.get("kind") not in CLIENT_ITEMS]
    native = [call for call in truth["tool_calls"] if call.get("kind") in CLIENT_ITEMS]
    truth["tool_calls"] = [[call["id"], call["name"], call["arguments"]] for call in calls]
    if usage := truth["usage"]:
        truth["usage"] = {name: usage[name] for name in ("input", "output", "cached", "cache_write", "reasoning")}
    if error := truth["error"]:
        words = {name: "" if error[name] is None else str(error[name]) for name in ("type", "code", "message")}
        truth["error"] = {"status": error["status"], **words}
        truth["finish_reason"] = None  # an error is no end signal
    truth["text_parts"] = [text for text in truth["text_parts"] if text]  # without text there is no part
    outputs = [kind.removesuffix("_output") for kind in truth["server_tools"] if kind.endswith("_output")]
    truth["server_tools"] = sorted([*truth["server_tools"], *(call["kind"] for call in native)])
    if native and not calls and [call["kind"] for call in native] == outputs:
        truth["finish"] = "stop"  # the provider executed them: their outputs are in the same answer
    return truth


def answers(body: str) -> list[bytes]:
    """The answers of a recording: two of them hold several, of requests that followed each other; truth is the last."""
    start = "event: response.created\n"
    if body.count(start) < 2:
        return [body.encode()]
    return [(start + piece).encode() for piece in body.split(start) if piece.strip()]


@pytest.mark.requirement("RESP-1")
@pytest.mark.parametrize("size", [1, 7, 64, 4096, 0], ids=lambda size: f"reads-of-{size or 'all'}")
@pytest.mark.parametrize("name", list(CASES))
def test_a_recorded_answer_gives_its_truth_in_reads_of_any_size(name: str, size: int) -> None:
    case = CASES[name]
    *before, last = answers(case["body"])
    assert all(fold(ResponsesParser(), reads(body, size)).stopped for body in before)
    folded = fold(ResponsesParser(case["status"]), reads(last, size))
    found, truth = answer(folded), expected(case)
    found["server_tools"] = sorted(found["server_tools"])
    for field in set(DISPUTED.get(name, {})) - {"error_kind"}:
        assert found.pop(field) != truth.pop(field), f"{field} is no longer disputed"
    assert found == truth
    assert folded.broken is None


@pytest.mark.requirement("RESP-1")
def test_at_most_one_recorded_answer_in_a_hundred_is_disputed() -> None:
    answers = {name for name, fields in DISPUTED.items() if set(fields) - {"error_kind"}}
    assert answers <= set(CASES)
    assert len(answers) <= len(CASES) / 100


@pytest.mark.requirement("RESP-2")
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case["error_kind"]])
def test_a_recorded_error_is_of_its_kind(name: str) -> None:
    case = CASES[name]
    folded = fold(ResponsesParser(case["status"]), [case["body"].encode()])
    assert folded.error is not None
    if "error_kind" in DISPUTED.get(name, {}):
        assert classify(folded.error) != case["error_kind"]
    else:
        assert classify(folded.error) == case["error_kind"]
