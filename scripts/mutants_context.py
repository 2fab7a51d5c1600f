"""Faults of what the model sees of a conversation, for scripts/mutants.py: what, module, old, new."""

from __future__ import annotations

CONTEXT_MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    # --- history that does not fit
    ("history: a cut is not told", "machine", "out.emit(fact.change)", "pass"),
    ("history: what is too long is sent again", "machine", "shorten=next_step.shorten)", "shorten=False)"),
    ("history: shortened for ever", "machine", "            self._shortened |= next_step.shorten\n", ""),
    (
        "history: shortened after output",
        "retry",
        "not attempt.shortened and not attempt.produced",
        "not attempt.shortened",
    ),
    (
        "history: shortened whatever the policy says",
        "retry",
        " and bounds.history_overflow is HistoryOverflowMode.TRUNCATE",
        "",
    ),
    (
        "history: shortening is no attempt",
        "retry",
        "attempt.number < bounds.max_attempts\n        return Again(0, shorten",
        "True\n        return Again(0, shorten",
    ),
    ("history: never shortened", "retry", "Again(0, shorten=True) if may else", "Again(0, shorten=True) if False else"),
)
