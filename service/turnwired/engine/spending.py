"""One model call under budgets: sized, admitted, and its answer cut where they end. Knows providers by their port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from turnwired.domain.generation import (
    GenerationStopped,
    ModelItem,
    NativeItem,
    ReasoningChunk,
    RefusalChunk,
    TextChunk,
    ToolArgumentsChunk,
    UsageReported,
)
from turnwired.domain.outcome import LimitTrip
from turnwired.domain.usage import BYTES_PER_TOKEN, estimated_tokens
from turnwired.engine.budgets import Hold, Purse
from turnwired.engine.measure import request_size
from turnwired.providers.port import CallLimits, ModelProvider, ModelRequest

COUNT_SECONDS = 5.0
"""How long a provider's token counter may take, near a limit."""


async def admit(
    purse: Purse, provider: ModelProvider, request: ModelRequest
) -> tuple[ModelRequest, BudgetedCall] | LimitTrip:
    """Reserve what the call may use. The request comes back with the output limit that is left for it."""
    most = purse.most_output if request.max_output_tokens is None else request.max_output_tokens
    tokens, exact = estimated_tokens(request_size(request)), False
    if purse.is_near(tokens, most):
        counted = await provider.count_tokens(replace(request, limits=CallLimits(total=COUNT_SECONDS)))
        tokens, exact = counted.tokens, counted.exact
    hold = purse.reserve(tokens, most, exact=exact)
    if isinstance(hold, LimitTrip):
        return hold
    if hold.told is not None:
        request = replace(request, max_output_tokens=hold.told)
        if provider.check(request):  # such as reasoning that does not fit into what is left
            purse.release()
            return hold.trip
    return request, BudgetedCall(purse, hold)


class BudgetedCall:
    """The answer of one model call as it comes. ``trip`` is set when it was cut."""

    def __init__(self, purse: Purse, hold: Hold) -> None:
        self.trip: LimitTrip | None = None
        self._purse = purse
        self._hold = hold
        self._reported = 0
        self._size = 0

    @property
    def input_tokens(self) -> int:
        """The size of the request as it was counted."""
        return self._hold.input

    @property
    def cap(self) -> LimitTrip | None:
        """What an output limit of the provider means, if a budget has set it."""
        return self._hold.trip if self._hold.told is not None else None

    async def guard(
        self, answer: AsyncGenerator[Sequence[ModelItem], None]
    ) -> AsyncGenerator[Sequence[ModelItem], None]:
        """The answer as far as the budgets last. Raises what the answer raises."""
        seconds = self._hold.seconds
        end = None if seconds is None else asyncio.get_running_loop().time() + seconds
        async with aclosing(answer):
            while self.trip is None:
                timer = asyncio.timeout_at(end)
                try:
                    async with timer:
                        items = await anext(answer)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    if not timer.expired():
                        raise
                    self.trip = self._purse.cut()
                    return
                yield self.take(items)

    def take(self, items: Sequence[ModelItem]) -> Sequence[ModelItem]:
        """What of a batch the budgets cover; ``trip`` is set when that is not all of it.

        A count of the provider is believed before an estimate: an answer that came whole and fits is not cut.
        """
        before = self._reported, self._size
        for item in items:
            self._add(item)
        missing = self._used - self._hold.output
        if missing <= 0 or self._purse.more(self._hold, missing) >= missing:
            return items
        self._reported, self._size = before
        kept = self._fitting(items)
        self.trip = self._purse.cut()
        return kept

    @property
    def _used(self) -> int:
        return self._reported + estimated_tokens(self._size)

    def _add(self, item: ModelItem) -> None:
        if isinstance(item, UsageReported):
            if item.usage.output_tokens is not None:
                self._reported, self._size = item.usage.output_tokens, 0
            if item.usage.input_tokens is not None and item.usage.input_tokens != self._hold.input:
                self._purse.input_is(self._hold, item.usage.input_tokens, self._used)
        else:
            self._size += _size(item)

    def _fitting(self, items: Sequence[ModelItem]) -> list[ModelItem]:
        """The items until the reservation is used up, the one there cut, and what the provider reports of usage."""
        kept: list[ModelItem] = []
        room = max(0, self._hold.output - self._reported) * BYTES_PER_TOKEN - self._size
        for item in items:
            if isinstance(item, UsageReported):
                kept.append(item)
                continue
            if room < 0 or isinstance(item, GenerationStopped):
                continue
            size = _size(item)
            part = item if size <= room else _cut(item, room)
            room -= size
            if part is not None:
                kept.append(part)
                self._size += _size(part)
        return kept


def _size(item: ModelItem) -> int:
    """Bytes of UTF-8 of what the model wrote."""
    match item:
        case TextChunk(text=text) | ReasoningChunk(text=text) | RefusalChunk(text=text):
            return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
        case ToolArgumentsChunk():
            return len(item.fragment) if item.fragment.isascii() else len(item.fragment.encode(errors="surrogatepass"))
        case NativeItem():
            return len(item.json)
        case _:
            return 0


def _cut(item: ModelItem, size: int) -> ModelItem | None:
    match item:
        case TextChunk() | ReasoningChunk() | RefusalChunk():
            text = _start(item.text, size)
            return replace(item, text=text) if text else None
        case ToolArgumentsChunk():
            fragment = _start(item.fragment, size)
            return replace(item, fragment=fragment) if fragment else None
        case _:
            return None


def _start(text: str, size: int) -> str:
    return text.encode(errors="surrogatepass")[:size].decode(errors="ignore")
