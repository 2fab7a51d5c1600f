"""The conformance suite of model providers: what every ``ModelProvider`` owes the engine, whatever wire it speaks.

The author of an adapter writes one function, ``serve(situation)``: a context manager that starts a server which answers
in the adapter's own wire as the situation says, and gives the adapter set to it. Each check is a test of its own:

    @pytest.mark.parametrize("check", PROVIDER_CHECKS, ids=name_of)
    async def test_my_provider_conforms(check): await check(serve)

The rules are those of ``turnwired.providers.port``. Knows no wire.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, replace
from enum import StrEnum

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Failure, Reason
from turnwired.domain.generation import (
    FinishReason,
    GenerationStopped,
    ModelItem,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallClosed,
    ToolCallOpened,
    UsageReported,
)
from turnwired.domain.message import Message, OpaqueBlock, Part, Reasoning, Role, Text, ToolCall, ToolResult
from turnwired.domain.message import ToolResultStatus as Status
from turnwired.domain.tool import Tool, ToolRef, ToolSource
from turnwired.providers.port import CallLimits, ModelProvider, ModelRequest
from turnwired.testing.conformance import bounded, require, run_all

WORDS = ("Hello, ", "Wörld ", "✓")
"""The answer's text in the situations that have one, in these pieces."""
CALLS = (("look_up", {"key": "a"}), ("look_up", {"key": "b"}))
"""The calls of CALLS: name and arguments, each fragmented as the wire does it."""
PRIVATE = "my diary says"
"""Begins every prompt; servers quote it in the messages of their errors, and nobody may repeat it."""
RETRY_SECONDS = 7.0
"""What the server of RATE_LIMITED asks the caller to wait."""
SILENCE_SECONDS = 0.3


class Situation(StrEnum):
    """What the server behind the adapter does with every call."""

    TEXT = "TEXT"
    """Streams WORDS, one piece at a time, reports usage and ends well."""
    CALLS = "CALLS"
    """Makes the two calls of CALLS, reports usage and ends well."""
    CUT = "CUT"
    """Streams WORDS and ends the body without an end signal."""
    TRUNCATED = "TRUNCATED"
    """Streams WORDS and says that the output limit was reached."""
    HANG = "HANG"
    """Streams the first of WORDS and then nothing more until the client goes away; sets ``gone`` then."""
    RATE_LIMITED = "RATE_LIMITED"
    """Refuses as its wire does, for too many requests; asks for RETRY_SECONDS of patience; quotes PRIVATE."""
    KEY_REJECTED = "KEY_REJECTED"
    """Refuses the credential, quoting it and PRIVATE."""
    NONSENSE = "NONSENSE"
    """Answers 200 with a body that is nothing of its wire."""


@dataclass(frozen=True, slots=True)
class Served:
    """An adapter set to a server. ``secret`` is its credential; ``calls`` says how many calls the server has seen."""

    provider: ModelProvider
    model: str
    secret: str
    calls: Callable[[], int]
    gone: asyncio.Event


Serve = Callable[[Situation], AbstractAsyncContextManager[Served]]
Check = Callable[[Serve], Awaitable[None]]


def sample_tool() -> Tool:
    """The tool that CALLS calls."""
    schema = '{"type":"object","properties":{"key":{"type":"string"}},"required":["key"],"additionalProperties":false}'
    return Tool(ToolRef("look_up", "look_up", ToolSource.LOCAL), "Looks a key up.", schema)


def sample_request(served: Served, **changes: object) -> ModelRequest:
    """A request with a system block, a tool and a prompt that begins with PRIVATE."""
    provider, tools = served.provider, (sample_tool(),)
    request = ModelRequest(
        model=served.model,
        messages=[provider.encode_message(Message(Role.USER, (Part("p1", Text(f"{PRIVATE} hello")),)))],
        system=provider.encode_system(["Be brief."], tools),
        tools=provider.encode_tools(tools),
        offered=tools,
        max_output_tokens=1000,
        limits=CallLimits(total=15.0),
    )
    return replace(request, **changes)  # type: ignore[arg-type]


async def _play(served: Served, request: ModelRequest | None = None) -> tuple[list[ModelItem], Failure | None]:
    items: list[ModelItem] = []
    try:
        async with aclosing(served.provider.generate(request or sample_request(served))) as batches:
            async for batch in batches:
                items += batch
    except ProviderError as error:
        _discreet(served, error)
        return items, error.failure
    return items, None


def _discreet(served: Served, error: ProviderError) -> None:
    for shown in (str(error), repr(error), repr(error.failure)):
        require(served.secret not in shown, "a failure never shows the credential")
        require(PRIVATE not in shown, "a failure never repeats the prompt, nor what the server says of it")


def _text(items: Sequence[ModelItem]) -> str:
    return "".join(item.text for item in items if isinstance(item, TextChunk))


def _stops(items: Sequence[ModelItem]) -> list[GenerationStopped]:
    return [item for item in items if isinstance(item, GenerationStopped)]


@bounded
async def text_is_streamed_and_ends_once(serve: Serve) -> None:
    """Text comes whole and in order, with usage and exactly one good end."""
    async with serve(Situation.TEXT) as served:
        items, failure = await _play(served)
    require(failure is None, f"a good answer does not fail: {failure}")
    require(_text(items) == "".join(WORDS), f"the text comes whole and in order: {_text(items)!r}")
    stops = _stops(items)
    require(len(stops) == 1 and stops[0].reason is FinishReason.STOP, f"a good end is told once, as STOP: {stops}")
    usages = [item.usage for item in items if isinstance(item, UsageReported)]
    require(usages and usages[-1].input_tokens and usages[-1].output_tokens, f"usage is reported: {usages}")


@bounded
async def pieces_are_given_as_they_come(serve: Serve) -> None:
    """What the server has said is given before it says more."""
    async with (
        serve(Situation.HANG) as served,
        aclosing(served.provider.generate(sample_request(served))) as batches,
    ):
        async for batch in batches:
            if _text(batch):
                require(_text(batch) == WORDS[0], f"the first piece comes alone: {_text(batch)!r}")
                return
    require(holds=False, rule="the first piece comes before the answer is over")


@bounded
async def calls_are_whole(serve: Serve) -> None:
    """Calls come with unique indexes, whole JSON, one end each, and the reason TOOL_CALLS."""
    async with serve(Situation.CALLS) as served:
        items, failure = await _play(served)
    require(failure is None, f"calls do not fail: {failure}")
    opened = [item for item in items if isinstance(item, ToolCallOpened)]
    indexes = [item.index for item in opened]
    require([item.name for item in opened] == [name for name, _ in CALLS], f"calls are opened in order: {opened}")
    require(len(set(indexes)) == len(CALLS), f"each call has an index of its own: {indexes}")
    for index, (_, arguments) in zip(indexes, CALLS, strict=True):
        own = [item for item in items if getattr(item, "index", None) == index]
        words = "".join(item.fragment for item in own if isinstance(item, ToolArgumentsChunk))
        require(isinstance(own[0], ToolCallOpened), "a call is opened before its arguments come")
        require(json.loads(words or "null") == arguments, f"arguments come whole: {words!r}")
        closed = [place for place, item in enumerate(own) if isinstance(item, ToolCallClosed)]
        last = max(place for place, item in enumerate(own) if isinstance(item, ToolArgumentsChunk))
        require(len(closed) == 1 and closed[0] > last, "a call is closed once, after its arguments")
    stops = _stops(items)
    require([stop.reason for stop in stops] == [FinishReason.TOOL_CALLS], f"the reason is TOOL_CALLS: {stops}")


@bounded
async def a_cut_answer_is_no_good_end(serve: Serve) -> None:
    """A body that ends without an end signal gives no end signal, and keeps what came."""
    async with serve(Situation.CUT) as served:
        items, _ = await _play(served)
    require(not _stops(items), f"an end is never guessed: {_stops(items)}")
    require(_text(items) == "".join(WORDS), f"what came before the cut is given: {_text(items)!r}")


@bounded
async def the_output_limit_is_told(serve: Serve) -> None:
    """An answer that was cut by the output limit says OUTPUT_LIMIT."""
    async with serve(Situation.TRUNCATED) as served:
        items, _ = await _play(served)
    reasons = [stop.reason for stop in _stops(items)]
    require(reasons == [FinishReason.OUTPUT_LIMIT], f"the reason is OUTPUT_LIMIT: {reasons}")


@bounded
async def a_rate_limit_is_typed_and_not_retried(serve: Serve) -> None:
    """Too many requests: retryable, with the server's patience, after one call."""
    async with serve(Situation.RATE_LIMITED) as served:
        _, failure = await _play(served)
        calls = served.calls()
    require(failure is not None, "a refusal is a ProviderError")
    assert failure is not None
    require(failure.reason is Reason.PROVIDER_RATE_LIMITED, f"the reason is PROVIDER_RATE_LIMITED: {failure.reason}")
    require(failure.retryable, "a rate limit may be tried again")
    require(failure.retry_after == RETRY_SECONDS, f"the server's wait is told: {failure.retry_after}")
    require(calls == 1, f"a provider retries nothing: the server saw {calls} calls")


@bounded
async def a_rejected_key_is_typed(serve: Serve) -> None:
    """A credential that the server refuses: PROVIDER_AUTH_FAILED, shown to nobody."""
    async with serve(Situation.KEY_REJECTED) as served:
        _, failure = await _play(served)
    require(failure is not None and failure.reason is Reason.PROVIDER_AUTH_FAILED, f"AUTH_FAILED is told: {failure}")


@bounded
async def nonsense_is_a_typed_failure_or_no_end(serve: Serve) -> None:
    """A body that is nothing of the wire gives no text, no call and no good end."""
    async with serve(Situation.NONSENSE) as served:
        items, _ = await _play(served)
    made = [item for item in items if isinstance(item, (TextChunk, ToolCallOpened, GenerationStopped))]
    require(not made, f"nothing is made of a body that cannot be read: {made}")


@bounded
async def closing_the_stream_closes_the_connection(serve: Serve) -> None:
    """A caller that stops reading ends the call at the server."""
    async with serve(Situation.HANG) as served:
        async with aclosing(served.provider.generate(sample_request(served))) as batches:
            async for _ in batches:
                break
        await served.gone.wait()


@bounded
async def cancelling_closes_the_connection(serve: Serve) -> None:
    """A cancelled task ends the call at the server, and nothing swallows the cancellation."""
    async with serve(Situation.HANG) as served:
        begun = asyncio.Event()

        async def read() -> None:
            async with aclosing(served.provider.generate(sample_request(served))) as batches:
                async for _ in batches:
                    begun.set()

        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])
        require(task.cancelled(), "a cancellation is not swallowed")
        await served.gone.wait()


@bounded
async def silence_ends_in_time(serve: Serve) -> None:
    """The limits of a call are kept: more silence than ``idle``, or more time than ``total``, is PROVIDER_TIMEOUT."""
    for limits in (CallLimits(total=15.0, idle=SILENCE_SECONDS), CallLimits(total=SILENCE_SECONDS)):
        async with serve(Situation.HANG) as served:
            _, failure = await _play(served, sample_request(served, limits=limits))
        kept = failure is not None and failure.reason is Reason.PROVIDER_TIMEOUT
        require(kept, f"a call keeps to {limits}: {failure}")


@bounded
async def calls_at_once_do_not_mix(serve: Serve) -> None:
    """Concurrent calls each get their own answer, whole."""
    async with serve(Situation.TEXT) as served:
        answers = await asyncio.gather(*(_play(served) for _ in range(8)))
    texts = {_text(items) for items, _ in answers}
    require(texts == {"".join(WORDS)}, f"calls do not mix: {texts}")


@bounded
async def encoding_is_json_and_always_the_same(serve: Serve) -> None:
    """Every message is JSON objects joined by commas, the same bytes each time; foreign parts are left out."""
    call = ToolCall("call_1", sample_tool().ref, '{"key":"a"}')
    result = ToolResult("call_1", Status.OK, (Part("p", Text("found")),))
    foreign = (
        Reasoning("secret thoughts", b"signature", "another provider"),
        OpaqueBlock("another_kind", '{"foreign":true}', "another provider"),
    )
    messages = (
        Message(Role.USER, (Part("p", Text("Wörld \u2028 \x00")),)),
        Message(Role.ASSISTANT, (*(Part("p", item) for item in foreign), Part("p", Text("yes")), Part("p", call))),
        Message(Role.TOOL, (Part("p", result),)),
    )
    async with serve(Situation.TEXT) as served:
        provider = served.provider
        for message in messages:
            once, twice = provider.encode_message(message), provider.encode_message(message)
            require(once == twice, "encoding is deterministic: prompt caches live from equal bytes")
            pieces = json.loads(b"[" + once + b"]")
            require(pieces and all(isinstance(piece, dict) for piece in pieces), f"JSON objects, joined: {once!r}")
            require(b"secret thoughts" not in once and b"foreign" not in once, "another provider's parts are left out")
        tools = provider.encode_tools((sample_tool(),))
        require(isinstance(json.loads(tools), list), f"tools are a JSON array: {tools!r}")
        require(tools == provider.encode_tools((sample_tool(),)), "encoding tools is deterministic")


@bounded
async def it_says_what_it_is_and_counts(serve: Serve) -> None:
    """``info`` holds no credential; ``limits``, ``check`` and ``count_tokens`` answer."""
    async with serve(Situation.TEXT) as served:
        provider = served.provider
        require(served.secret not in repr(provider.info) + repr(provider), "info and repr show no credential")
        require(provider.info.name and provider.info.configured, f"it has a name and is configured: {provider.info}")
        require(not provider.check(sample_request(served)), "a plain request is taken")
        provider.limits(served.model)
        count = await provider.count_tokens(sample_request(served))
        require(count.tokens > 0 and count.method, f"tokens are counted, and it is said how: {count}")


@bounded
async def closing_is_bounded_and_may_be_repeated(serve: Serve) -> None:
    """``aclose`` returns, also a second time."""
    async with serve(Situation.TEXT) as served:
        await _play(served)
        await served.provider.aclose()
        await served.provider.aclose()


PROVIDER_CHECKS: tuple[Check, ...] = (
    text_is_streamed_and_ends_once,
    pieces_are_given_as_they_come,
    calls_are_whole,
    a_cut_answer_is_no_good_end,
    the_output_limit_is_told,
    a_rate_limit_is_typed_and_not_retried,
    a_rejected_key_is_typed,
    nonsense_is_a_typed_failure_or_no_end,
    closing_the_stream_closes_the_connection,
    cancelling_closes_the_connection,
    silence_ends_in_time,
    calls_at_once_do_not_mix,
    encoding_is_json_and_always_the_same,
    it_says_what_it_is_and_counts,
    closing_is_bounded_and_may_be_repeated,
)


async def provider_conformance(serve: Serve) -> None:
    """All checks. Raises ExceptionGroup with every one that fails."""
    await run_all(PROVIDER_CHECKS, serve)
