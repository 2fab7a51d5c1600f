"""Random worlds, the same for the same seed: models, tools, stores, callers and readers that do as they please."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from engine.faults import FaultyStore
from engine.harness import CALLER, Reader, World
from turnwired.codec.frame import Visibility
from turnwired.domain.errors import ProviderError, StoreUnavailable, ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.generation import (
    FinishReason,
    ModelItem,
    ReasoningChunk,
    RefusalChunk,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallClosed,
    ToolCallOpened,
)
from turnwired.domain.run import Cursor
from turnwired.store.port import Changes, LogRow, Settlement
from turnwired.testing.provider import Step, fails, stopped, usage
from turnwired.testing.registry import Function
from turnwired.tools.port import ToolInvocation

CANCELLED = Failure(FailurePhase.MODEL, Reason.CANCELLED, "chaos")
WORDS = ("a", " ", "", "lorem ipsum ", "\u2028", "\U0001f600", "x" * 700, "{", '"', "\n\n")
NAMES = ("ok", "fails", "breaks", "dawdles", "hangs", "reports", "lingers", "client", "unknown", "")
ARGUMENTS = ("", "{}", '{"a": 1}', '{"a": ', "null", "[]", "x" * 500, '{"a": "\\ud800"}')


async def _never() -> None:
    await asyncio.Event().wait()


def _bug() -> None:
    raise KeyError("a bug of the driver")


@dataclass
class Chaos:
    """Draws everything from one generator."""

    random: random.Random

    def pause(self) -> Callable[[], Coroutine[Any, Any, None]]:
        """Some turns of the loop."""
        turns = self.random.choice((0, 1, 2, 5, 20))

        async def wait() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)

        return wait

    def script(self, answers: int = 12) -> list[list[Step]]:
        """More answers than a run takes."""
        return [self.answer() for _ in range(answers)]

    def answer(self) -> list[Step]:
        """One answer of a model, which may be anything."""
        rng = self.random
        steps: list[Step] = []
        if rng.random() < 0.15:
            steps.append(self.failure())
            return steps
        index = 0
        for _ in range(rng.randint(0, 5)):
            steps.append(self.items(index))
            index += rng.choice((0, 1, 1, 2))
            if rng.random() < 0.4:
                steps.append(self.pause())
        match rng.randint(0, 19):
            case 0:
                return steps  # the end of the stream without an end signal
            case 1:
                return [*steps, self.failure()]
            case 2:
                return [*steps, _never]
            case 3:
                return [*steps, _bug]  # type: ignore[list-item]
            case 4:
                return [*steps, [stopped(rng.choice(list(FinishReason)), "?")]]
            case 5:
                return [
                    *steps,
                    [stopped(), stopped(FinishReason.OUTPUT_LIMIT), usage(), usage(7, 1)],
                    [TextChunk(9, "late")],
                ]
            case _:
                return [*steps, [stopped(FinishReason.TOOL_CALLS, "tool_calls"), usage()]]

    def items(self, index: int) -> list[ModelItem]:
        """One batch."""
        rng = self.random
        word = rng.choice(WORDS)
        match rng.randint(0, 9):
            case 0:
                return []
            case 1:
                return [ReasoningChunk(index, word, rng.choice((b"", b"sig\x00\xff")))]
            case 2:
                return [RefusalChunk(index, word)]
            case 3 | 4 | 5:
                return [TextChunk(index, word), TextChunk(index, rng.choice(WORDS))]
            case 6:
                return [ToolArgumentsChunk(index, rng.choice(ARGUMENTS))]
            case _:
                items: list[ModelItem] = []
                for offset in range(rng.randint(1, 3)):
                    at = index + offset
                    items.append(ToolCallOpened(at, rng.choice(("", "same", f"p{at}")), rng.choice(NAMES)))
                    items.append(ToolArgumentsChunk(at, rng.choice(ARGUMENTS)))
                    if rng.random() < 0.8:
                        items.append(ToolCallClosed(at))
                return items

    def failure(self) -> ProviderError:
        """A failing call."""
        reason = self.random.choice((Reason.PROVIDER_NETWORK, Reason.PROVIDER_REJECTED, Reason.PROVIDER_TIMEOUT))
        return fails(reason, retryable=self.random.random() < 0.6, retry_after=self.random.choice((None, 0.0)))


@dataclass
class Tools:
    """Tools that do as they please; ``ran`` are the run and call ids of what was begun."""

    chaos: Chaos
    ran: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def functions(self) -> dict[str, Function]:
        """By routed name."""
        return {
            "ok": self._ok,
            "fails": self._fails,
            "breaks": self._breaks,
            "dawdles": self._dawdles,
            "hangs": self._hangs,
            "reports": self._reports,
            "lingers": self._lingers,
        }

    async def _ok(self, invocation: ToolInvocation) -> str:
        self.ran.append((invocation.run_id, invocation.call_id))
        return "ok"

    async def _fails(self, invocation: ToolInvocation) -> str:
        self.ran.append((invocation.run_id, invocation.call_id))
        raise ToolError(Failure(FailurePhase.TOOL, Reason.TOOL_FAILED, "it failed"))

    async def _breaks(self, invocation: ToolInvocation) -> str:
        self.ran.append((invocation.run_id, invocation.call_id))
        raise RecursionError("a fault below the registry")

    async def _dawdles(self, invocation: ToolInvocation) -> str:
        self.ran.append((invocation.run_id, invocation.call_id))
        try:
            await self.chaos.pause()()
        except asyncio.CancelledError:
            await self.chaos.pause()()  # takes its time to unwind
            raise
        return "x" * 3000

    async def _hangs(self, invocation: ToolInvocation) -> str:
        self.ran.append((invocation.run_id, invocation.call_id))
        await asyncio.Event().wait()
        return ""

    async def _lingers(self, invocation: ToolInvocation) -> str:
        """Time out, and end after all, which is told more than once; the run may be over by then."""
        self.ran.append((invocation.run_id, invocation.call_id))
        assert invocation.on_late is not None
        for _ in range(2):
            asyncio.get_running_loop().call_later(self.chaos.random.choice((0.0, 0.001, 0.02)), invocation.on_late)
        raise ToolError(Failure(FailurePhase.TOOL, Reason.TOOL_TIMEOUT, "it took too long"))

    async def _reports(self, invocation: ToolInvocation) -> str:
        self.ran.append((invocation.run_id, invocation.call_id))
        assert invocation.on_progress is not None
        for done in range(3):
            invocation.on_progress(done, 3.0, "on it")
            await self.chaos.pause()()
        asyncio.get_running_loop().call_soon(invocation.on_progress, 9.0, None, "after its end")
        return "reported"


@dataclass
class DyingStore(FaultyStore):
    """A store whose process dies: from then on nothing reaches it, and an append under way may or may not have."""

    chaos: Chaos = field(default_factory=lambda: Chaos(random.Random(0)))
    dead: bool = False
    die_after: int | None = None
    unreliable: float = 0.0

    def live_for(self, appends: int | None) -> None:
        """Live again, and die at the append after so many; None: never."""
        self.dead = self.fence = False
        self.die_after = appends

    async def append(self, row: LogRow, settlement: Settlement | None = None, changes: Changes | None = None) -> None:
        """Append, fail, or be cut off before or after."""
        rng = self.chaos.random
        if self.die_after is not None:
            self.die_after -= 1
            if self.die_after < 0:
                self.dead, self.die_after = True, None
                if rng.random() < 0.5:
                    await super().append(row, settlement, changes)
        if self.dead:
            self.fence = True
        elif rng.random() < self.unreliable:
            if rng.random() < 0.5:
                await super().append(row, settlement, changes)  # stored, and the answer is lost
            raise StoreUnavailable("chaos")
        await super().append(row, settlement, changes)


async def watcher(w: World, run_id: str, live: Reader, chaos: Chaos) -> tuple[int, Reader]:
    """Attach somewhere in what the live reader has seen, now, and follow to the end."""
    begun = chaos.random.randint(0, live.events[-1].sequence) if live.events else 0
    reader = Reader()
    await w.follow(run_id, reader, Cursor(1, begun) if begun else Cursor(), Visibility.DELTA)
    return begun, reader


async def meddle(w: World, run_id: str, live: Reader, chaos: Chaos) -> None:
    """Cancel the run when the live reader has seen a random number of events, if it lives that long."""
    count = chaos.random.randint(0, 25)
    async with live.seen:
        await live.seen.wait_for(lambda: len(live.events) >= count)
    for _ in range(chaos.random.choice((1, 1, 3))):
        await w.engine.cancel_run(CALLER, run_id, CANCELLED)
