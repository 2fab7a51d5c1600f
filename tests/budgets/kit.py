"""What tests of budgets share: prices, a provider that counts honestly, and policies in one line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from turnwired.domain.generation import TextChunk
from turnwired.domain.model import ModelSelection
from turnwired.domain.policy import BudgetPolicy, Policy
from turnwired.domain.usage import Cost, Usage, UsageSource, estimated_tokens
from turnwired.engine.measure import request_size
from turnwired.engine.ports import PriceOf
from turnwired.policy.ratecard import Rate
from turnwired.providers.port import ModelRequest, TokenCount
from turnwired.testing.provider import ScriptedProvider, Step, stopped, usage

USD = 10**9
PER_TOKEN = Rate(Decimal(1), Decimal(4))
"""Money per million tokens: 1,000 nanos a token of input, 4,000 a token of output."""
PER_TIME = Rate(gpu_ms=Decimal("0.001"))
"""A dollar a second."""


def priced(rate: Rate) -> PriceOf:
    """The price of every model."""

    async def price_of(model: ModelSelection) -> Callable[[Usage, int], Cost | None]:
        return lambda usage, duration_ns: rate.price(usage, duration_ns, "test")

    return price_of


@dataclass(slots=True)
class Counting(ScriptedProvider):
    """Counts input by its size, and says that it is sure; ``asked`` counts how often."""

    asked: int = 0
    answers: int | None = None

    async def count_tokens(self, request: ModelRequest) -> TokenCount:
        """Bytes / 4, or what the test says."""
        self.asked += 1
        size = estimated_tokens(request_size(request))
        return TokenCount(size if self.answers is None else self.answers, "the test", exact=True)


class Gate:
    """A step of a script that waits until the test opens it, and says how many calls have come to it."""

    def __init__(self) -> None:
        self._opened = asyncio.Event()
        self._came = asyncio.Condition()
        self._count = 0

    async def __call__(self) -> None:
        """Wait here."""
        async with self._came:
            self._count += 1
            self._came.notify_all()
        await self._opened.wait()

    async def reached(self, calls: int = 1) -> None:
        """Return when so many calls have come."""
        async with self._came:
            await self._came.wait_for(lambda: self._count >= calls)

    def open(self) -> None:
        """Let all of them go on."""
        self._opened.set()


def budget(**caps: int | Cost) -> Policy:
    """A policy of budgets alone."""
    return Policy(budget=BudgetPolicy(**caps))  # type: ignore[arg-type]


def used(input_tokens: int, output_tokens: int) -> Usage:
    """Usage as a provider reports it."""
    return Usage(input_tokens, output_tokens, source=UsageSource.PROVIDER)


def says(text: str, input_tokens: int = 100, output_tokens: int = 20) -> list[Step]:
    """A whole answer with its usage."""
    return [[TextChunk(0, text)], [stopped(), usage(input_tokens, output_tokens)]]


def streams(*texts: str) -> list[Step]:
    """An answer in pieces that ends well, and says nothing of its usage."""
    return [*([TextChunk(0, text)] for text in texts), [stopped()]]
