"""Every recorded Messages answer gives its truth, whatever the reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from providers import corpus
from providers.folding import Folded, reads
from providers.messages import Answer, answer_of

from turnwired.domain.generation import FinishReason
from turnwired.providers.anthropic_messages_parser import MessagesParser
from turnwired.providers.errors import classify

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
    usage = folded.usage
    return usage and {
        "input_total": usage.input_tokens,
        "output": usage.output_tokens,
        "cached": usage.cache_read_tokens,
        "cache_write": usage.cache_write_tokens,
        "reasoning": usage.reasoning_tokens,
    }


def error_of(folded: Folded) -> dict[str, Any] | None:
    """The error's words."""
    error = folded.error
    return error and {"status": error.status, "type": error.type, "code": error.code, "message": error.message}


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
