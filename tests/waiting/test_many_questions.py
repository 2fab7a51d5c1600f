"""Runs that wait for hundreds of answers: the log grows with them, not with their square, and readers miss nothing."""

from __future__ import annotations

import asyncio
import time

import pytest
from engine.harness import CALLER, Reader, World, world
from engine.judge import assert_log

from turnwire.cursor import Update
from turnwire.v1.event_pb2 import Cursor
from turnwire.view import RunView
from turnwired.domain.approval import ApprovalDecision
from turnwired.domain.event import ApprovalRequested, RunWaiting
from turnwired.domain.message import Part, Text
from turnwired.domain.policy import ApprovalPolicy, LoopPolicy, PermissionAction, PermissionRule, Policy, TimeoutPolicy
from turnwired.domain.run import Run, RunState
from turnwired.domain.tool import ClientTool, ToolSelection
from turnwired.domain.waiting import Awaited
from turnwired.engine.steering import Answer, Handed
from turnwired.store.memory import MemoryStore
from turnwired.store.port import ApprovalFilter
from turnwired.testing.provider import answer, calls
from turnwired.tools.port import ToolInvocation
from turnwired.turn.waiting import FEW

pytestmark = pytest.mark.anyio

ASK = PermissionRule("tool", "*", PermissionAction.ASK)
CIRCLES = PermissionRule("doom_loop", "*", PermissionAction.ALLOW)
MANY = Policy(
    loop=LoopPolicy(max_tool_calls=1000, repeated_call_threshold=0),
    timeout=TimeoutPolicy(wait=600.0),
)
ASKING = Policy(loop=MANY.loop, timeout=MANY.timeout, approval=ApprovalPolicy(rules=(ASK, CIRCLES)))
OWN = ToolSelection(client_tools=(ClientTool("own", "The caller does it.", '{"type":"object"}'),))
ONCE = Answer(ApprovalDecision.ONCE)


async def _fine(invocation: ToolInvocation) -> str:
    return "fine"


async def _logged(w: World, run_id: str) -> int:
    """Bytes of the log of a run."""
    return sum(len(row.body) for row in await w.store.read_rows(run_id, 0, 1 << 40))


class Waiter:
    """Answers whatever a run waits for, one after the other, and compares at each step what readers know."""

    def __init__(self, w: World, run_id: str, reader: Reader, check_each: int) -> None:
        self.w, self.run_id, self.reader = w, run_id, reader
        self.check_each = check_each
        self.answers = 0

    async def answer_all(self) -> None:
        """Until the run does not wait any more."""
        steering = self.w.engine.steering
        while (run := await self._settled_down()).state is RunState.WAITING:
            assert run.waiting is not None
            if self.answers % self.check_each == 0:
                await self._compare(run)
            self.answers += 1
            if run.waiting.approvals:
                await steering.resolve(CALLER, self.run_id, run.waiting.approvals[0].approval_id, ONCE)
            else:
                handed = Handed(run.waiting.client_tool_calls[-1].call_id, (Part("", Text("mine")),))
                await steering.submit(CALLER, self.run_id, [handed])

    async def _settled_down(self) -> Run:
        """The run when nothing of it goes on without its caller."""
        async with asyncio.timeout(10):
            while True:
                run = await self.w.engine.get_run(CALLER, self.run_id)
                if run.state in {RunState.WAITING, RunState.SETTLED}:
                    return run
                await asyncio.sleep(0)

    async def _compare(self, run: Run) -> None:
        assert run.waiting is not None
        async with asyncio.timeout(10), self.reader.seen:
            await self.reader.seen.wait_for(lambda: self.reader.events[-1].sequence >= run.last_sequence)
        fold, view = Awaited(), RunView()
        for logged in self.reader.events:
            fold.take(logged.event)
        assert fold.now == run.waiting
        view.apply(Update([event for frame in self.reader.frames for event in frame.events], None, Cursor()))
        assert view.waiting is not None
        assert [item.approval_id for item in view.waiting.approvals] == [
            item.approval_id for item in run.waiting.approvals
        ]
        assert [item.call_id for item in view.waiting.client_tool_calls] == [
            item.call_id for item in run.waiting.client_tool_calls
        ]


async def answered(count: int, tool: str, policy: Policy, check_each: int = 50) -> tuple[int, Reader]:
    """Bytes of the log of a run with so many calls that wait, and what its reader saw."""
    script = [calls(*((tool, f'{{"n":{n}}}') for n in range(count))), answer("Done.")]
    async with world(script, {"look": _fine}, store=MemoryStore()) as w:
        run_id, reader, task = await w.start(policy=policy, tools=OWN)
        await Waiter(w, run_id, reader, check_each).answer_all()
        await task
        assert_log(reader.events)
        return await _logged(w, run_id), reader


@pytest.mark.requirement("WAIT-60")
@pytest.mark.parametrize(
    ("tool", "policy"), [("look", ASKING), ("own", MANY), ("own", ASKING)], ids=["asked", "handed out", "both"]
)
async def test_the_log_of_a_run_that_waits_grows_with_the_number_of_its_questions(tool: str, policy: Policy) -> None:
    (less, _), (more, reader) = await answered(100, tool, policy), await answered(200, tool, policy)
    assert more < 2.2 * less
    told = [event for event in reader.of(RunWaiting) if isinstance(event, RunWaiting)]
    assert not told[0].only_new
    assert all(not event.only_new for event in told[-FEW:])
    assert any(event.only_new for event in told)


@pytest.mark.requirement("WAIT-61")
async def test_questions_of_one_moment_are_listed_in_the_order_in_which_they_were_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moment = time.time_ns()
    monkeypatch.setattr("turnwired.engine.execution.now_ns", lambda: moment)
    script = [calls(*(("look", f'{{"n":{n}}}') for n in range(12))), answer("Done.")]
    async with world(script, {"look": _fine}, store=MemoryStore()) as w:
        run_id, reader, task = await w.start(policy=ASKING)
        await Waiter(w, run_id, reader, 50).answer_all()
        await task
        listed, _ = await w.engine.steering.list_approvals(ApprovalFilter(CALLER.tenant, run_id=run_id), 500, "")
        asked = [event.approval for event in reader.of(ApprovalRequested) if isinstance(event, ApprovalRequested)]
    assert [item.approval_id for item in listed] == [item.approval_id for item in asked]
    assert len(asked) == 12
