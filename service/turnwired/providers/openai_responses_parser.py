"""The answer of a Responses endpoint, from bytes to model items. Does no I/O and does not know the request.

Takes streams, plain JSON bodies and error bodies of the OpenAI API and of the servers that resemble it. Source: OpenAI
API reference, "Responses" and "Streaming events", and recorded traffic for what servers do otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Failure, Reason
from turnwired.domain.generation import FinishReason, GenerationStopped, ModelItem, ResponseIdentified
from turnwired.providers.batch import BatchBuilder, has_content
from turnwired.providers.body import AnswerBody
from turnwired.providers.errors import WireError, protocol_error, provider_failure
from turnwired.providers.openai_chat_fields import is_error, loads, wire_error
from turnwired.providers.openai_responses_fields import dict_of, incomplete_reason, list_of, text_of, usage_of
from turnwired.providers.openai_responses_items import Channel, ItemTracker, Place, words_of
from turnwired.providers.sse import Event

_DELTAS = {
    "response.output_text.delta": Channel.TEXT,
    "response.refusal.delta": Channel.REFUSAL,
    "response.reasoning_summary_text.delta": Channel.SUMMARY,
    "response.reasoning_text.delta": Channel.REASONING,
    "response.function_call_arguments.delta": Channel.ARGUMENTS,
    "response.custom_tool_call_input.delta": Channel.ARGUMENTS,
}
# The event that says the whole of it, and the field that holds it: all that some servers send.
_WHOLES = {
    "response.output_text.done": (Channel.TEXT, "text"),
    "response.refusal.done": (Channel.REFUSAL, "refusal"),
    "response.reasoning_summary_text.done": (Channel.SUMMARY, "text"),
    "response.reasoning_text.done": (Channel.REASONING, "text"),
    "response.function_call_arguments.done": (Channel.ARGUMENTS, "arguments"),
    "response.custom_tool_call_input.done": (Channel.ARGUMENTS, "input"),
}
_ENDS = {
    "response.completed": "completed",
    "response.done": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
_UNFINISHED = frozenset({"queued", "in_progress"})


class _UsualDelta(msgspec.Struct, gc=False):
    type: str
    delta: str
    output_index: int = -1
    content_index: int = 0
    summary_index: int = 0
    item_id: str | None = None


class _ItemOf(msgspec.Struct, gc=False):
    item: msgspec.Raw


class _OutputOf(msgspec.Struct, gc=False):
    output: list[msgspec.Raw]


class _ResponseOf(msgspec.Struct, gc=False):
    response: _OutputOf


# Nearly every event is a delta of a few fields, padded with others. Decoding only those costs 0.5 us where decoding
# everything costs 1.5 us; whatever has no delta of text makes the typed decode fail and goes the general way.
_decode_delta = msgspec.json.Decoder(_UsualDelta).decode
_decode_item = msgspec.json.Decoder(_ItemOf).decode
_decode_output = msgspec.json.Decoder(_OutputOf).decode
_decode_response = msgspec.json.Decoder(_ResponseOf).decode


class ResponsesParser:
    """Parses one answer. ``feed`` each read, then ``finish`` at the end of the body.

    ``error`` is set when the provider reported one and ``broken`` when the body cannot be understood; what had come
    before is in the items, and nothing more will come. ``ended``: the answer is over, the rest of the body says
    nothing. ``finish_seen``: the provider said how the answer ended. ``content``: the last read brought something that
    the model produced, or a tool that the provider executes.
    """

    __slots__ = (
        "_batch",
        "_body",
        "_identified",
        "_items",
        "_key",
        "_place",
        "_progress",
        "_status",
        "broken",
        "content",
        "ended",
        "error",
        "finish_seen",
    )

    def __init__(self, status: int = 200) -> None:
        """``status``: the HTTP status; from 400 on the body is read as an error whatever it holds."""
        self._status = status
        self._batch = BatchBuilder()
        self._items = ItemTracker(self._batch)
        self._body = AnswerBody(status)
        self._identified = False
        self._progress = False
        self._key: tuple[str, int, int, int] | None = None
        self._place: Place = (Channel.TEXT, 0, 0)
        self.error: WireError | None = None
        self.broken: Failure | None = None
        self.ended = False
        self.finish_seen = False
        self.content = False

    @property
    def thinking(self) -> bool:
        """Whether the model reasons or the provider executes a tool of its own."""
        return self._items.silent

    def feed(self, data: bytes) -> list[ModelItem]:
        """The items that ``data`` completes."""
        self._progress = False
        if not self.ended:
            self._feed(data)
        items = self._batch.take()
        self.content = self._progress or has_content(items)
        return items

    def _feed(self, data: bytes) -> None:
        try:
            self._events(self._body.feed(data))
        except ProviderError as error:
            self._break(error)

    def finish(self) -> list[ModelItem]:
        """The items that the end of the body completes."""
        if self.ended:
            return []
        try:
            rest = self._body.end()
            if isinstance(rest, bytes):
                self._whole(rest)
            else:
                self._events(rest, at_end=True)
        except ProviderError as error:
            self._break(error)
        if not self.ended:
            self._over()
        return self._batch.take()

    def _events(self, events: list[Event], *, at_end: bool = False) -> None:
        grow = self._items.grow
        for name, data in events:
            try:
                event = _decode_delta(data)
            except (msgspec.DecodeError, RecursionError):
                pass
            else:
                index = event.output_index
                if index < 0:
                    index = self._items.position(event.item_id or "")
                key = (event.type, index, event.content_index, event.summary_index)
                if key == self._key or self._turn_to(key):
                    if event.delta:
                        grow(self._place, event.delta)
                    continue
            self._event(name, data, at_end=at_end)
            if self.ended:
                return

    def _turn_to(self, key: tuple[str, int, int, int]) -> bool:
        """Remember where the deltas go from here on; False for those that are none of the model's own words."""
        channel = _DELTAS.get(key[0])
        if channel is None:
            return False
        sub = key[3] if channel is Channel.SUMMARY else 0 if channel is Channel.ARGUMENTS else key[2]
        self._key, self._place = key, (channel, key[1], sub)
        return True

    def _event(self, name: bytes, data: bytes, *, at_end: bool) -> None:
        data = data.strip()
        if not data:
            return
        if data == b"[DONE]":
            self._over()
            return
        value = loads(data)
        if isinstance(value, dict):
            self._object(text_of(value.get("type")) or name.decode(errors="replace"), value, data)
        elif name == b"error":
            self._fail(wire_error(value if value is not None else data.decode(errors="replace"), self._status))
        elif not at_end:  # at the end it is an event that was cut, and the missing terminal event tells so
            raise protocol_error("The provider sent an event that is no JSON object.")

    def _object(self, kind: str, value: dict[str, Any], data: bytes) -> None:
        """One event of a stream. Kinds that are not known say nothing."""
        if kind in _ENDS:
            response = dict_of(value.get("response"))
            status = text_of(response.get("status"))
            if not status or status in _UNFINISHED:  # the event's own word is the newer one
                status = _ENDS[kind]
            self._response(response, status, lambda: _decode_response(data).response)
        elif kind in {"error", "response.error"} or (value.get("error") and not kind.startswith("response.")):
            self._fail(wire_error(value, self._status))
        elif "response" in value:
            self._identify(dict_of(value["response"]))
        elif kind == "response.output_item.added":
            self._progress = True
            item = dict_of(value.get("item"))
            self._items.added(self._position(value, item.get("id"), begins=True), item)
        elif kind == "response.output_item.done":
            self._progress = True
            item = dict_of(value.get("item"))
            self._items.finished(self._position(value, item.get("id")), item, _raw_item(data))
        elif kind in _WHOLES:
            channel, field = _WHOLES[kind]
            self._items.whole(self._place_of(value, channel), words_of(value.get(field)))
        elif kind in _DELTAS:  # one that the fast path could not read
            if text := words_of(value.get("delta")):
                self._items.grow(self._place_of(value, _DELTAS[kind]), text)
        elif kind.endswith((".delta", ".partial_image")):
            self._progress = True  # code, arguments and output of the provider's own tools

    def _place_of(self, value: dict[str, Any], channel: Channel) -> Place:
        found = value.get("summary_index" if channel is Channel.SUMMARY else "content_index")
        sub = found if isinstance(found, int) and channel is not Channel.ARGUMENTS else 0
        return channel, self._position(value, value.get("item_id")), sub

    def _position(self, value: dict[str, Any], item_id: object, *, begins: bool = False) -> int:
        index = value.get("output_index")
        if isinstance(index, int) and index >= 0:
            return index
        return self._items.position(text_of(item_id), begins=begins)

    def _whole(self, body: bytes) -> None:
        value = loads(body)
        if self._status >= 400:
            self._fail(wire_error(value if value is not None else body.decode(errors="replace"), self._status))
        elif isinstance(value, dict) and isinstance(value.get("output"), list):
            status = text_of(value.get("status")) or "completed"
            self._response(value, status, lambda: _decode_output(body))
        elif _is_failure(value):
            self._fail(wire_error(value, self._status))
        elif body[:1] == b"<":
            raise provider_failure(
                Reason.PROVIDER_PROTOCOL_ERROR, "The provider sent a web page instead of an answer: check the base URL."
            )
        else:
            raise protocol_error("The provider sent a body that is no response, or only a part of one.")

    def _response(self, response: dict[str, Any], status: str, decode: Callable[[], _OutputOf]) -> None:
        """The finished response: in a plain body all there is, in a stream what its events did not say."""
        self._identify(response)
        output = list_of(response.get("output"))
        if missing := self._items.missing(output):
            raw = _raw_list(decode, len(output))
            for index in missing:
                self._items.finished(index, output[index], raw[index])
        if isinstance(usage := response.get("usage"), dict):
            self._batch.usage(usage_of(usage))
        error = response.get("error")
        if status == "failed" or (error and status not in {"completed", "incomplete"}):
            self._fail(wire_error({"error": error} if error else {}, self._status))
        elif status in _UNFINISHED:
            self._over()  # a response that still runs in the background is no answer yet
        else:
            self._stop(response, status)

    def _stop(self, response: dict[str, Any], status: str) -> None:
        self.ended = self.finish_seen = True
        reason, word = FinishReason.STOP, status
        if status == "incomplete":
            reason, word = incomplete_reason(response)
        elif status == "cancelled":
            reason = FinishReason.ABORTED
        elif status != "completed":
            reason = FinishReason.OTHER
        elif self._items.called:
            reason = FinishReason.TOOL_CALLS
        elif self._items.refused:
            reason = FinishReason.REFUSAL
        self._items.close(ended=True, whole=status == "completed")
        self._batch.stop(GenerationStopped(reason, word))

    def _identify(self, response: dict[str, Any]) -> None:
        response_id, model = text_of(response.get("id")), text_of(response.get("model"))
        if not self._identified and (response_id or model):
            self._identified = True
            self._batch.add(ResponseIdentified(response_id, model))

    def _over(self) -> None:
        """The body ends without a word of how the answer ended."""
        self.ended = True
        self._items.close(ended=False)

    def _fail(self, error: WireError) -> None:
        self._over()
        self.error = error

    def _break(self, error: ProviderError) -> None:
        self.ended = True
        self.broken = error.failure


def _is_failure(value: object) -> bool:
    """Whether a body that is no response is an error: an object with or without envelope, or an array of it."""
    return bool(value.get("error")) or is_error(value) if isinstance(value, dict) else isinstance(value, list)


def _raw_item(data: bytes) -> str:
    """The item of an event word for word; empty when it is not valid JSON and so cannot be given back."""
    try:
        return _checked(_decode_item(data).item)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ""


def _raw_list(decode: Callable[[], _OutputOf], length: int) -> list[str]:
    try:
        return [_checked(item) for item in decode().output]
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return [""] * length


def _checked(item: msgspec.Raw) -> str:
    """The text of a raw value; skipping over it, msgspec had not looked at all of it, such as at numbers beyond all."""
    text = bytes(item)
    msgspec.json.decode(text)
    return text.decode()
