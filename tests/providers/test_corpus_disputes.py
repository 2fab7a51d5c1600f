"""What of the recorded exchanges is disputed, over all wires: how much, and that each has its reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from providers import corpus

WIRES = {"chat": "openai.chat", "messages": "anthropic.messages", "responses": "openai.responses"}
CASES = {name: case for wire in WIRES.values() for name, case in corpus.cases(wire).items()}
DISPUTED: dict[str, dict[str, str]] = {
    name: fields
    for wire in WIRES
    for name, fields in json.loads(Path(__file__).with_name(f"disputed_{wire}.json").read_text()).items()
}


@pytest.mark.requirement("WIRE-1", "WIRE-5")
@pytest.mark.skipif(not CASES, reason=corpus.ABSENT)
def test_of_all_wires_together_one_answer_and_one_kind_of_error_in_a_hundred_is_disputed_at_most() -> None:
    answers = {name for name, fields in DISPUTED.items() if fields.keys() - {"error_kind"}}
    kinds = {name for name, fields in DISPUTED.items() if "error_kind" in fields}
    assert answers | kinds == DISPUTED.keys() <= CASES.keys()
    assert len(answers) <= len(CASES) / 100
    assert len(kinds) <= len(CASES) / 100


@pytest.mark.requirement("WIRE-1", "WIRE-5")
def test_what_is_disputed_has_its_reason() -> None:
    assert all(reason.endswith(".") for fields in DISPUTED.values() for reason in fields.values())
