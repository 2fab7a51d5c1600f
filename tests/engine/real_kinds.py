"""What the state machine over the real engine is there to reach, by the names under which its ledgers count it."""

from __future__ import annotations

from collections import Counter

OFTEN = (
    *("asked because of RULE", "a question is answered", "a question is answered again", "another answer is refused"),
    *("ONCE by a person", "ALWAYS by a person", "REJECT by a person", "an answer to another call is refused"),
    *("a call is handed out", "a call of the caller gives OK", "a call of the caller gives INTERRUPTED"),
    *("results are handed in", "a result comes too late"),
    *("words are taken", "words are taken by id", "words come too late", "a file is READY", "a file is brought"),
    *("ANSWERED", "ABORTED", "ERRORED", "a cancel", "a process dies", "a process takes over"),
)
"""Each dozens of times in three hundred examples: a draw that is gone shows in any run of the machine."""
SELDOM = (
    *("asked because of INPUT", "REJECT by tool", "a tool is not answered for always"),
    *("asked because of LOOP_DETECTED", "REJECT by cascade", "REJECT by timeout", "an answer comes too late"),
    *(
        "a call of the caller gives ERROR",
        "a call expires",
        "results are handed in again",
        "a request id is used again",
    ),
    *("a file is PENDING", "a file is FAILED", "a file comes late", "a file is refused"),
    *("BUDGET_EXCEEDED by budget.max_total_tokens", "BUDGET_EXCEEDED by budget.max_session_tokens"),
    *("BUDGET_EXCEEDED by timeout.run", "BUDGET_EXCEEDED by deadline", "ABORTED by timeout.wait"),
    *("MAX_STEPS by loop.max_steps", "MAX_STEPS by loop.max_tool_calls", "a deadline"),
    *("the store fails", "the store loses", "the store goes", "the store holds", "the store writes one"),
    *("a run that waited goes on in another process", "nobody answers", "the store does not answer"),
)
"""Each several times in two thousand."""
ENOUGH, MANY = 300, 2000


def missing(seen: Counter[str], examples: int) -> list[str]:
    """The kinds that so many examples should have reached, and have not."""
    wanted = (*(OFTEN if examples >= ENOUGH else ()), *(SELDOM if examples >= MANY else ()))
    return [kind for kind in wanted if not seen[kind]]
