"""Rules of the state machine over the real engine about people: answers, results, added words and files, late or twice.

Each is a step of ``ServiceRules``, which knows what there is to act on. They decide nothing but what is asked.
"""

from __future__ import annotations

from typing import Protocol

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from engine import real_draws as draws
from engine.callers import Add, Decide, HandIn
from engine.harness import user
from engine.ledgers import Ledger
from engine.lives import Lives
from turnwired.domain.approval import ApprovalDecision
from turnwired.domain.attachment import AttachmentState
from turnwired.domain.message import Blob


class Machine(Protocol):
    """What the rules need of the state machine."""

    count: int
    taken: dict[str, str]
    known: dict[tuple[str, str], tuple[str, ...]]

    @property
    def w(self) -> Lives:
        """The world."""
        ...

    @property
    def logs(self) -> list[Ledger]:
        """All runs."""
        ...


def asked(machine: Machine) -> list[tuple[Ledger, str]]:
    """All questions, those that are open last."""
    everything = [(ledger, approval_id) for ledger in machine.logs for approval_id in ledger.people.questions]
    return sorted(everything, key=lambda item: item[1] not in item[0].people.answers and not item[0].settled)


def handed(machine: Machine) -> list[tuple[Ledger, str]]:
    """All calls that a caller was handed, those that are open last."""
    everything = [(ledger, call_id) for ledger in machine.logs for call_id in ledger.people.handed]
    return sorted(everything, key=lambda item: item[0].people.handed[item[1]] is None)


@precondition(lambda self: bool(asked(self)))
@rule(
    pick=draws.PICK,
    decision=st.sampled_from((ApprovalDecision.ONCE, ApprovalDecision.ONCE, *ApprovalDecision)),
    digest=st.sampled_from((None, None, "right", "right", "of another call")),
    again=st.sampled_from((None, None, None, *ApprovalDecision)),
    rounds=draws.ROUNDS,
)
def somebody_answers_a_question(
    self: Machine,
    pick: int,
    decision: ApprovalDecision,
    digest: str | None,
    again: ApprovalDecision | None,
    rounds: int | None,
) -> None:
    """``again``: and somebody else does at the same time."""
    questions = asked(self)
    ledger, approval_id = questions[-1 - pick % len(questions)]
    right = ledger.people.questions[approval_id].call_digest
    for each in (decision, again):
        if each is not None:
            before = approval_id in ledger.people.answers
            shown = right if digest == "right" else digest
            self.w.ask(Decide(ledger.new.run_id, approval_id, each, shown, before=before))
    self.w.go(rounds)


@precondition(lambda self: bool(handed(self)))
@rule(picks=st.lists(draws.PICK, min_size=1, max_size=3), fails=st.booleans(), rounds=draws.ROUNDS)
def somebody_hands_results_in(self: Machine, picks: list[int], fails: bool, rounds: int | None) -> None:
    calls = handed(self)
    chosen = [calls[-1 - pick % len(calls)] for pick in picks]
    run_id = chosen[0][0].new.run_id
    results: list[tuple[str, str]] = []
    for ledger, call_id in chosen:
        if ledger.new.run_id == run_id:
            self.count += 1
            results.append((call_id, f"result {self.count}{'!' if fails else '.'}"))
    self.w.ask(HandIn(run_id, tuple(results), self.taken))
    self.w.go(rounds)


@precondition(lambda self: self.logs and (self.w.disk.unsettled() or self.w.steps % 5 == 0))
@rule(
    pick=draws.PICK,
    request_id=st.sampled_from(("", "", "a", "b")),
    what=st.sampled_from(("words", "words", "other words", "file", "both")),
    rounds=draws.ROUNDS,
)
def somebody_adds_words_or_a_file(self: Machine, pick: int, request_id: str, what: str, rounds: int | None) -> None:
    runs = sorted(self.logs, key=lambda ledger: not ledger.settled)
    ledger = runs[-1 - pick % len(runs)]
    words = () if what == "file" else (user(f"{what} {request_id}"),)
    files = ((draws.FILE, Blob("application/pdf", b"%PDF")),) if what in {"file", "both"} else ()
    self.w.ask(Add(ledger.new.run_id, "" if files else request_id, words, files, self.known))
    self.w.go(rounds)


def without_a_file(machine: Machine) -> list[Ledger]:
    """The runs in flight that wait for a file, or go on without one that they waited for."""
    there_not = {AttachmentState.PENDING, AttachmentState.FAILED}
    return [ledger for ledger in machine.logs if not ledger.settled and there_not & set(ledger.people.files.values())]


@precondition(lambda self: bool(without_a_file(self)))
@rule(pick=draws.PICK, rounds=draws.ROUNDS)
def a_file_comes_when_it_was_given_up(self: Machine, pick: int, rounds: int | None) -> None:
    """Or, of a run that waits without an end, as soon as nothing else happens."""
    runs = without_a_file(self)
    ledger = runs[-1 - pick % len(runs)]
    for _ in range(11):
        if ledger.settled or AttachmentState.PENDING not in ledger.people.files.values():
            break
        self.w.advance(0.2)
    file = draws.FILE, Blob("application/pdf", b"%PDF")
    self.w.ask(Add(ledger.new.run_id, "", (), (file,), self.known))
    self.w.go(rounds)


@precondition(lambda self: any(ledger.waiting and not ledger.settled for ledger in self.logs))
@rule(
    pick=draws.PICK,
    decision=st.sampled_from(ApprovalDecision),
    turned=st.booleans(),
    fails=st.sampled_from((False, False, True)),
    rounds=draws.ROUNDS,
)
def all_that_a_run_waits_for_is_given(
    self: Machine, pick: int, decision: ApprovalDecision, turned: bool, fails: bool, rounds: int | None
) -> None:
    """At once, each by somebody else. ``turned``: the last first."""
    waiting = [ledger for ledger in self.logs if ledger.waiting and not ledger.settled]
    ledger = waiting[-1 - pick % len(waiting)]
    keys = [*ledger.people.open_questions, *ledger.people.open_calls]
    for key in reversed(keys) if turned else keys:
        self.count += 1
        if key in ledger.people.questions:
            self.w.ask(Decide(ledger.new.run_id, key, decision, None))
        else:
            words = f"result {self.count}{'!' if fails else '.'}"
            self.w.ask(HandIn(ledger.new.run_id, ((key, words),), self.taken))
    self.w.go(rounds)
