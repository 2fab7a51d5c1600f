"""Our wires hold to the provider's port, and the suite that says so notices adapters that do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from testkit.wires import CHAT, Bodies, served_by, spoken

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.generation import (
    FinishReason,
    GenerationStopped,
    ModelItem,
    TextChunk,
    ToolCallClosed,
    UsageReported,
)
from turnwired.domain.message import Message
from turnwired.providers.port import ModelRequest, ProviderInfo
from turnwired.testing import NotConforming, Served, Situation, name_of, provider_conformance
from turnwired.testing.provider_checks import PROVIDER_CHECKS, Check

pytestmark = pytest.mark.anyio

CHECKS = {name_of(check): check for check in PROVIDER_CHECKS}


@pytest.mark.requirement("KIT-20")
@pytest.mark.parametrize("check", PROVIDER_CHECKS, ids=name_of)
@pytest.mark.parametrize("bodies", spoken(), ids=lambda bodies: bodies.wire)
async def test_each_of_our_wires_conforms(bodies: Bodies, check: Check) -> None:
    await check(served_by(bodies))


class Broken:
    """The chat wire with a fault of a kind that adapters have."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __repr__(self) -> str:
        return repr(self._inner)


class Altering(Broken):
    """Alters the items of each batch."""

    def alter(self, items: Sequence[ModelItem]) -> Sequence[ModelItem]:
        return items

    async def generate(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelItem], None]:
        async with aclosing(self._inner.generate(request)) as batches:
            async for items in batches:
                yield self.alter(items)


class LosesText(Altering):
    def alter(self, items: Sequence[ModelItem]) -> Sequence[ModelItem]:
        return [item for item in items if not (isinstance(item, TextChunk) and item.text.startswith("W"))]


class StopsTwice(Altering):
    def alter(self, items: Sequence[ModelItem]) -> Sequence[ModelItem]:
        return [*items, *(item for item in items if isinstance(item, GenerationStopped))]


class ForgetsUsage(Altering):
    def alter(self, items: Sequence[ModelItem]) -> Sequence[ModelItem]:
        return [item for item in items if not isinstance(item, UsageReported)]


class NeverCloses(Altering):
    def alter(self, items: Sequence[ModelItem]) -> Sequence[ModelItem]:
        return [item for item in items if not isinstance(item, ToolCallClosed)]


class SaysStop(Altering):
    def alter(self, items: Sequence[ModelItem]) -> Sequence[ModelItem]:
        stop = GenerationStopped(FinishReason.STOP, "stop")
        return [stop if isinstance(item, GenerationStopped) else item for item in items]


class GuessesTheEnd(Broken):
    async def generate(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelItem], None]:
        stopped = False
        async with aclosing(self._inner.generate(request)) as batches:
            async for items in batches:
                stopped = stopped or any(isinstance(item, GenerationStopped) for item in items)
                yield items
        if not stopped:
            yield [GenerationStopped(FinishReason.STOP, "stop")]


class Buffers(Broken):
    async def generate(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelItem], None]:
        async with aclosing(self._inner.generate(request)) as batches:
            found = [items async for items in batches]
        for items in found:
            yield items


class Retries(Broken):
    async def generate(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelItem], None]:
        try:
            async with aclosing(self._inner.generate(request)) as batches:
                async for items in batches:
                    yield items
        except ProviderError:
            async with aclosing(self._inner.generate(request)) as batches:
                async for items in batches:
                    yield items


class Blabs(Broken):
    async def generate(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelItem], None]:
        try:
            async with aclosing(self._inner.generate(request)) as batches:
                async for items in batches:
                    yield items
        except ProviderError as error:
            quoted = f"{error.failure.message} The server said: my diary says hello"
            raise ProviderError(Failure(FailurePhase.MODEL, error.failure.reason, quoted)) from error


class Apologises(Broken):
    async def generate(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelItem], None]:
        try:
            async with aclosing(self._inner.generate(request)) as batches:
                async for items in batches:
                    yield items
        except ProviderError:
            yield [TextChunk(0, "Something went wrong, sorry."), GenerationStopped(FinishReason.STOP, "stop")]


class Untyped(Broken):
    async def generate(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelItem], None]:
        try:
            async with aclosing(self._inner.generate(request)) as batches:
                async for items in batches:
                    yield items
        except ProviderError as error:
            raise ProviderError(Failure(FailurePhase.MODEL, Reason.INTERNAL, "failed")) from error


class Leaks(Broken):
    """Reads on in a task of its own, whoever has gone."""

    async def generate(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelItem], None]:
        found: asyncio.Queue[Sequence[ModelItem] | None] = asyncio.Queue()

        async def read() -> None:
            try:
                async with aclosing(self._inner.generate(request)) as batches:
                    async for items in batches:
                        found.put_nowait(items)
            finally:
                found.put_nowait(None)

        LEAKED.append(asyncio.create_task(read()))
        while (items := await found.get()) is not None:
            yield items


LEAKED: list[asyncio.Task[None]] = []


class Counts(Broken):
    """Numbers its messages, so that no two encodings are equal."""

    def encode_message(self, message: Message) -> bytes:
        Counts.number += 1
        encoded: bytes = self._inner.encode_message(message)
        return encoded[:-1] + b',"number":%d}' % Counts.number

    number = 0


class ShowsItsKey(Broken):
    @property
    def info(self) -> ProviderInfo:
        return ProviderInfo("p", "w", "t", "h", 1, hint="conformance-key-0123456789")


FAULTS: list[tuple[type[Broken], str]] = [
    (LosesText, "text_is_streamed_and_ends_once"),
    (StopsTwice, "text_is_streamed_and_ends_once"),
    (ForgetsUsage, "text_is_streamed_and_ends_once"),
    (Buffers, "pieces_are_given_as_they_come"),
    (NeverCloses, "calls_are_whole"),
    (SaysStop, "calls_are_whole"),
    (SaysStop, "the_output_limit_is_told"),
    (GuessesTheEnd, "a_cut_answer_is_no_good_end"),
    (Apologises, "nonsense_is_a_typed_failure_or_no_end"),
    (Apologises, "a_rejected_key_is_typed"),
    (Retries, "a_rate_limit_is_typed_and_not_retried"),
    (Untyped, "a_rate_limit_is_typed_and_not_retried"),
    (Blabs, "a_rejected_key_is_typed"),
    (Untyped, "silence_ends_in_time"),
    (Leaks, "closing_the_stream_closes_the_connection"),
    (Leaks, "cancelling_closes_the_connection"),
    (LosesText, "calls_at_once_do_not_mix"),
    (Counts, "encoding_is_json_and_always_the_same"),
    (ShowsItsKey, "it_says_what_it_is_and_counts"),
]


@pytest.mark.requirement("KIT-21")
@pytest.mark.parametrize(("fault", "check"), FAULTS, ids=lambda item: getattr(item, "__name__", item))
async def test_the_suite_notices_an_adapter_that_breaks_a_rule(
    fault: type[Broken], check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnwired.testing.conformance.CHECK_SECONDS", 1.0)
    chat = served_by(CHAT)

    @asynccontextmanager
    async def serve(situation: Situation) -> AsyncIterator[Served]:
        async with chat(situation) as served:
            broken: Any = fault(served.provider)
            yield Served(broken, served.model, served.secret, served.calls, served.gone)

    try:
        with pytest.raises(NotConforming):
            await CHECKS[check](serve)
    finally:
        for task in LEAKED:
            task.cancel()
        await asyncio.gather(*LEAKED, return_exceptions=True)
        LEAKED.clear()


@pytest.mark.requirement("KIT-21")
async def test_all_checks_at_once_name_those_that_fail() -> None:
    chat = served_by(CHAT)

    @asynccontextmanager
    async def serve(situation: Situation) -> AsyncIterator[Served]:
        async with chat(situation) as served:
            broken: Any = LosesText(served.provider)
            yield Served(broken, served.model, served.secret, served.calls, served.gone)

    with pytest.raises(ExceptionGroup, match=f"3 of {len(PROVIDER_CHECKS)} checks failed") as failed:
        await provider_conformance(serve)
    notes = {note for error in failed.value.exceptions for note in error.__notes__}
    assert notes == {"text_is_streamed_and_ends_once", "calls_at_once_do_not_mix", "a_cut_answer_is_no_good_end"}
    await provider_conformance(chat)
