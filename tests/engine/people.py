"""People and callers that do as they please: they answer, reject, hand in results, add words, or do nothing."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable

from engine.chaos import Chaos
from engine.harness import CALLER, Reader, World, user
from turnwired.domain.approval import ApprovalDecision
from turnwired.domain.errors import TurnwireError
from turnwired.domain.event import ApprovalRequested, IterationStarted, LoggedEvent, RunWaiting, ToolCallExecuting
from turnwired.domain.message import Part, Text
from turnwired.domain.policy import (
    ApprovalPolicy,
    PermissionAction,
    PermissionRule,
    TimeoutPolicy,
    ToolExecutionMode,
    WaitExpiryMode,
)
from turnwired.domain.tool import ClientTool, ToolSelection
from turnwired.engine.steering import Answer, Handed

OWN = ToolSelection(client_tools=(ClientTool("client", "The caller does it.", '{"type":"object"}'),))


def approval(rng: random.Random) -> ApprovalPolicy:
    """Some tools are asked about, some denied; those left out run. Circles are denied now and then."""
    names = ("ok", "fails", "dawdles", "client", "*")
    rules = [
        PermissionRule("tool", rng.choice(names), rng.choice(list(PermissionAction))) for _ in range(rng.randint(0, 3))
    ]
    if rng.random() < 0.5:
        rules.append(PermissionRule("doom_loop", "*", PermissionAction.DENY))
    return ApprovalPolicy(
        rules=tuple(rules), auto_approve=rng.random() < 0.2, wait_expiry=rng.choice(list(WaitExpiryMode))
    )


def waiting(rng: random.Random) -> TimeoutPolicy:
    """Little time to answer, or much."""
    return TimeoutPolicy(wait=rng.choice((0.001, 0.02, 60.0)))


def mode(rng: random.Random) -> ToolExecutionMode:
    """Now and then every call is the caller's."""
    return ToolExecutionMode.RETURN if rng.random() < 0.15 else ToolExecutionMode.EXECUTE


class People:
    """All that somebody does to one run, from what its reader sees. ``diligent``: whoever is asked answers."""

    def __init__(self, w: World, run_id: str, chaos: Chaos, *, diligent: bool = False) -> None:
        self._w = w
        self._run_id = run_id
        self._chaos = chaos
        self._diligent = diligent
        self._acts: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def watching(self, live: Reader) -> AsyncIterator[None]:
        """React to what the reader sees, inside."""
        task = asyncio.create_task(self._watch(live))
        try:
            yield
        finally:
            for left in (task, *self._acts):
                left.cancel()
            await asyncio.wait([task, *self._acts])

    async def _watch(self, live: Reader) -> None:
        place = 0
        while True:
            async with live.seen:
                await live.seen.wait_for(lambda place=place: len(live.events) != place)  # type: ignore[misc]
                new = live.events[place:]
                place = len(live.events)
            for item in new:
                self._see(item)

    def _see(self, item: LoggedEvent) -> None:
        rng = self._chaos.random
        acts = self._diligent or rng.random() < 0.8
        match item.event:
            case ApprovalRequested(asked) if acts:
                for _ in range(rng.choice((1, 1, 2))):
                    self._do(self._answer, asked.approval_id)
            case RunWaiting(approvals, calls) if acts:
                for asked in approvals:
                    self._do(self._answer, asked.approval_id)
                for call in calls:
                    self._do(self._submit, call.call_id)
            case ToolCallExecuting(call_id) if acts:
                self._do(self._submit, call_id)
            case IterationStarted() if rng.random() < 0.15:
                self._do(self._append, str(rng.randint(0, 3)))
            case _:
                pass

    def _do(self, act: Callable[[str], Awaitable[None]], name: str) -> None:
        async def attempt() -> None:
            await self._chaos.pause()()
            with contextlib.suppress(TurnwireError):  # too late, taken, or nobody can be reached
                await act(name)

        task = asyncio.ensure_future(attempt())
        self._acts.add(task)
        task.add_done_callback(self._acts.discard)

    async def _answer(self, approval_id: str) -> None:
        rng = self._chaos.random
        decision = rng.choice((ApprovalDecision.ONCE, ApprovalDecision.ALWAYS, ApprovalDecision.REJECT))
        comment = "Do not." if decision is ApprovalDecision.REJECT else ""
        await self._w.engine.steering.resolve(CALLER, self._run_id, approval_id, Answer(decision, comment=comment))

    async def _submit(self, call_id: str) -> None:
        handed = Handed(call_id, (Part("", Text("mine")),), is_error=self._chaos.random.random() < 0.2)
        await self._w.engine.steering.submit(CALLER, self._run_id, [handed])

    async def _append(self, request_id: str) -> None:
        await self._w.engine.steering.append_input(CALLER, self._run_id, request_id, [user("One thing more.")])
