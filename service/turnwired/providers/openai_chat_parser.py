"""The answer of a chat completions endpoint, from bytes to model items. Does no I/O and does not know the request.

Takes streams, plain JSON bodies and error bodies of the OpenAI API and of the many servers that resemble it. Source:
OpenAI API reference, "Chat completions", and recorded traffic for what servers do otherwise.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Failure, Reason
from turnwired.domain.generation import FinishReason, GenerationStopped, ModelItem, ResponseIdentified
from turnwired.providers.batch import BatchBuilder, PartKind, has_content
from turnwired.providers.errors import WireError, protocol_error, provider_failure
from turnwired.providers.openai_chat_calls import CallTracker
from turnwired.providers.openai_chat_fields import (
    dumps,
    is_error,
    joined_text,
    loads,
    reasoning_of,
    usage_of,
    wire_error,
)
from turnwired.providers.sse import Event, SSESplitter

MAX_BODY_BYTES = 32 * 1024 * 1024
_FINISH = {
    "stop": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "length": FinishReason.OUTPUT_LIMIT,
    "content_filter": FinishReason.REFUSAL,
    "refusal": FinishReason.REFUSAL,
}


class _UsualFunction(msgspec.Struct, gc=False):
    arguments: str
    name: None = None


class _UsualCall(msgspec.Struct, gc=False):
    index: int
    function: _UsualFunction
    id: None = None


class _UsualDelta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[_UsualCall, ...] | None = None
    refusal: None = None
    function_call: None = None
    reasoning_text: None = None


class _UsualChoice(msgspec.Struct, gc=False):
    delta: _UsualDelta
    index: Literal[0] = 0
    finish_reason: None = None


class _UsualChunk(msgspec.Struct, gc=False):
    choices: tuple[_UsualChoice]
    usage: None = None
    error: None = None
    x_groq: None = None


# Nearly every chunk has one choice with text or a fragment of arguments and nothing else to see. Decoding only that
# costs 0.6 us where decoding everything costs 2 us; whatever else a chunk has makes the typed decode fail, and the
# chunk goes the general way.
_decode_usual = msgspec.json.Decoder(_UsualChunk).decode


class ChatParser:
    """Parses one answer. ``feed`` each read, then ``finish`` at the end of the body.

    ``error`` is set when the provider reported one and ``broken`` when the body cannot be understood; what had come
    before is in the items, and nothing more will come. ``ended``: the answer is over, the rest of the body says
    nothing. ``finish_seen``: the provider gave its finish reason, though usage may follow. ``content``: the last read
    brought something that the model produced.
    """

    __slots__ = (
        "_batch",
        "_body",
        "_calls",
        "_finish",
        "_identified",
        "_refused",
        "_sse",
        "_started",
        "_status",
        "broken",
        "content",
        "ended",
        "error",
    )

    def __init__(self, status: int = 200) -> None:
        """``status``: the HTTP status; from 400 on the body is read as an error whatever it holds."""
        self._status = status
        self._batch = BatchBuilder()
        self._calls = CallTracker(self._batch)
        self._sse = SSESplitter()
        self._body: bytearray | None = bytearray() if status >= 400 else None
        self._started = status >= 400
        self._identified = False
        self._refused = False
        self._finish: str | None = None
        self.error: WireError | None = None
        self.broken: Failure | None = None
        self.ended = False
        self.content = False

    @property
    def finish_seen(self) -> bool:
        """Whether the provider said why it stopped."""
        return self._finish is not None

    @property
    def thinking(self) -> bool:
        """Whether reasoning was the last that came."""
        return self._batch.reasoning

    def feed(self, data: bytes) -> list[ModelItem]:
        """The items that ``data`` completes."""
        if not self.ended:
            self._feed(data)
        items = self._batch.take()
        self.content = has_content(items)
        return items

    def _feed(self, data: bytes) -> None:
        if not self._started:
            # The content type does not tell: some servers send none, or the wrong one.
            data = data.lstrip()
            if not data:
                return
            self._started = True
            if data[:1] in (b"{", b"[", b"<"):
                self._body = bytearray()
        try:
            if self._body is None:
                self._events(self._sse.feed(data))
            elif len(self._body) + len(data) > MAX_BODY_BYTES:
                raise protocol_error(f"The provider sent a body of more than {MAX_BODY_BYTES} bytes.")
            else:
                self._body += data
        except ProviderError as error:
            self._break(error)

    def finish(self) -> list[ModelItem]:
        """The items that the end of the body completes."""
        if self.ended:
            return []
        try:
            if self._body is not None:
                self._whole(bytes(self._body))
            else:
                self._events(self._sse.flush(), at_end=True)
        except ProviderError as error:
            self._break(error)
        if not self.ended:
            self._end()
        return self._batch.take()

    def _events(self, events: list[Event], *, at_end: bool = False) -> None:
        text = self._batch.text
        for name, data in events:
            if self._identified:
                try:
                    delta = _decode_usual(data).choices[0].delta
                except (msgspec.DecodeError, RecursionError):
                    pass
                else:
                    if reasoning := delta.reasoning_content or delta.reasoning:
                        text(PartKind.REASONING, reasoning)
                    if delta.content:
                        text(PartKind.TEXT, delta.content)
                    for call in delta.tool_calls or ():
                        self._calls.more(call.index, call.function.arguments)
                    continue
            self._event(name, data, at_end=at_end)
            if self.ended:
                return

    def _event(self, name: bytes, data: bytes, *, at_end: bool) -> None:
        data = data.strip()
        if not data:
            return
        if data == b"[DONE]":
            self._end()
            return
        value = loads(data)
        if isinstance(value, dict):
            self._object(value)
        elif name == b"error":
            self._fail(wire_error(value if value is not None else data.decode(errors="replace"), self._status))
        elif not at_end:  # at the end it is an event that was cut, and the missing finish reason tells so
            raise protocol_error("The provider sent an event that is no JSON object.")

    def _whole(self, body: bytes) -> None:
        value = loads(body)
        if self._status >= 400:
            self._fail(wire_error(value if value is not None else body.decode(errors="replace"), self._status))
        elif isinstance(value, dict) and ("choices" in value or "error" in value or is_error(value)):
            self._object(value)
        elif isinstance(value, list) and value:
            self._fail(wire_error(value, self._status))
        elif body[:1] == b"<":
            raise provider_failure(
                Reason.PROVIDER_PROTOCOL_ERROR, "The provider sent a web page instead of an answer: check the base URL."
            )
        else:
            raise protocol_error("The provider sent a body that is no JSON, or only a part of one.")

    def _object(self, value: dict[str, Any]) -> None:
        """One chunk of a stream, or the whole of a plain answer."""
        choices = value.get("choices")
        error = value.get("error")
        if not error and not isinstance(choices, list) and is_error(value):
            error = value
        self._identify(value)
        self._usage(value)
        if isinstance(choices, list):
            for choice in choices:
                if isinstance(choice, dict) and choice.get("index") in (0, None):
                    self._choice(choice)
        if error:
            self._fail(wire_error(value, self._status))
        elif self._finish == "error":
            self._fail(WireError(self._status, type="api_error"))

    def _choice(self, choice: dict[str, Any]) -> None:
        # Perplexity sends both in streams and in whole bodies; only the one that belongs there is filled.
        first, second = ("delta", "message") if self._body is None else ("message", "delta")
        delta = choice.get(first) or choice.get(second)
        if isinstance(delta, dict):
            self._delta(delta)
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            self._finish = finish

    def _delta(self, delta: dict[str, Any]) -> None:
        if reasoning := reasoning_of(delta):
            self._batch.text(PartKind.REASONING, reasoning)
        self._content(delta.get("content"))
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self._refused = True
            self._batch.text(PartKind.REFUSAL, refusal)
        calls = delta.get("tool_calls")
        if isinstance(calls, list):
            for call in calls:
                if isinstance(call, dict):
                    self._calls.fragment(call)
        legacy = delta.get("function_call")
        if isinstance(legacy, dict):
            self._calls.legacy(legacy)

    def _content(self, content: object) -> None:
        if isinstance(content, str):
            if content:
                self._batch.text(PartKind.TEXT, content)
        elif isinstance(content, list):
            for part in content:
                self._content_part(part)
        elif content is not None:  # Cloudflare: the structured answer as a value
            self._batch.text(PartKind.TEXT, dumps(content))

    def _content_part(self, part: object) -> None:
        if isinstance(part, str):
            self._content(part)
        elif isinstance(part, dict):
            thinking = part.get("thinking")
            if thinking:
                if reasoning := joined_text(thinking):
                    self._batch.text(PartKind.REASONING, reasoning)
            elif isinstance(text := part.get("text"), str):
                self._content(text)

    def _identify(self, value: dict[str, Any]) -> None:
        if self._identified:
            return
        response_id, model = value.get("id"), value.get("model")
        if (isinstance(response_id, str) and response_id) or (isinstance(model, str) and model):
            self._identified = True
            self._batch.add(
                ResponseIdentified(
                    response_id if isinstance(response_id, str) else "", model if isinstance(model, str) else ""
                )
            )

    def _usage(self, value: dict[str, Any]) -> None:
        usage = value.get("usage")
        if not isinstance(usage, dict):
            groq = value.get("x_groq")
            usage = groq.get("usage") if isinstance(groq, dict) else None
        if isinstance(usage, dict):
            self._batch.usage(usage_of(usage))

    def _end(self) -> None:
        self.ended = True
        self._calls.close(complete=self._finish is not None)
        if self._finish is not None:
            reason = _FINISH.get(self._finish, FinishReason.OTHER)
            if reason is FinishReason.STOP:
                if len(self._calls):
                    reason = FinishReason.TOOL_CALLS
                elif self._refused:
                    reason = FinishReason.REFUSAL
            self._batch.stop(GenerationStopped(reason, self._finish))

    def _fail(self, error: WireError) -> None:
        self.ended = True
        self._calls.close(complete=False)
        self.error = error

    def _break(self, error: ProviderError) -> None:
        self.ended = True
        self.broken = error.failure
