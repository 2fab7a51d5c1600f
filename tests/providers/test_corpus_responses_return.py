"""Every recorded turn of a Responses endpoint goes back in its order, what the provider made byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from providers import corpus
from providers.returning import message_of
from providers.test_corpus_responses import CASES, answers

from turnwired.domain.generation import ModelItem, NativeItem
from turnwired.providers.openai_responses_items import CLIENT_ITEMS
from turnwired.providers.openai_responses_messages import encode_message
from turnwired.providers.openai_responses_parser import ResponsesParser
from turnwired.providers.profiles import Profile, Wire

PROFILE = Profile("acme", Wire.OPENAI_RESPONSES, "acme")
OTHER = Profile("other", Wire.OPENAI_RESPONSES, "other")
OK = [name for name, case in CASES.items() if case["truth"]["finish"] not in {"error", None}]
pytestmark = pytest.mark.skipif(not CASES, reason=corpus.ABSENT)


def items_of(body: bytes) -> list[ModelItem]:
    """What the parser gives."""
    parser = ResponsesParser()
    return [*parser.feed(body), *parser.finish()]


def outputs(body: str) -> list[dict[str, Any]]:
    """The finished items of a recording, in the order in which they were finished, read the plain way."""
    if body.lstrip().startswith("{"):
        return list(json.loads(body)["output"])
    events = [json.loads(line[5:]) for line in body.splitlines() if line.startswith("data:") and "{" in line]
    return [event["item"] for event in events if event["type"] == "response.output_item.done"]


def expected(items: list[dict[str, Any]]) -> list[str]:
    """What of these items goes back: all but empty messages, unanswered calls and reasoning with nothing behind it."""
    answered = {item.get("call_id") for item in items if item["type"].endswith("_output")}
    kept: list[str] = []
    waiting: list[str] = []
    for item in items:
        kind = "function_call" if item["type"] == "custom_tool_call" else item["type"]
        if kind == "reasoning":
            if any(item.get(name) for name in ("encrypted_content", "summary", "content")):
                waiting.append(kind)
        elif kind in CLIENT_ITEMS and item.get("call_id") not in answered:
            waiting.clear()
        elif kind != "message" or any(part.get("text") or part.get("refusal") for part in item["content"]):
            kept += [*waiting, kind]
            waiting.clear()
    return kept


@pytest.mark.requirement("RESP-15", "RESP-16", "RESP-17")
@pytest.mark.parametrize("name", OK)
def test_a_recorded_turn_goes_back_as_it_came(name: str) -> None:
    body = answers(CASES[name]["body"])[-1]
    items = items_of(body)
    sent = encode_message(message_of(items, "acme"), PROFILE)
    went = json.loads(b"[" + sent + b"]")
    ended = expected(outputs(body.decode()))
    if "mcp_list_tools" in ended:  # OpenAI ends only the last of several: the others come with the response's end
        assert sorted({*ended}) == sorted({item["type"] for item in went})
    else:
        assert [item["type"] for item in went] == ended
    for item in items:
        if isinstance(item, NativeItem) and item.kind not in {"message", "annotations"}:
            assert item.json.encode() in body
            assert (item.json.encode() in sent) or item.kind in {"reasoning", *CLIENT_ITEMS}
    others = json.loads(b"[" + encode_message(message_of(items, "acme"), OTHER) + b"]")
    assert {item["type"] for item in others} <= {"message", "function_call"}
    assert all("id" not in item and "phase" not in item for item in others)
