"""A service that lives, dies and starts again over one disk, step by step, and what must hold of all its runs.

The real engine with its log, store port, registry and hooks; only models, tools, callers and time are played. It may
know everything of the tests beside it and the engine's public ways, and nothing of Hypothesis.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import cast

from engine.actors import MarkingTelemetry, Stage, StageProvider, no_price
from engine.callers import Request
from engine.disk import APART, Connection, Disk
from engine.followers import Follower, Turn
from engine.harness import CALLER
from engine.judge import assert_history, assert_log
from engine.ledgers import Ledger
from engine.stepping import SteppedLoop
from turnwired.codec.frame import Visibility
from turnwired.codec.message import decode_message
from turnwired.domain.approval import ApprovalState
from turnwired.domain.errors import RequestError, StoreError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.model import ModelSelection
from turnwired.domain.run import Agent, Run, RunState, TurnSpec
from turnwired.domain.trace import RunTrace
from turnwired.engine.hooks import Hook
from turnwired.engine.log import visibility_of
from turnwired.engine.ports import EngineConfig, Wiring
from turnwired.engine.service import Engine
from turnwired.engine.totals import day_of
from turnwired.policy.budgets import TOKENS
from turnwired.store.memory import MemoryStore
from turnwired.store.port import ApprovalFilter, RunFilter, SpendingScope, Store
from turnwired.store.sqlite import SqliteStore
from turnwired.testing.registry import MemoryRegistry
from turnwired.tools.output import compile_output
from turnwired.turn.trace import trace_of

MODEL = ModelSelection("scripted", "scripted-model")
AGENTS = (
    Agent("default", ("Be brief.",), MODEL),
    Agent("lead", ("Delegate.",), MODEL, agents=("default", "lead")),
)
CANCELLED = Failure(FailurePhase.MODEL, Reason.CANCELLED, "somebody had enough")
EMPTY: list[bytes] = []
"""A migrated database without runs: migrating takes longer than all that an example does."""
LONG = 100.0
"""Seconds in which everything that the engine bounds is over."""


class Lives:
    """One disk, and one process after the other. ``engine`` is that of the process now."""

    def __init__(self, *, threaded: bool, hooked: bool) -> None:
        self.loop = SteppedLoop()
        self._folder = tempfile.TemporaryDirectory() if threaded else None
        self.disk = Disk(self.loop, self._store(), threaded)
        self.stage = Stage(self.disk)
        self.hooked = hooked
        self.steps = 0
        self.turns: list[Turn] = []
        self.requests: list[Request] = []
        self.seen: Counter[str] = Counter()
        self.followers: list[Follower] = []
        self.connection = Connection(self.disk, 0)
        self.engine: Engine
        self._main: asyncio.Task[None] | None = None
        self._leave: asyncio.Event
        self.loop.finish(self.disk.ask(self.disk.store.start))
        self.live()

    def _store(self) -> Store:
        if self._folder is None:
            return MemoryStore()
        path = Path(self._folder.name) / "turnwire.db"
        if not EMPTY:
            empty = Disk(self.loop, SqliteStore(path), threaded=True)
            self.loop.finish(empty.ask(empty.store.start))
            self.loop.finish(empty.ask(empty.store.aclose))
            EMPTY.append(path.read_bytes())
        path.write_bytes(EMPTY[0])
        return SqliteStore(path)

    # --- processes --------------------------------------------------------------------------------------------------

    def live(self, dies_at: int | None = None, *, lands: bool = False) -> bool:
        """Start a process, which may die while it starts. Whether it lives."""
        waited = {ledger.new.run_id for ledger in self.disk.unsettled() if ledger.waiting}  # its wait may be over now
        self.stage.life += 1
        self.connection = Connection(self.disk, self.stage.life, dies_at=dies_at, lands=lands)
        hooks = (Hook("listener", self.stage.on_event, self.stage.on_settle),) if self.hooked else ()
        wiring = Wiring(
            config=EngineConfig("default", max_active_runs=12, max_run_depth=2),
            agents={agent.agent_id: agent for agent in AGENTS},
            providers={"scripted": StageProvider(self.stage)},
            default_model=MODEL,
            registry=MemoryRegistry(self.stage.functions()),
            store=cast(Store, self.connection),
            telemetry=MarkingTelemetry(),
            price_of=no_price,
            compile_output=compile_output,
            random=lambda: 0.0,
            hooks=hooks,
        )
        self.engine = Engine(wiring)
        self._leave = asyncio.Event()
        self._main = self.loop.create_task(self._live(self.engine, self._leave))
        self.loop.drain()
        if self.connection.dead:
            self.bury()
            return False
        if self._main.done():
            self._main.result()
            raise AssertionError("a process ends as soon as it has begun")
        unsettled = {ledger.new.run_id for ledger in self.disk.unsettled() if not ledger.waiting}
        assert unsettled <= waited, "a run that was unfinished at start is left unfinished"
        self.seen["a process takes over"] += self.stage.life > 1
        return True

    async def _live(self, engine: Engine, leave: asyncio.Event) -> None:
        async with engine:
            await leave.wait()

    def stop(self) -> None:
        """Have the process end in good order."""
        for follower in self.followers:
            if follower.slow and follower.task is not None:
                follower.task.cancel()  # as the server cuts streams that do not end
        self._leave.set()
        self.connection.release()
        self.loop.advance(LONG)
        if self.connection.dead:  # of a write that a thread had taken
            self.bury()
            return
        assert self._main is not None
        assert self._main.done(), "the process does not end"
        assert self._main.exception() is None, self._main.exception()
        self._clear("the process has ended")

    def bury(self) -> None:
        """Nothing of a process that died goes on."""
        self.connection.dead = True
        self.seen["a process dies"] += 1
        for act in self.stage.live_acts:
            act.deaf = False
        for _ in range(20):
            tasks = {task for task in asyncio.all_tasks(self.loop) if task.get_name() != APART}
            if not tasks:
                break
            for task in tasks:
                task.cancel()
            self.loop.advance(1.0)
            tasks.clear()
        self._main = None
        self.loop.complaints.clear()  # nobody hears them
        self.loop.drain()  # the disk does what it has taken
        self._clear("the process has died")

    def _clear(self, why: str) -> None:
        left = [task for task in asyncio.all_tasks(self.loop) if task.get_name() != APART]
        assert not left, f"{why}, and goes on: {left}"
        self.loop.drain()
        for call in self.stage.calls:
            call.over = True
        self.stage.calls.clear()
        self.stage.acts.clear()

    def go(self, turns: int | None = None) -> None:
        """Let the process go on: until it is idle, or so many rounds of its loop. After one that dies comes another."""
        if turns is None:
            self.loop.drain()
        else:
            for _ in range(turns):
                self.loop.turn()
        self.after()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.loop.advance(seconds)
        self.after()

    def after(self) -> None:
        """What has to be seen to after anything happened."""
        self.steps += 1
        if self.connection.dead:
            self.bury()
            while not self.live():
                pass
        self.check()

    def mend(self) -> None:
        """The store works, and the process is in no danger."""
        self.connection.away = False
        self.connection.fail = self.connection.lose = 0
        self.connection.dies_at = None

    def soon(self, act: Callable[..., object], *args: object) -> None:
        """Have something done by the process, when it goes on next."""
        self.loop.create_task(self._do(act, *args)).add_done_callback(self._done)

    async def _do(self, act: Callable[..., object], *args: object) -> None:
        act(*args)

    def _done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            task.result()  # what it raises is a complaint of the loop

    # --- callers ----------------------------------------------------------------------------------------------------

    def begin(self, spec: TurnSpec) -> Turn:
        """Somebody asks for a turn."""
        turn = Turn(spec, self.stage.life, self.loop.create_task(self.engine.start_turn(spec)))
        self.turns.append(turn)
        return turn

    def ask(self, request: Request) -> None:
        """Somebody asks something of a run."""
        request.task = self.loop.create_task(request.send(self.engine))
        self.requests.append(request)

    def follow(self, ledger: Ledger, level: Visibility, begun: int, *, slow: bool = False) -> Follower:
        """Somebody follows a run."""
        rows = [row for row in ledger.rows if row.first_sequence <= begun]
        follower = Follower(self.disk, ledger.new.run_id, level, begun, slow, epoch=rows[-1].epoch if rows else 0)
        self.followers.append(follower)
        follower.attach(self.engine)
        return follower

    def live_runs(self) -> list[Ledger]:
        """Runs that are durable and not settled."""
        return self.disk.unsettled()

    # --- what must hold ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        """After each step."""
        assert not self.stage.wrong + self.disk.wrong, self.stage.wrong + self.disk.wrong
        assert not self.loop.complaints, self.loop.complaints
        for turn in self.turns:
            self._check_turn(turn)
        for follower in self.followers:
            follower.check()
        for request in self.requests:
            if request.check(self.disk):
                self.seen[request.told] += 1
        self.requests = [request for request in self.requests if not request.judged]

    def _check_turn(self, turn: Turn) -> None:
        if turn.judged or not turn.task.done() or turn.task.cancelled():
            return
        turn.judged = True
        error = turn.task.exception()
        if error is not None:
            assert isinstance(error, RequestError | StoreError), repr(error)
            return
        accepted = turn.task.result()
        ledger = self.disk.ledgers.get(accepted.run_id)
        assert ledger is not None, "a turn was accepted and is not stored"
        assert ledger.new.session_id == turn.spec.session_id
        assert ledger.new.request_id == turn.spec.request_id
        assert accepted.message_ids == tuple(message.message_id for message in ledger.new.input) or not ledger.new.input

    def check_idle(self) -> None:
        """When the loop is idle, and the store has answered all: no run is stuck, and every reader has all there is."""
        heard = {call.run_id for call in self.stage.live_calls}
        heard |= {act.run_id for act in self.stage.live_acts if not act.deaf}
        for run_id, live_run in self.engine._live.items():
            assert live_run.log.failure is None or run_id not in heard, "a run that cannot be stored goes on"
        if not self.settled_down:
            return
        self.stage.check_late()
        live = set(self.engine._live)
        unsettled = {ledger.new.run_id for ledger in self.disk.unsettled()}
        unheard = {act.run_id for act in self.stage.live_acts if act.deaf}
        assert live <= unsettled | unheard, "a run goes on after its end"
        assert live >= unsettled, "a run has nobody who executes it"
        acting = {call.run_id for call in self.stage.live_calls} | {act.run_id for act in self.stage.live_acts}
        for run_id in live & unsettled:
            ledger = self.disk.ledgers[run_id]
            assert ledger.new.parent_run_id in (None, *live), "a run goes on after the one that it was made for"
            children = live.intersection(ledger.children.values())
            waits = ledger.retry_due or ledger.waiting or ledger.people.awaits_files
            assert run_id in acting or children or waits, "a run waits for nothing"
            for approval_id in ledger.people.open_questions:
                expires = ledger.people.questions[approval_id].expire_time_ns
                # What ends a run holds its events back until its tools have unwound, which a deaf one does not at once.
                late = expires and expires < self.loop.now_ns
                assert not late or run_id in unheard, "a question stays open after its time"
        for follower in self.followers:
            if follower.attached and not follower.slow:
                assert follower.has_all, "a reader was not told"

    @property
    def settled_down(self) -> bool:
        """Whether the store has answered all that it was asked, if the loop is idle."""
        connection = self.connection
        return not (connection.held or connection.away or connection.dead or connection.troubled)

    def read(self, ledger: Ledger) -> None:
        """What GetRun, GetTrace and ListRuns say of a run now: never more than is durable, and its end once it is."""
        connection = self.connection
        if connection.away:
            return
        run_id, known = ledger.new.run_id, ledger.settled and not connection.troubled
        asked = self.loop.create_task(self._read(run_id))
        self.loop.drain()
        if connection.dead:
            return
        assert asked.done(), "a run cannot be read"
        run, trace, listed = asked.result()
        for seen in (run, listed):
            assert ledger.settled or seen.state is not RunState.SETTLED, "a run is said to have ended before it has"
            assert not known or seen.state is RunState.SETTLED, "a run that has ended is said to go on"
            assert seen.parent_run_id == ledger.new.parent_run_id
            assert seen.session_id == ledger.new.session_id
        if not (connection.troubled or run.state is RunState.SETTLED):
            trace = self.loop.finish(self.engine.get_trace(CALLER, run_id))  # now that nothing goes on beside it
            milestones = [item for item in ledger.events if visibility_of(item.event) is not Visibility.DELTA]
            if connection.held:  # what is stored, and the answer to it was lost, is asked about anew and held there
                visible = self.loop.finish(self.engine.get_run(CALLER, run_id)).last_sequence
                milestones = [item for item in milestones if item.sequence <= visible]
            assert trace == trace_of(milestones), "the trace of a run that goes on is not its log"
        if known and ledger.finished is not None:
            assert run.outcome == listed.outcome == ledger.finished.outcome
            assert run.usage == listed.usage == ledger.finished.usage
            assert run.last_sequence == ledger.last
            assert trace == trace_of(ledger.events), "the trace is not the log"

    async def _read(self, run_id: str) -> tuple[Run, RunTrace, Run]:
        engine = self.engine
        run, trace = await engine.get_run(CALLER, run_id), await engine.get_trace(CALLER, run_id)
        runs, _ = await engine.list_runs(RunFilter(CALLER.tenant), 500, "")
        (listed,) = [item for item in runs if item.run_id == run_id]
        return run, trace, listed

    # --- the end ----------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Bring everything to its end, and judge all that there was."""
        self.mend()
        self.connection.release()
        self.go()
        for follower in self.followers:
            follower.slow = False
            follower.gate.set()
        for ledger in self.disk.unsettled():
            self.soon(self.engine.cancel_if_live, ledger.new.run_id, CANCELLED)
        self.advance(LONG)
        assert not self.disk.unsettled(), "a run does not end"
        assert not self.engine._live, "a run goes on after its end"
        assert not self.stage.live_calls, "a model is called for nobody"
        for ledger in self.disk.ledgers.values():
            self._judge(ledger)
        for session_id in {ledger.new.session_id for ledger in self.disk.ledgers.values()} - {None}:
            self._judge_session(str(session_id))
        self._judge_spending()
        self.stop()
        assert self.loop.next_timer is None, "a timer is left behind"

    def _judge(self, ledger: Ledger) -> None:
        assert_log(ledger.events)
        self.read(ledger)
        self._judge_caller(ledger)
        self.seen += ledger.people.seen
        self.seen["a run that waited goes on in another process"] += ledger.resumed
        for follower in [one for one in self.followers if one.run_id == ledger.new.run_id]:
            if follower.cut or not follower.attached:
                follower.attach(self.engine)
        cold = self.follow(ledger, Visibility.DELTA, 0)
        self.go()
        assert cold.events == ledger.raw
        for follower in [one for one in self.followers if one.run_id == ledger.new.run_id]:
            assert not follower.attached, "a stream does not end with its run"
            assert not follower.cut, "a stream of a run that has ended is cut"
            follower.check()
        if self.hooked:
            self._judge_hook(ledger)

    def _judge_spending(self) -> None:
        """What was spent in all is what the runs say, each counted once; nothing stays reserved."""
        assert not any(self.engine.budgets.reserved.values()), "something stays reserved"
        days = {day_of(ledger.new.create_time_ns) for ledger in self.disk.ledgers.values()}
        kept = sum(self._spent(SpendingScope.DAY, day) for day in days)
        assert kept == sum(ledger.tokens for ledger in self.disk.ledgers.values()), "a day has another total"

    def _spent(self, scope: SpendingScope, name: str) -> int:
        totals = self.loop.finish(self.disk.ask(lambda: self.disk.store.spent(CALLER.tenant, scope, name)))
        return int(totals.get(TOKENS, 0))

    def _judge_caller(self, ledger: Ledger) -> None:
        """What the run took from its caller is in its conversation, once and in order; nothing is asked any more."""
        people = ledger.people
        if ledger.settlement is not None and ledger.new.session_id is not None:
            kept = [item.message_id for item in ledger.settlement.messages if item.message_id in people.appended]
            assert kept == list(people.appended), "words of the caller are lost, doubled or turned round"
        query = ApprovalFilter(CALLER.tenant, run_id=ledger.new.run_id)
        listed, _ = self.loop.finish(self.engine.steering.list_approvals(query, 500, ""))
        told = {item.approval_id: item.decision for item in listed}
        assert list(told) == list(people.questions)
        for approval in listed:
            answer = people.answers.get(approval.approval_id)
            assert approval.state is not ApprovalState.PENDING, "a question outlives its run"
            assert approval.decision is (None if answer is None else answer.decision)

    def _judge_hook(self, ledger: Ledger) -> None:
        if self.stage.hook_failed:
            return
        run_id = ledger.new.run_id
        assert self.stage.told_ends.get(run_id), "a hook was not told of the end of a run"
        lives = self.stage.told_ends[run_id]
        assert len(set(lives)) == len(lives), "a process told the end of a run twice"

    def _judge_session(self, session_id: str) -> None:
        stored = self.loop.finish(self.disk.ask(lambda: self.disk.store.load_messages(CALLER.tenant, session_id)))
        assert_history([decode_message(item.body) for item in stored])
        expected = [
            message.message_id
            for ledger in self.disk.of_session(session_id)
            for message in (*ledger.new.input, *(ledger.settlement.messages if ledger.settlement is not None else ()))
        ]
        assert [item.message_id for item in stored] == expected, "a session holds something else than its runs"

    def close(self) -> None:
        """Throw everything away."""
        self.connection.dead = True
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.advance(LONG)
        self.loop.finish(self.disk.ask(self.disk.store.aclose))
        self.loop.close()
        if self._folder is not None:
            self._folder.cleanup()
