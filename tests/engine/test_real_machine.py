"""The real engine under a state machine of Hypothesis: random models, tools, callers, faults, time and crashes.

Hypothesis says what happens next, and how far the service gets before the next thing happens; ``Lives`` plays it and
judges after each step. Nothing waits in real time, and the same choices give the same run.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from engine import real_draws as draws
from engine import real_people as people
from engine.actors import ModelCall, ToolAct, timed_out, tool_failed
from engine.followers import Turn
from engine.harness import CALLER, user
from engine.ledgers import Ledger
from engine.lives import CANCELLED, Lives
from engine.real_kinds import missing
from engine.real_world import hurried, quiet
from turnwired.codec.frame import Visibility
from turnwired.domain.generation import FinishReason, ModelItem, TextChunk
from turnwired.domain.run import OnDisconnect, TurnSpec
from turnwired.engine.live import STREAM_CUT, ends_with_stream
from turnwired.testing.provider import stopped, usage

T = TypeVar("T")
STEPS = 28
RUNS = 10
"""Most turns of one example."""
SEEN: Counter[str] = Counter()
"""What has happened in the examples that came to their end."""


def one(things: Sequence[T], pick: int) -> T:
    """The newest of them for 0."""
    return things[-1 - pick % len(things)]


class ServiceRules(RuleBasedStateMachine):
    """Plays everything that a service talks to."""

    lives: Lives | None = None

    @initialize(
        threaded=st.sampled_from([False] * 29 + [True]), hooked=st.booleans(), policy=draws.POLICY, first=draws.FIRST
    )
    def the_service_starts(self, threaded: bool, hooked: bool, policy: int, first: tuple[str, ...]) -> None:
        self.lives = Lives(threaded=threaded, hooked=hooked)
        self.count = 0
        self.begin(TurnSpec(CALLER, (), session_id="s", policy=draws.POLICIES[policy]), first, follow=True, rounds=None)
        self.taken: dict[str, str] = {}
        self.known: dict[tuple[str, str], tuple[str, ...]] = {}

    @property
    def disturbed(self) -> bool:
        """What breaks things may happen at each third step: else nothing would ever get far."""
        return self.w.steps % 3 == 2

    @property
    def w(self) -> Lives:
        assert self.lives is not None
        return self.lives

    # --- callers ----------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.w.turns) < RUNS)
    @rule(
        session=st.sampled_from((None, "s", "s", "t")),
        policy=draws.POLICY,
        agent=st.sampled_from(("", "lead")),
        request_id=st.sampled_from(("", "", "", "q", "r")),
        stays=st.sampled_from((None, *OnDisconnect)),
        follow=st.sampled_from((True, True, True, False)),
        behalf=st.sampled_from((False, False, False, True)),
        file=st.sampled_from((False, False, False, True)),
        first=draws.FIRST,
        rounds=draws.ROUNDS,
    )
    def somebody_asks_for_a_turn(
        self,
        session: str | None,
        policy: int,
        agent: str,
        request_id: str,
        stays: OnDisconnect | None,
        follow: bool,
        behalf: bool,
        file: bool,
        first: tuple[str, ...],
        rounds: int | None,
    ) -> None:
        spec = TurnSpec(
            CALLER,
            (),
            request_id=request_id,
            agent_id=agent,
            session_id=session,
            policy=draws.POLICIES[policy],
            attachments=(draws.FILE,) if file else (),
            parent_run_id=self.unsettled[-1].new.run_id if behalf and self.unsettled else None,
            include_trace=self.count % 2 == 0,
            on_disconnect=stays,
            digest=f"{session} {agent}".encode(),
        )
        self.begin(spec, first, follow=follow, rounds=rounds)

    def begin(self, spec: TurnSpec, first: tuple[str, ...], *, follow: bool, rounds: int | None) -> None:
        """Somebody asks for a turn, and follows it. ``first``: what the model calls at once."""
        self.count += 1
        turn = self.w.begin(replace(spec, input=(user(f"turn {self.count}"),), tools=draws.OWN))
        if first:
            self.w.go()
            for call in self.calls[-1:]:
                call.tell(draws.wanted(list(first), [], f"first {self.count}"), *draws.CALLED)
        self.w.go(rounds)
        if follow and turn.accepted is not None and turn.accepted.run_id in self.w.disk.ledgers:
            self.w.follow(self.w.disk.ledgers[turn.accepted.run_id], Visibility.DELTA, 0)
            self.w.go(rounds)

    @property
    def repeatable(self) -> list[Turn]:
        return [turn for turn in self.w.turns if turn.spec.request_id and turn.accepted is not None]

    @precondition(lambda self: self.repeatable)
    @rule(pick=draws.PICK, rounds=draws.ROUNDS)
    def somebody_asks_for_a_turn_again(self, pick: int, rounds: int | None) -> None:
        before = one(self.repeatable, pick)
        again = self.w.begin(replace(before.spec, parent_run_id=None))
        self.w.go(rounds)
        if again.accepted is not None and before.accepted is not None:
            assert again.accepted.run_id == before.accepted.run_id, "a repeated turn is another run"
            assert again.accepted.existing

    @property
    def leavers(self) -> list[Turn]:
        return [turn for turn in self.w.turns if not turn.left and turn.life == self.w.stage.life]

    @precondition(lambda self: self.leavers and self.disturbed)
    @rule(pick=draws.PICK, rounds=draws.ROUNDS)
    def the_caller_of_a_turn_vanishes(self, pick: int, rounds: int | None) -> None:
        turn = one(self.leavers, pick)
        turn.left = True
        turn.task.cancel()
        accepted = turn.accepted
        if accepted is not None and ends_with_stream(turn.spec) and not accepted.existing:
            self.w.soon(self.w.engine.cancel_if_live, accepted.run_id, STREAM_CUT)
        self.w.go(rounds)

    @property
    def unsettled(self) -> list[Ledger]:
        return self.w.disk.unsettled()

    @precondition(lambda self: self.unsettled and self.disturbed)
    @rule(pick=draws.PICK, times=st.sampled_from((1, 1, 2)), late=st.booleans(), rounds=draws.ROUNDS)
    def somebody_ends_a_run(self, pick: int, times: int, late: bool, rounds: int | None) -> None:
        run_id = one(self.unsettled, pick).new.run_id
        self.w.seen["a deadline" if late else "a cancel"] += 1
        for _ in range(times):
            if late:
                self.w.soon(self.w.engine.deadline_reached, run_id, 3.0)
            else:
                self.w.soon(self.w.engine.cancel_if_live, run_id, CANCELLED)
        self.w.go(rounds)

    # --- readers ----------------------------------------------------------------------------------------------------

    @property
    def logs(self) -> list[Ledger]:
        return list(self.w.disk.ledgers.values())

    @precondition(lambda self: self.logs)
    @rule(
        pick=draws.PICK,
        share=st.sampled_from((0.0, 0.0, 0.5, 0.9, 1.0)),
        level=st.sampled_from((Visibility.DELTA, *Visibility)),
        slow=st.booleans(),
        rounds=draws.ROUNDS,
    )
    def somebody_follows(self, pick: int, share: float, level: Visibility, slow: bool, rounds: int | None) -> None:
        ledger = one(self.logs, pick)
        self.w.follow(ledger, level, int(ledger.last * share), slow=slow)
        self.w.go(rounds)

    @precondition(lambda self: self.w.followers)
    @rule(pick=draws.PICK, what=st.sampled_from(("cut", "slow", "frame", "quick", "again")), rounds=draws.ROUNDS)
    def a_reader_does_as_it_likes(self, pick: int, what: str, rounds: int | None) -> None:
        follower = one(self.w.followers, pick)
        match what:
            case "cut" if follower.task is not None:
                follower.task.cancel()
            case "slow":
                follower.slow = True
            case "frame":
                follower.gate.set()
            case "quick":
                follower.slow = False
                follower.gate.set()
            case _ if not follower.attached:
                follower.attach(self.w.engine)
            case _:
                pass
        self.w.go(rounds)

    @precondition(lambda self: self.logs)
    @rule(pick=draws.PICK)
    def somebody_reads_a_run(self, pick: int) -> None:
        self.w.read(one(self.logs, pick))
        self.w.go()

    # --- people -----------------------------------------------------------------------------------------------------

    somebody_answers_a_question = people.somebody_answers_a_question
    somebody_hands_results_in = people.somebody_hands_results_in
    all_that_a_run_waits_for_is_given = people.all_that_a_run_waits_for_is_given
    somebody_adds_words_or_a_file = people.somebody_adds_words_or_a_file
    a_file_comes_when_it_was_given_up = people.a_file_comes_when_it_was_given_up

    # --- the model --------------------------------------------------------------------------------------------------

    @property
    def calls(self) -> list[ModelCall]:
        return self.w.stage.live_calls

    @precondition(lambda self: self.calls)
    @rule(pick=draws.PICK, items=st.lists(draws.ITEMS, min_size=1, max_size=4), rounds=draws.ROUNDS)
    def the_model_says_anything(self, pick: int, items: list[ModelItem], rounds: int | None) -> None:
        one(self.calls, pick).tell(tuple(items))
        self.w.go(rounds)

    @precondition(lambda self: self.calls)
    @rule(pick=draws.PICK, names=st.lists(draws.NAMES, min_size=1, max_size=3), rounds=draws.ROUNDS)
    def the_model_calls_tools(self, pick: int, names: list[str], rounds: int | None) -> None:
        self.count += 1
        items = draws.wanted(names, [], str(self.count))
        one(self.calls, pick).tell(items, *draws.CALLED)
        self.w.go(rounds)

    @precondition(lambda self: self.calls)
    @rule(pick=draws.PICK, rounds=draws.ROUNDS)
    def the_model_goes_round_in_circles(self, pick: int, rounds: int | None) -> None:
        run_id = one(self.calls, pick).run_id
        for _ in range(4):
            for call in [call for call in self.calls if call.run_id == run_id]:
                call.tell(draws.wanted(["quick"], ["{}"], ""), *draws.CALLED)
            self.w.go()
        self.w.go(rounds)

    @precondition(lambda self: self.calls)
    @rule(
        pick=draws.PICK,
        names=st.lists(draws.ODD_NAMES, min_size=1, max_size=3),
        arguments=st.lists(draws.ARGUMENTS, min_size=1, max_size=2),
        word=st.sampled_from((FinishReason.TOOL_CALLS,) * 4 + (FinishReason.STOP, FinishReason.OUTPUT_LIMIT)),
        rounds=draws.ROUNDS,
    )
    def the_model_calls_tools_badly(
        self, pick: int, names: list[str], arguments: list[str], word: FinishReason, rounds: int | None
    ) -> None:
        one(self.calls, pick).tell(draws.wanted(names, arguments, "same"), (stopped(word, "?"), usage()), None)
        self.w.go(rounds)

    @precondition(lambda self: self.calls)
    @rule(pick=draws.PICK, text=draws.WORDS, word=draws.FINISH, rounds=draws.ROUNDS)
    def the_model_answers(self, pick: int, text: str, word: FinishReason, rounds: int | None) -> None:
        one(self.calls, pick).tell((TextChunk(0, text), TextChunk(0, "!")), (stopped(word, "?"),), None)
        self.w.go(rounds)

    @precondition(lambda self: self.calls and self.disturbed)
    @rule(pick=draws.PICK, how=st.one_of(st.none(), draws.FAILURES), bug=st.sampled_from([False] * 9 + [True]))
    def the_answer_breaks_off(self, pick: int, how: draws.Why | None, bug: bool) -> None:
        end = KeyError("a bug of the driver") if bug else None if how is None else draws.failure(how)
        one(self.calls, pick).tell(end)
        self.w.go()

    # --- tools ------------------------------------------------------------------------------------------------------

    @property
    def acts(self) -> list[ToolAct]:
        return [act for act in self.w.stage.live_acts if not act.end.done()]

    @precondition(lambda self: self.acts)
    @rule(
        pick=draws.PICK,
        how=st.sampled_from(("good", "good", "good", "long", "fails", "times out", "times out", "breaks")),
        rounds=draws.ROUNDS,
    )
    def a_tool_ends(self, pick: int, how: str, rounds: int | None) -> None:
        act = one(self.acts, pick)
        match how:
            case "good" | "long":
                act.end.set_result("fine" if how == "good" else "x" * 3000)
            case "fails":
                act.end.set_exception(tool_failed())
            case "times out":
                for seconds in (0.0, 4.0):
                    self.w.loop.call_later(seconds, self.w.stage.end_late, act)
                act.end.set_exception(timed_out())
            case _:
                act.end.set_exception(RecursionError("a fault below the registry"))
        self.w.go(rounds)

    @precondition(lambda self: self.acts)
    @rule(pick=draws.PICK, deaf=st.booleans(), rounds=draws.ROUNDS)
    def a_tool_reports(self, pick: int, deaf: bool, rounds: int | None) -> None:
        act = one(self.acts, pick)
        act.deaf = deaf
        if act.invocation.on_progress is not None:
            self.w.soon(act.invocation.on_progress, 1.0, None, "on it")
        self.w.go(rounds)

    # --- the store, time and death ----------------------------------------------------------------------------------

    @precondition(lambda self: self.w.turns and self.disturbed)
    @rule(
        what=st.sampled_from(("fails", "loses", "goes", "holds", "writes one", "comes back", "comes back")),
        times=st.sampled_from((1, 2, 9)),
        rounds=draws.ROUNDS,
    )
    def the_store_does_as_it_likes(self, what: str, times: int, rounds: int | None) -> None:
        connection = self.w.connection
        self.w.seen[f"the store {what}"] += 1
        match what:
            case "fails":
                connection.fail = times
            case "loses":
                connection.lose = times
            case "goes":
                connection.away = True
            case "holds":
                connection.held = True
            case "writes one":
                connection.release(1)
            case _:
                connection.away = False
                connection.release()
        self.w.go(rounds)

    @precondition(lambda self: self.w.turns)
    @rule(seconds=st.sampled_from((0.0, 0.06, 0.3, 3.0, 3.0, 60.0)))
    def time_passes(self, seconds: float) -> None:
        self.w.advance(seconds)
        self.w.check_idle()

    @precondition(lambda self: self.unsettled and self.disturbed)
    @rule(
        how=st.sampled_from(("now", "now", "soon", "soon", "in good order")),
        writes=st.sampled_from((0, 0, 1, 2, 4)),
        lands=st.booleans(),
        starts=st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=2),
    )
    def the_process_ends(self, how: str, writes: int, lands: bool, starts: list[tuple[int, bool]]) -> None:
        if how == "soon":
            self.w.connection.dies_at, self.w.connection.lands = writes, lands
            return
        if how == "in good order":
            self.w.mend()
            self.w.stop()
        else:
            self.w.bury()
        for dies_at, lands_then in starts:
            if self.w.live(dies_at, lands=lands_then):
                break
        else:
            assert self.w.live()
        self.w.mend()
        self.w.check()

    @precondition(lambda self: self.w.hooked and self.disturbed)
    @rule(times=st.sampled_from((1, 3, 9)))
    def the_hook_fails(self, times: int) -> None:
        self.w.stage.hook_fails = times

    def teardown(self) -> None:
        if self.lives is None:
            return
        try:
            if sys.exc_info()[0] is None:
                self.lives.end()
                SEEN.update(self.lives.seen)
        finally:
            self.lives.close()


def check(examples: int, *, derandomize: bool = False, shrink: bool = True) -> Counter[str]:
    """Run the state machine, and say what has happened how often.

    Without shrinking a fault is found, not made small (see scripts/mutants.py).
    """
    SEEN.clear()
    phases = [Phase.explicit, Phase.reuse, Phase.generate, *([Phase.shrink] if shrink else [])]
    chosen = settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        derandomize=derandomize,
        database=None,
        print_blob=True,
        phases=phases,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    with hurried(), quiet():
        run_state_machine_as_test(ServiceRules, settings=chosen)
    return Counter(SEEN)


@pytest.mark.requirement("REAL-1", "REAL-2", "REAL-3", "REAL-4", "REAL-5", "REAL-8", "REAL-9")
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_invariants_hold_whatever_the_world_does_to_the_service() -> None:
    examples = int(os.environ.get("TURNWIRE_REAL_EXAMPLES", "330"))
    seen = check(examples)
    assert not missing(seen, examples), f"the machine does not reach what it is there for: {seen}"
