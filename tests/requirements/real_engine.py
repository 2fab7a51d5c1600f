"""The real engine under a state machine of Hypothesis."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "REAL-1": "After every step of models, tools, callers, faults and crashes, the stored logs are well-formed.",
    "REAL-2": "A model is called and a tool begins only when that is durable, once, never for a run that ended.",
    "REAL-3": "Whoever follows a run, from anywhere, cut off or slow, folds to the stored log, and so does the trace.",
    "REAL-4": "After a crash the next process ends what was left; no end leaves a task, timer or active run.",
    "REAL-5": "An idle service has no run that waits for nothing, and no reader who was not told what is there.",
    "REAL-6": "Faults seeded into the engine are noticed by its state machine.",
    "REAL-7": "A run on behalf of another that dies before its first event is ended as one: its log names the parent.",
    "REAL-8": "The state machine draws what it is there for: people, late and twice, budgets, files, crashes.",
    "REAL-9": "What somebody is told of a question, a result or added words is durable, refusals too.",
}
