"""A channel and how often it has lost its connection, by which a lost call is told from one that was refused."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import anyio
import grpc.aio


class Losses:
    """How often a channel has lost its connection, though it may have another by now."""

    def __init__(self) -> None:
        self.count = 0
        self._more = asyncio.Event()

    def add(self) -> None:
        """One more."""
        self.count += 1
        self._more.set()
        self._more = asyncio.Event()

    async def more_than(self, count: int, within: float) -> bool:
        """Whether there are more, or there will be within so many seconds."""
        if self.count == count:
            with anyio.move_on_after(within):
                await self._more.wait()
        return self.count != count


@dataclass(frozen=True, slots=True)
class Line:
    """A channel, and how often it has lost its connection."""

    channel: grpc.aio.Channel
    losses: Losses
