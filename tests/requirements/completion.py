"""How runs end, how a missing answer is completed, and what bounds calls of one tool and calls that repeat."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "COMPLETE-1": "A loop that ended after completed tools without text is asked for an answer, where policy says so.",
    "COMPLETE-2": "No answer is asked for otherwise: with text or a file, without a result, after a cut or a stop.",
    "COMPLETE-3": "When the pass brings nothing the run is TOOL_ONLY and recoverable, and its failure is of SYNTHESIS.",
    "COMPLETE-4": "The pass is made once, with the reserved output and without tools; a call in it does not run.",
    "COMPLETE-5": "At its bound a run can answer from what it has, beyond loop.max_steps, and stays MAX_STEPS.",
    "COMPLETE-6": "With completion.allow_tools the pass may call tools once, and then answers without.",
    "COMPLETE-7": "CUSTOM asks with a prompt of one's own, or lets a named hook say whether and how.",
    "COMPLETE-8": "A custom completion without words, with two, or with an unknown hook is refused before the run.",
    "COMPLETE-9": "A hook that fails, hangs or gives nonsense is a notice, and the run is completed as without it.",
    "COMPLETE-10": "A hook is called in a thread; a run can be stopped while it thinks.",
    "COMPLETE-11": "The instruction is in the log, the trace and the session; recovery finds it again.",
    "COMPLETE-12": "Hooks come from the configuration and from entry points; a broken distribution fails alone.",
    "COMPLETE-13": "A structured final is completed with a value that is checked as any other.",
    "COMPLETE-14": "A call that never reached its tool fails in phase ROUTING, whether the run ends with it or not.",
    "COMPLETE-15": "A conversation that does not fit the model ends with a notice that says what to do.",
    "COMPLETE-16": "Each end of a run has its outcome, phase, reason, partial flag and trace.",
    "COMPLETE-17": "The document on completion holds: its configuration is taken and its hook works.",
    "COMPLETE-20": "Calls of one tool are bounded by its routed name, * for all others; the run goes on without it.",
    "COMPLETE-21": "Counts by name are checked entry by entry.",
    "COMPLETE-25": "A call made N times in a row with the same result is stopped, and so is a cycle of up to four.",
    "COMPLETE-26": "New results are progress, equal calls side by side no circle, and configured tools may be polled.",
    "COMPLETE-27": "Identical calls that cannot run count; equal JSON is equal however it is written.",
    "COMPLETE-28": "The model is told what repeats; going on as often again ends ERRORED, any other call forgives.",
    "COMPLETE-29": "loop.repeated_call_threshold sets how often; 0 stops nothing.",
}
