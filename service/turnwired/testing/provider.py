"""A scripted provider: plays model answers item by item, fails where told, and keeps the requests it got.

One script entry answers one model call, in order. A call beyond the script fails the test that made it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from turnwired.domain.errors import FieldViolation, ProviderError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.generation import (
    FinishReason,
    GenerationStopped,
    ModelItem,
    ReasoningChunk,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallClosed,
    ToolCallOpened,
    UsageReported,
)
from turnwired.domain.message import Blob, Data, Message, OpaqueBlock, Reasoning, Text, ToolCall, ToolResult
from turnwired.domain.tool import Tool
from turnwired.domain.usage import Usage, UsageSource, estimated_tokens
from turnwired.providers.port import CallLimits, ModelLimits, ModelRequest, ProviderInfo, TokenCount

Gate = Callable[[], Awaitable[object]]
"""Awaited between batches: an event to wait for, so that a test decides when the model goes on."""
Step = Sequence[ModelItem] | Gate | ProviderError
"""One batch of items, something to wait for, or how the call fails."""


def _nothing(request: ModelRequest) -> Sequence[FieldViolation]:
    del request
    return ()


@dataclass(slots=True)
class ScriptedProvider:
    """Plays ``script``; ``requests`` are the calls so far, ``closed`` how many answers were cut by the caller.

    ``refuses`` is the answer of ``check``, ``reports_usage`` what the provider is known to do; the script does it.
    """

    script: list[Sequence[Step]]
    name: str = "scripted"
    requests: list[ModelRequest] = field(default_factory=list[ModelRequest])
    closed: int = 0
    repeat_last: bool = False
    refuses: Callable[[ModelRequest], Sequence[FieldViolation]] = _nothing
    reports_usage: bool = True

    @property
    def info(self) -> ProviderInfo:
        """A provider with a wire of its own."""
        reports = self.reports_usage
        return ProviderInfo(
            self.name, "scripted", self.name, "127.0.0.1", 1, ("scripted-model",), reports_usage=reports
        )

    def encode_system(self, blocks: Sequence[str], tools: Sequence[Tool]) -> bytes:
        """System blocks as one JSON object."""
        return json.dumps({"role": "system", "blocks": list(blocks)}).encode() if blocks else b""

    def encode_message(self, message: Message) -> bytes:
        """Role and parts as one JSON object: enough to assert on."""
        return json.dumps(
            {"role": message.role.value, "parts": [_part(part.content) for part in message.parts]}
        ).encode()

    def encode_tools(self, tools: Sequence[Tool]) -> bytes:
        """The routed names."""
        return json.dumps([tool.ref.routed_name for tool in tools]).encode()

    def check(self, request: ModelRequest) -> Sequence[FieldViolation]:
        """What ``refuses`` says: nothing, unless a test wants it."""
        return self.refuses(request)

    def limits(self, model: str) -> ModelLimits:
        """None that it knows."""
        return ModelLimits()

    async def count_tokens(self, request: ModelRequest) -> TokenCount:
        """By size, as where nobody counts better."""
        size = len(request.system) + len(request.tools) + sum(map(len, request.messages))
        return TokenCount(estimated_tokens(size), "bytes / 4")

    async def measure(self, model: str, pieces: Sequence[bytes]) -> Sequence[int]:
        """A token for every four bytes of a message."""
        return [estimated_tokens(len(piece)) for piece in pieces]

    def messages(self, call: int) -> list[dict[str, object]]:
        """The messages of a request, decoded."""
        request = self.requests[call]
        pieces = (request.system, *request.messages) if request.system else request.messages
        decoded: list[dict[str, object]] = [json.loads(piece) for piece in pieces]
        return decoded

    async def generate(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelItem], None]:
        """Play the next entry of the script."""
        position = len(self.requests)
        self.requests.append(request)
        if position >= len(self.script) and not self.repeat_last:
            failure = Failure(FailurePhase.MODEL, Reason.INTERNAL, f"call {position + 1} is beyond the script")
            raise ProviderError(failure)
        silence = _Silence(request.limits)
        try:
            for step in self.script[min(position, len(self.script) - 1)]:
                if isinstance(step, ProviderError):
                    raise step
                if callable(step):
                    await silence.until(step)
                else:
                    yield step
                    silence.ended(step)
        except (GeneratorExit, asyncio.CancelledError):
            self.closed += 1
            raise

    async def aclose(self) -> None:
        """Nothing to close."""


_SILENT = "The scripted model was silent for longer than the limits of the call."


class _Silence:
    """Holds what a script waits for to the limits of the call, as a real provider does."""

    def __init__(self, limits: CallLimits) -> None:
        now = asyncio.get_running_loop().time()
        self._limits = limits
        self._end = None if limits.total is None else now + limits.total
        self._due = None if limits.first_event is None else now + limits.first_event

    def ended(self, items: Sequence[ModelItem]) -> None:
        """Something was said and taken: from now on it is silence in the middle of an answer."""
        thinks = bool(items) and isinstance(items[-1], ReasoningChunk) and self._limits.thinking_idle is not None
        longest = self._limits.thinking_idle if thinks else self._limits.idle
        self._due = None if longest is None else asyncio.get_running_loop().time() + longest

    async def until(self, gate: Gate) -> None:
        """Wait; raises PROVIDER_TIMEOUT when that takes longer than may be."""
        ends = [end for end in (self._end, self._due) if end is not None]
        limit = asyncio.timeout_at(min(ends, default=None))
        try:
            async with limit:
                await gate()
        except TimeoutError:
            if not limit.expired():
                raise  # the gate's own
            raise fails(Reason.PROVIDER_TIMEOUT, retryable=True, text=_SILENT) from None


def _part(content: object) -> object:
    match content:
        case Text(text):
            return text
        case ToolCall() as call:
            return {"call": call.call_id, "tool": call.tool.routed_name, "arguments": call.arguments_json}
        case ToolResult() as result:
            parts = [_part(part.content) for part in result.content]
            return {"result": result.call_id, "status": result.status.value, "content": parts}
        case Data(value):
            return {"json": value}
        case Reasoning() as thought:
            signature = thought.signature.decode(errors="replace")
            return {"reasoning": thought.text, "signature": signature, "of": thought.provider} | (
                {"redacted": True} if thought.redacted else {}
            )
        case OpaqueBlock(kind, value, provider):
            return {"native": kind, "value": value, "of": provider}
        case Blob(media_type, data):
            return {"file": media_type, "bytes": len(data)}
        case _:
            return type(content).__name__


def usage(input_tokens: int = 100, output_tokens: int = 20) -> UsageReported:
    """Usage as a provider reports it."""
    return UsageReported(Usage(input_tokens, output_tokens, source=UsageSource.PROVIDER))


def stopped(reason: FinishReason = FinishReason.STOP, word: str = "stop") -> GenerationStopped:
    """A positive end."""
    return GenerationStopped(reason, word)


def answer(*texts: str) -> list[Step]:
    """A whole answer: one batch per text, then a good end with usage."""
    batches: list[Step] = [[TextChunk(0, text)] for text in texts]
    return [*batches, [stopped(), usage()]]


def calls(*wanted: tuple[str, str]) -> list[Step]:
    """An answer that calls tools: pairs of name and arguments JSON, then finish ``tool_calls`` with usage."""
    items: list[ModelItem] = []
    for index, (name, arguments) in enumerate(wanted):
        items += [
            ToolCallOpened(index, f"provider_{index}", name),
            ToolArgumentsChunk(index, arguments),
            ToolCallClosed(index),
        ]
    return [items, [stopped(FinishReason.TOOL_CALLS, "tool_calls"), usage()]]


def fails(
    reason: Reason, *, retryable: bool = False, retry_after: float | None = None, text: str = "scripted"
) -> ProviderError:
    """A failing call."""
    return ProviderError(Failure(FailurePhase.MODEL, reason, text, retryable=retryable, retry_after=retry_after))
