"""The real engine under a state machine of Hypothesis."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "REAL-1": "After every step of models, tools, callers, readers, faults and crashes, all that is durable is well-formed: "
    "dense, one end that is last, every call through its stations once.",
    "REAL-2": "A model is called and a tool begins only when that is durable, once, and never for a run that has ended.",
    "REAL-3": "Whoever follows a run, from anywhere, cut off or slow, folds to the stored log, and the trace is the same.",
    "REAL-4": "After any crash the next process ends what was left, and after any end no task, timer or run is left behind.",
    "REAL-5": "An idle service has no run that waits for nothing, and no reader who was not told what is there.",
}
