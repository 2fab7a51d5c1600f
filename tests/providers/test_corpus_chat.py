"""Every recorded chat completion gives its truth, whatever the reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from providers import corpus
from providers.folding import Folded, fold, reads

from turnwired.domain.generation import FinishReason
from turnwired.providers.errors import classify
from turnwired.providers.openai_chat_parser import ChatParser
from turnwired.providers.profiles import shipped

CASES = corpus.cases("openai.chat")
DISPUTED: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("disputed_chat.json").read_text())
RULES = shipped()["openai-compatible"].errors
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
    found: dict[str, Any] = {
        "text": folded.text,
        "text_parts": [text for _, (kind, text) in sorted(folded.parts.items()) if kind == "text"],
        "reasoning": folded.reasoning,
        "refusal": folded.refusal,
        "tool_calls": [
            {"id": call.id, "name": call.name, "arguments": call.arguments} for _, call in sorted(folded.calls.items())
        ],
        "server_tools": [],
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


def expected(truth: dict[str, Any]) -> dict[str, Any]:
    """The truth in the forms of the domain."""
    truth = dict(truth)
    if usage := truth["usage"]:
        counts = {name: usage[name] for name in ("input", "output", "cached", "cache_write", "reasoning")}
        # Our output includes reasoning; the wire of xAI leaves it out of completion_tokens.
        if usage["reasoning"] and usage["total"] == usage["input"] + usage["output"] + usage["reasoning"]:
            counts["output"] += usage["reasoning"]
        truth["usage"] = counts
    if error := truth["error"]:
        words = {name: "" if error[name] is None else str(error[name]) for name in ("type", "code", "message")}
        truth["error"] = {"status": error["status"], **words}
        if truth["finish_reason"] == "error":
            truth["finish_reason"] = None  # an error is no end signal
    if truth["finish_reason"] == "":
        truth["finish_reason"] = None
    return truth


@pytest.mark.requirement("WIRE-1")
@pytest.mark.parametrize("size", [1, 7, 64, 4096, 0], ids=lambda size: f"reads-of-{size or 'all'}")
@pytest.mark.parametrize("name", list(CASES))
def test_a_recorded_answer_gives_its_truth_in_reads_of_any_size(name: str, size: int) -> None:
    case = CASES[name]
    folded = fold(ChatParser(case["status"]), reads(case["body"].encode(), size))
    found, truth = answer(folded), expected(case["truth"])
    for field in set(DISPUTED.get(name, {})) - {"error_kind"}:
        assert found.pop(field) != truth.pop(field), f"{field} is no longer disputed"
    assert found == truth
    assert (folded.broken is not None) == ("quirk_bad_json_event" in case["features"])


@pytest.mark.requirement("WIRE-1")
def test_at_most_one_recorded_answer_in_a_hundred_is_disputed() -> None:
    answers = {name for name, fields in DISPUTED.items() if set(fields) - {"error_kind"}}
    assert answers <= set(CASES)
    assert len(answers) <= len(CASES) / 100


@pytest.mark.requirement("WIRE-5")
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case["error_kind"]])
def test_a_recorded_error_is_of_its_kind(name: str) -> None:
    case = CASES[name]
    folded = fold(ChatParser(case["status"]), [case["body"].encode()])
    assert folded.error is not None
    if "error_kind" in DISPUTED.get(name, {}):
        assert classify(folded.error, RULES) != case["error_kind"]
    else:
        assert classify(folded.error, RULES) == case["error_kind"]
