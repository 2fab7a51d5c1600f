"""Models, tools and hooks that do what a test says, when it says so, and keep books of what the engine did with them.

``Stage`` knows what the disk holds: it asserts, at the moment when a model is called or a tool begins, that all of it
was durable, and that it was right to begin.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from engine.disk import Disk
from engine.harness import no_price
from engine.judge import assert_requests
from turnwired.domain.approval import BY_TIMEOUT, ApprovalDecision
from turnwired.domain.errors import FieldViolation, ToolError
from turnwired.domain.event import RunFinished
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.generation import ModelItem
from turnwired.domain.message import Message
from turnwired.domain.tool import Tool
from turnwired.engine.hooks import HookEvent, SettledRun
from turnwired.policy.bounds import Bounds, bounds_of
from turnwired.providers.port import ModelLimits, ModelRequest, ProviderInfo, TokenCount
from turnwired.telemetry.null import NullRunTelemetry, NullTelemetry
from turnwired.telemetry.port import RunInfo, RunTelemetry
from turnwired.testing.provider import ScriptedProvider
from turnwired.testing.registry import Function
from turnwired.tools.port import InputRequest, ToolInvocation

__all__ = ["ModelCall", "Stage", "ToolAct", "no_price"]

WORDS = {ApprovalDecision.ONCE: "accept", ApprovalDecision.ALWAYS: "accept", ApprovalDecision.REJECT: "decline"}
STUBBORN_SECONDS = 7.0
"""How long a tool may take to unwind that does not hear: longer than the engine waits."""
Batch = Sequence[ModelItem] | Exception | None
"""What a read of a model's answer brings: items, an error, or the end."""


@dataclass(eq=False)
class ModelCall:
    """A call of the model that is under way. ``tell`` gives it what the model says next."""

    run_id: str
    iteration: int
    over: bool = False
    said: list[Batch] = field(default_factory=list[Batch])
    more: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, *batches: Batch) -> None:
        """What the next reads bring."""
        self.said += batches
        self.more.set()


@dataclass(eq=False)
class ToolAct:
    """A tool that runs. ``deaf``: it does not stop when it is cancelled."""

    invocation: ToolInvocation
    name: str
    end: asyncio.Future[str]
    deaf: bool = False
    over: bool = False

    @property
    def run_id(self) -> str:
        """Whose it is."""
        return self.invocation.run_id


class _Marks(NullRunTelemetry):
    """Tells the provider which run calls it: what is propagated to it for traces."""

    __slots__ = ("_run_id",)

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id

    def headers_for_model(self, iteration: int) -> Mapping[str, str]:
        return {"run": self._run_id, "iteration": str(iteration)}


class MarkingTelemetry(NullTelemetry):
    """Records nothing, and marks model calls."""

    __slots__ = ()

    def begin_run(self, info: RunInfo) -> RunTelemetry:
        return _Marks(info.run_id)


@dataclass
class Stage:
    """All that acts in a world, over all of its processes."""

    disk: Disk
    life: int = 0
    calls: list[ModelCall] = field(default_factory=list[ModelCall])
    acts: list[ToolAct] = field(default_factory=list[ToolAct])
    ran: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    requests: dict[str, list[ModelRequest]] = field(default_factory=dict[str, list[ModelRequest]])
    told: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    told_ends: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    ended_late: list[tuple[int, str, str]] = field(default_factory=list[tuple[int, str, str]])
    hook_fails: int = 0
    hook_failed: bool = False
    wrong: list[str] = field(default_factory=list[str])

    # --- models -----------------------------------------------------------------------------------------------------

    def called(self, request: ModelRequest) -> ModelCall:
        """The engine calls the model."""
        call = ModelCall(request.headers["run"], int(request.headers["iteration"]))
        try:
            self._check_call(call, request)
        except AssertionError as error:  # the engine would take it for a fault of the provider
            self.wrong.append(f"{error}")
        self.calls.append(call)
        return call

    def _check_call(self, call: ModelCall, request: ModelRequest) -> None:
        ledger = self.disk.ledgers[call.run_id]
        assert not ledger.settled, "the model is called for a run that has ended"
        assert ledger.open_iteration, "the model is called before that is durable"
        assert ledger.iterations == call.iteration
        assert not ledger.people.awaits_files or ledger.people.begun, "the model is called before its file is there"
        budget = self.bounds_of_spending(call.run_id)
        assert budget is None or ledger.tokens < budget, "the model is called with nothing left to spend"
        assert not any(other.run_id == call.run_id for other in self.live_calls), "the model is called twice at once"
        before = self.requests.setdefault(call.run_id, [])
        before.append(request)
        assert_requests(before[-2:])
        inputs: list[object] = []
        for message in map(json.loads, request.messages):
            inputs += message["parts"] if message["role"] == "USER" else ()
            for part in message["parts"]:
                if isinstance(part, dict) and part.get("result") in ledger.results:
                    result = ledger.results[part["result"]]
                    assert part["status"] == result.status.value, "the model is told another result than readers"
        own = [part for part in inputs if isinstance(part, str) and part.startswith("turn ")]
        assert len(own) == len(set(own)), "the model is told a turn twice"
        assert ledger.new.parent_run_id or ledger.stated in own, "the model is not told the turn"

    @property
    def live_calls(self) -> list[ModelCall]:
        """Calls of a model that are under way."""
        return [call for call in self.calls if not call.over]

    # --- tools ------------------------------------------------------------------------------------------------------

    @property
    def live_acts(self) -> list[ToolAct]:
        """Tools that run."""
        return [act for act in self.acts if not act.over]

    def functions(self) -> Mapping[str, Function]:
        """Tools by routed name: one answers at once, the others when they are told to."""
        return {"quick": self._quick, "slow": self._slow, "other": self._slow, "asks": self._asks}

    def _begin(self, invocation: ToolInvocation) -> None:
        try:
            self._check_begin(invocation)
        except AssertionError as error:
            self.wrong.append(f"{error}")
        self.ran.add((invocation.run_id, invocation.call_id))

    def _check_begin(self, invocation: ToolInvocation) -> None:
        ledger = self.disk.ledgers[invocation.run_id]
        assert not ledger.settled, "a tool begins for a run that has ended"
        assert ledger.executing(invocation.call_id), "a tool runs before that is durable, or after its end"
        assert ledger.people.may_run(invocation.call_id), "a tool runs without the answer, or it is the caller's"
        assert (invocation.run_id, invocation.call_id) not in self.ran, "a call runs twice"
        assert ledger.life == self.life or ledger.resumed, "a call of another process is run"
        bounds = self.bounds(invocation.run_id)
        running = sum(act.run_id == invocation.run_id for act in self.live_acts)
        assert running < bounds.max_parallel_calls, "more tools run at once than may"

    def bounds_of_spending(self, run_id: str) -> int | None:
        """Tokens that the run may spend; None: nobody bounds them."""
        started = self.disk.ledgers[run_id].started
        limit = None if started is None else started.effective_policy.policy.budget.max_total_tokens
        return limit if isinstance(limit, int) else None

    def bounds(self, run_id: str) -> Bounds:
        """The caps that the run itself says it has."""
        started = self.disk.ledgers[run_id].started
        assert started is not None, "something of a run goes on before it has begun"
        return bounds_of(started.effective_policy)

    async def _quick(self, invocation: ToolInvocation) -> str:
        self._begin(invocation)
        return "done"

    async def _slow(self, invocation: ToolInvocation) -> str:
        self._begin(invocation)
        loop = asyncio.get_running_loop()
        act = ToolAct(invocation, invocation.native_name, loop.create_future())
        self.acts.append(act)
        try:
            return await act.end
        except asyncio.CancelledError:
            if act.deaf:
                with anyio.CancelScope(shield=True):
                    await asyncio.sleep(STUBBORN_SECONDS)
            raise
        finally:
            act.over = True

    async def _asks(self, invocation: ToolInvocation) -> str:
        """Ask a person, and give the answer; or be told to end before there is one."""
        self._begin(invocation)
        assert invocation.ask is not None
        act = ToolAct(invocation, invocation.native_name, asyncio.get_running_loop().create_future())
        self.acts.append(act)
        answer = asyncio.ensure_future(invocation.ask(InputRequest("Really?")))
        try:
            either: list[asyncio.Future[Any]] = [answer, act.end]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if act.end.done():
                return act.end.result()
            self._check_told(invocation, answer.result().action)
            return answer.result().action
        finally:
            answer.cancel()
            act.over = True

    def _check_told(self, invocation: ToolInvocation, action: str) -> None:
        people = self.disk.ledgers[invocation.run_id].people
        about = [key for key, asked in people.questions.items() if asked.call.call_id == invocation.call_id]
        answer = people.answers.get(about[-1]) if about else None
        if answer is None:
            self.wrong.append("a tool is told an answer that is not durable")
        elif action != ("cancel" if answer.resolved_by == BY_TIMEOUT else WORDS[answer.decision]):
            self.wrong.append("a tool is told another answer than readers")

    def end_late(self, act: ToolAct) -> None:
        """A tool that was given up ends after all, and says so."""
        assert act.invocation.on_late is not None
        self.ended_late.append((self.life, act.run_id, act.invocation.call_id))
        act.invocation.on_late()

    def check_late(self) -> None:
        """Of a run that goes on, each late end has been told by now."""
        for life, run_id, call_id in self.ended_late:
            ledger = self.disk.ledgers[run_id]
            told = call_id in ledger.late or ledger.settled or life != self.life
            assert told, "a late end was lost"
        self.ended_late.clear()

    # --- hooks ------------------------------------------------------------------------------------------------------

    async def on_event(self, told: HookEvent) -> None:
        """A hook hears of an event."""
        self._fail_hook()
        ledger = self.disk.ledgers[told.run_id]
        if told.logged.sequence > ledger.last:
            self.wrong.append("a hook is told of an event that is not durable")
        self.told.setdefault(told.run_id, []).append(told.logged.sequence)

    async def on_settle(self, told: SettledRun) -> None:
        """A hook hears of the end of a run."""
        self._fail_hook()
        finished = self.disk.ledgers[told.run.run_id].finished
        if not isinstance(finished, RunFinished) or told.run.outcome != finished.outcome:
            self.wrong.append("a hook is told an end that is none")
        self.told_ends.setdefault(told.run.run_id, []).append(self.life)

    def _fail_hook(self) -> None:
        if self.hook_fails:
            self.hook_fails -= 1
            self.hook_failed = True
            raise KeyError("a hook that fails")


@dataclass
class StageProvider:
    """A provider whose models say what the test tells them."""

    stage: Stage
    kit: ScriptedProvider = field(default_factory=lambda: ScriptedProvider([]))

    @property
    def info(self) -> ProviderInfo:
        """As the scripted one."""
        return self.kit.info

    def encode_system(self, blocks: Sequence[str], tools: Sequence[Tool]) -> bytes:
        """As the scripted one."""
        return self.kit.encode_system(blocks, tools)

    def encode_message(self, message: Message) -> bytes:
        """As the scripted one."""
        return self.kit.encode_message(message)

    def encode_tools(self, tools: Sequence[Tool]) -> bytes:
        """As the scripted one."""
        return self.kit.encode_tools(tools)

    def check(self, request: ModelRequest) -> Sequence[FieldViolation]:
        """Takes everything."""
        return ()

    def limits(self, model: str) -> ModelLimits:
        """None that it knows."""
        return ModelLimits()

    async def count_tokens(self, request: ModelRequest) -> TokenCount:
        """One for each message."""
        return await self.kit.count_tokens(request)

    async def measure(self, model: str, pieces: Sequence[bytes]) -> Sequence[int]:
        """As the scripted one."""
        return await self.kit.measure(model, pieces)

    async def generate(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelItem], None]:
        """Say what the test tells."""
        call = self.stage.called(request)
        try:
            while True:
                while not call.said:
                    call.more.clear()
                    await call.more.wait()
                batch = call.said.pop(0)
                if batch is None:
                    return
                if isinstance(batch, Exception):
                    raise batch
                yield batch
        finally:
            call.over = True

    async def aclose(self) -> None:
        """Nothing to close."""


def timed_out() -> ToolError:
    """How a registry gives a call up that takes too long."""
    return ToolError(Failure(FailurePhase.TOOL, Reason.TOOL_TIMEOUT, "it took too long"))


def tool_failed() -> ToolError:
    """A tool that says that it failed."""
    return ToolError(Failure(FailurePhase.TOOL, Reason.TOOL_FAILED, "it failed"))
