"""Generation options: which values there are, and which of two layers counts. Pure.

The ranges are those of the contract (``GenerationOptions`` in model.proto); what a provider takes of them is its own.
"""

from __future__ import annotations

import math
from dataclasses import replace

from turnwired.domain.errors import FieldViolation
from turnwired.domain.model import GenerationOptions, Thinking, ThinkingMode

MAX_STOP_SEQUENCES = 16
MAX_STOP_LENGTH = 1024
"""Characters of one stop sequence; providers take far less."""
_PENALTY = 2.0
_TOP_K = (1 << 31) - 1
_SEED = 1 << 63


def option_violations(options: GenerationOptions, path: str) -> list[FieldViolation]:
    """What is out of range. ``path`` leads to the options."""
    found: list[tuple[str, str]] = []
    temperature, top_p = options.temperature, options.top_p
    if temperature is not None and not (math.isfinite(temperature) and temperature >= 0):
        found.append(("temperature", "must be a number of at least 0"))
    if top_p is not None and not 0 < top_p <= 1:
        found.append(("top_p", "must be above 0 and at most 1"))
    if options.top_k is not None and not 1 <= options.top_k <= _TOP_K:
        found.append(("top_k", f"must be from 1 to {_TOP_K}"))
    for name, value in (
        ("frequency_penalty", options.frequency_penalty),
        ("presence_penalty", options.presence_penalty),
    ):
        if value is not None and not -_PENALTY <= value <= _PENALTY:
            found.append((name, "must be from -2 to 2"))
    if options.seed is not None and not -_SEED <= options.seed < _SEED:
        found.append(("seed", "must fit 64 bits"))
    found += _stop_violations(options.stop_sequences)
    found += _thinking_violations(options.thinking)
    return [FieldViolation(f"{path}.{name}", problem) for name, problem in found]


def _stop_violations(sequences: tuple[str, ...]) -> list[tuple[str, str]]:
    if len(sequences) > MAX_STOP_SEQUENCES:
        return [("stop_sequences", f"has {len(sequences)} entries; at most {MAX_STOP_SEQUENCES} are allowed")]
    return [
        (f"stop_sequences[{index}]", f"must have 1 to {MAX_STOP_LENGTH} characters")
        for index, text in enumerate(sequences)
        if not 1 <= len(text) <= MAX_STOP_LENGTH
    ]


def _thinking_violations(thinking: Thinking) -> list[tuple[str, str]]:
    budget = thinking.budget_tokens
    if budget is None:
        return []
    if thinking.mode is not ThinkingMode.ENABLED:
        return [("thinking.budget_tokens", "needs the mode ENABLED")]
    return [] if 1 <= budget <= _TOP_K else [("thinking.budget_tokens", f"must be from 1 to {_TOP_K}")]


def inherited(own: GenerationOptions, base: GenerationOptions) -> GenerationOptions:
    """``own``, and where it says nothing, ``base``. Mode and budget of thinking go together."""
    if own == GenerationOptions():
        return base
    return replace(
        base,
        temperature=_first(own.temperature, base.temperature),
        top_p=_first(own.top_p, base.top_p),
        top_k=base.top_k if own.top_k is None else own.top_k,
        frequency_penalty=_first(own.frequency_penalty, base.frequency_penalty),
        presence_penalty=_first(own.presence_penalty, base.presence_penalty),
        seed=base.seed if own.seed is None else own.seed,
        stop_sequences=own.stop_sequences or base.stop_sequences,
        thinking=base.thinking if own.thinking == Thinking() else own.thinking,
    )


def _first(own: float | None, base: float | None) -> float | None:
    return base if own is None else own
