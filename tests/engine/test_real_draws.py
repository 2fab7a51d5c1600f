"""The state machine over the real engine reaches what it is there for: a draw that is gone would hide faults."""

from __future__ import annotations

import pytest

from engine.test_real_machine import check

QUESTIONS = (
    *("asked because of RULE", "asked because of LOOP_DETECTED", "a question is answered", "another answer is refused"),
    *("ONCE by a person", "ALWAYS by a person", "REJECT by a person", "REJECT by cascade", "REJECT by timeout"),
    *("a question is answered again", "an answer to another call is refused", "an answer comes too late"),
)
CALLS = (
    *("a call is handed out", "a call of the caller gives OK", "a call of the caller gives ERROR"),
    *("a call of the caller gives INTERRUPTED", "a call expires", "results are handed in"),
    *("results are handed in again", "a result comes too late"),
)
INPUT = (
    *("words are taken", "words are taken by id", "words come too late"),
    *("a file is PENDING", "a file is READY", "a file is FAILED", "a file is brought"),
)
ENDS = (
    *("ANSWERED", "ABORTED", "ERRORED", "MAX_STEPS by loop.max_steps"),
    *("BUDGET_EXCEEDED by budget.max_total_tokens", "BUDGET_EXCEEDED by timeout.run", "ABORTED by timeout.wait"),
)
TROUBLE = (
    *("a cancel", "a deadline", "a process dies", "a process takes over", "the store fails", "the store loses"),
    *("the store goes", "the store holds", "a run that waited goes on in another process"),
)


@pytest.mark.requirement("REAL-8")
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_draws_reach_all_that_people_do_and_all_that_goes_wrong() -> None:
    seen = check(220, derandomize=True, shrink=False)
    missing = [kind for kind in (*QUESTIONS, *CALLS, *INPUT, *ENDS, *TROUBLE) if not seen[kind]]
    assert not missing, seen
