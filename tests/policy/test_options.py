"""Generation options: their ranges, and whose value counts."""

from __future__ import annotations

import math

import pytest

from turnwired.domain.model import GenerationOptions, Thinking, ThinkingMode
from turnwired.policy.options import inherited, option_violations

ENABLED = Thinking(ThinkingMode.ENABLED, 100)
BAD: list[tuple[str, GenerationOptions]] = [
    ("temperature", GenerationOptions(temperature=-0.1)),
    ("temperature", GenerationOptions(temperature=math.inf)),
    ("temperature", GenerationOptions(temperature=math.nan)),
    ("top_p", GenerationOptions(top_p=0.0)),
    ("top_p", GenerationOptions(top_p=1.01)),
    ("top_p", GenerationOptions(top_p=math.nan)),
    ("top_k", GenerationOptions(top_k=0)),
    ("frequency_penalty", GenerationOptions(frequency_penalty=2.1)),
    ("presence_penalty", GenerationOptions(presence_penalty=-2.1)),
    ("presence_penalty", GenerationOptions(presence_penalty=math.nan)),
    ("seed", GenerationOptions(seed=1 << 63)),
    ("stop_sequences", GenerationOptions(stop_sequences=("a",) * 17)),
    ("stop_sequences[1]", GenerationOptions(stop_sequences=("a", ""))),
    ("stop_sequences[0]", GenerationOptions(stop_sequences=("a" * 1025,))),
    ("thinking.budget_tokens", GenerationOptions(thinking=Thinking(ThinkingMode.ENABLED, 0))),
    ("thinking.budget_tokens", GenerationOptions(thinking=Thinking(ThinkingMode.ADAPTIVE, 10))),
    ("thinking.budget_tokens", GenerationOptions(thinking=Thinking(budget_tokens=10))),
]


@pytest.mark.requirement("OUT-9")
@pytest.mark.parametrize(("path", "options"), BAD)
def test_a_value_out_of_range_is_named_by_its_path(path: str, options: GenerationOptions) -> None:
    assert [violation.field for violation in option_violations(options, "x")] == [f"x.{path}"]


@pytest.mark.requirement("OUT-9")
@pytest.mark.parametrize(
    "options",
    [
        GenerationOptions(),
        GenerationOptions(0.0, 1.0, 1, -2.0, 2.0, -(1 << 63), ("a",) * 16, ENABLED),
        GenerationOptions(temperature=5.0, thinking=Thinking(ThinkingMode.ENABLED)),
    ],
)
def test_the_limits_themselves_are_in_range(options: GenerationOptions) -> None:
    assert option_violations(options, "x") == []


@pytest.mark.requirement("OUT-10")
def test_each_option_that_is_set_replaces_the_one_below_and_the_others_stay() -> None:
    base = GenerationOptions(0.5, 0.9, 40, 0.1, 0.2, 7, ("END",), ENABLED)
    zeros = GenerationOptions(0.0, 0.1, 1, 0.0, 0.0, 0, ("x",), Thinking(ThinkingMode.DISABLED))
    assert inherited(zeros, base) == zeros
    assert inherited(GenerationOptions(), base) == base
    assert inherited(base, GenerationOptions()) == base
    assert inherited(GenerationOptions(temperature=0.0), base) == GenerationOptions(
        0.0, 0.9, 40, 0.1, 0.2, 7, ("END",), ENABLED
    )
    adaptive = inherited(GenerationOptions(thinking=Thinking(ThinkingMode.ADAPTIVE)), base)
    assert adaptive.thinking == Thinking(ThinkingMode.ADAPTIVE), "a budget never outlives its mode"
