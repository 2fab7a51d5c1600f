"""Structured output: how a final answer is read, what the model is told when it is wrong, and how a run then ends.

Pure. What the schema says is behind ``OutputCheck``; a check reads JSON text and never shows values of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.model import CheckedOutput, OutputProblem
from turnwired.domain.outcome import Notice, OutcomeKind
from turnwired.turn.ending import Ending
from turnwired.turn.setup import OutputCheck

_FENCED = re.compile(r"```[A-Za-z0-9_+-]*[ \t]*\r?\n(.*)\n?```\Z", re.DOTALL)
_RULES_SHOWN = 3
_AGAIN = "Answer again with nothing but one JSON value that matches the schema: no other text, no Markdown."
NOT_ASKED_FOR = "Not executed: only the final answer was asked for, and no tools were offered."
NO_ANSWER = OutputProblem("there was no answer", "")


def read(text: str, check: OutputCheck) -> CheckedOutput:
    """The value of a whole answer; white space and one Markdown fence around it are no part of it."""
    bare = text.strip()
    fenced = _FENCED.match(bare)
    return check(fenced[1].strip() if fenced is not None else bare)


def wants_output(end: Ending) -> bool:
    """Whether the answer that ended so is one to read, or one that is missing. A refusal is neither."""
    if end.kind is OutcomeKind.ANSWERED:
        return True
    return end.failure is not None and end.failure.reason is Reason.ANSWER_MISSING


def told(problems: Sequence[OutputProblem]) -> Notice:
    """What is wrong, for readers, and through ``correction`` for the model."""
    words = "; ".join(problem.words for problem in problems)
    return Notice(Reason.STRUCTURED_OUTPUT_INVALID, f"The answer does not match the output format: {words}.")


def correction(notice_message: str) -> str:
    """What the model is told. A function of the notice alone, so that recovery finds it in the log."""
    return f"{notice_message} {_AGAIN}"


def invalid(problems: Sequence[OutputProblem], *, corrected: bool) -> Ending:
    """The end of a run without a value. Names rules of the schema, never what the model wrote."""
    rules = [problem.rule for problem in problems if problem.rule][:_RULES_SHOWN]
    broken = f" It breaks: {', '.join(rules)}." if rules else ""
    tried = "also after it was told what is wrong" if corrected else "and loop.max_steps leaves no further model call"
    failure = Failure(
        FailurePhase.MODEL,
        Reason.STRUCTURED_OUTPUT_INVALID,
        f"The model's answer does not match the output format, {tried}.{broken} Its text is kept. Send the turn again, "
        "make the schema simpler, or use a model that keeps to schemas.",
        retryable=True,
    )
    return Ending(OutcomeKind.ERRORED, failure)
