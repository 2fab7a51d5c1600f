"""The answer of a chat completions endpoint, from bytes to model items. Does no I/O and does not know the request.

Takes streams, plain JSON bodies and error bodies of the OpenAI API and of the many servers that resemble it. Source:
OpenAI API reference, "Chat completions", and recorded traffic for what servers do otherwise.
"""

from __future__ import annotations

from typing import Any

import msgspec

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Failure, Reason
from turnwired.domain.generation import (
    FinishReason,
    GenerationStopped,
    Irregularity,
    IrregularityFound,
    MediaProduced,
    ModelItem,
    ResponseIdentified,
)
from turnwired.providers.batch import BatchBuilder, PartKind, has_content
from turnwired.providers.body import AnswerBody
from turnwired.providers.errors import WireError, protocol_error, provider_failure
from turnwired.providers.openai_chat_calls import CallTracker
from turnwired.providers.openai_chat_fields import (
    USUAL_FORM,
    AnswerForm,
    dumps,
    is_error,
    joined_text,
    loads,
    reasoning_of,
    usage_of,
    wire_error,
)
from turnwired.providers.openai_chat_media import image_of
from turnwired.providers.openai_chat_native import KeptNatives
from turnwired.providers.openai_chat_usual import UsualChunk, usual_decoders
from turnwired.providers.profiles import StreamEnd, UsageArrival
from turnwired.providers.sse import Event

MAX_IMAGES = 256
UNFINISHED = "The answer ended without a finish reason. It was taken as whole, as the provider's stream_end says."
_FINISH = {
    "stop": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "length": FinishReason.OUTPUT_LIMIT,
    "content_filter": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.REFUSAL,
}


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
        "_decode",
        "_decode_later",
        "_finish",
        "_form",
        "_held",
        "_hidden",
        "_identified",
        "_images",
        "_natives",
        "_refused",
        "_status",
        "_usage_after_finish",
        "_usage_seen",
        "broken",
        "content",
        "ended",
        "error",
    )

    def __init__(self, status: int = 200, form: AnswerForm = USUAL_FORM) -> None:
        """``status``: the HTTP status; from 400 on the body is read as an error whatever it holds.

        ``form``: what the server's answers are like.
        """
        self._status = status
        self._form = form
        self._decode, self._decode_later = usual_decoders(form.reasoning_fields)
        self._batch = BatchBuilder()
        self._calls = CallTracker(self._batch)
        self._body = AnswerBody(status)
        self._natives = KeptNatives()
        self._images: set[int] = set()
        self._identified = False
        self._refused = False
        self._held = False
        self._hidden = False
        self._finish: str | None = None
        self._usage_seen = False
        self._usage_after_finish = False
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
        """Whether reasoning was the last that came, also when it is encrypted and nothing of it is shown."""
        return self._hidden or self._batch.reasoning

    def feed(self, data: bytes) -> list[ModelItem]:
        """The items that ``data`` completes."""
        if not self.ended:
            self._feed(data)
        items = self._batch.take()
        shown = has_content(items)
        self.content = shown or self._held
        if self.content:
            self._hidden = not shown
        self._held = False
        return items

    def _feed(self, data: bytes) -> None:
        try:
            self._events(self._body.feed(data))
        except ProviderError as error:
            self._break(error)
        except RecursionError:
            self._break(protocol_error("The provider sent JSON that is nested too deeply."))

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
            if not self.ended:
                self._end()
        except ProviderError as error:
            self._break(error)
        except RecursionError:
            self._break(protocol_error("The provider sent JSON that is nested too deeply."))
        return self._batch.take()

    def _events(self, events: list[Event], *, at_end: bool = False) -> None:
        # The loop that every chunk of every answer goes through: what is not needed for each is in _usual_end.
        text, decode = self._batch.text, self._decode
        for name, data in events:
            try:
                chunk = decode(data)
            except (msgspec.DecodeError, RecursionError):
                self._event(name, data, at_end=at_end)
                decode = self._decode
            else:
                if not self._identified:
                    self._identify(chunk.id, chunk.model)
                    decode = self._decode
                for choice in chunk.choices:
                    delta = choice.delta
                    if reasoning := delta.first or delta.second:
                        text(PartKind.REASONING, reasoning)
                    if delta.content:
                        text(PartKind.TEXT, delta.content)
                    if delta.tool_calls is not None:
                        self._calls.more(delta.tool_calls)
                    if choice.finish_reason:
                        self._finish = choice.finish_reason
                if self._finish is None and chunk.usage is None:
                    continue
                self._usual_end(chunk)
            if self.ended:
                return

    def _usual_end(self, chunk: UsualChunk) -> None:
        """What remains of a chunk with a finish reason or usage."""
        if chunk.usage is not None:
            self._usage(chunk.usage)
        if self._finish == "error":
            self._fail(WireError(self._status, type="api_error"))
        elif not self._form.done_marker and self._finish is not None and self._all_came():
            self._end()

    def _all_came(self) -> bool:
        """Whether nothing is still to come after the finish reason, for servers that do not say so."""
        match self._form.usage:
            case UsageArrival.NEVER:
                return True
            case UsageArrival.EVERY_CHUNK:
                return self._usage_seen
            case UsageArrival.AFTER_FINISH | UsageArrival.WITH_FINISH:
                return self._usage_after_finish

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
        if not self._identified:
            self._identify(value.get("id"), value.get("model"))
        if isinstance(choices, list):
            for choice in choices:
                if isinstance(choice, dict) and choice.get("index") in (0, None):
                    self._choice(choice)
        usage = value.get("usage")
        if not isinstance(usage, dict):
            groq = value.get("x_groq")
            usage = groq.get("usage") if isinstance(groq, dict) else None
        if isinstance(usage, dict):
            self._usage(usage)
        if error:
            self._fail(wire_error(value, self._status))
        elif self._finish == "error":
            self._fail(WireError(self._status, type="api_error"))
        elif not self._form.done_marker and self._finish is not None and self._all_came():
            self._end()

    def _choice(self, choice: dict[str, Any]) -> None:
        # Perplexity sends both in streams and in whole bodies; only the one that belongs there is filled.
        first, second = ("message", "delta") if self._body.whole else ("delta", "message")
        delta = choice.get(first) or choice.get(second)
        if isinstance(delta, dict):
            self._delta(delta)
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            self._finish = finish

    def _delta(self, delta: dict[str, Any]) -> None:
        if reasoning := reasoning_of(delta, self._form.reasoning_fields):
            self._batch.text(PartKind.REASONING, reasoning)
        details = delta.get("reasoning_details")
        if isinstance(details, list) and details:
            self._held = True
            self._natives.details(details, whole=self._body.whole)
        self._content(delta.get("content"))
        images = delta.get("images")
        if isinstance(images, list):
            for image in images:
                if isinstance(image, dict):
                    self._image(image)
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
        extra = delta.get("extra_content")
        if isinstance(extra, dict) and extra:
            self._natives.add_extra(extra)

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
            elif "image_url" in part:
                self._image(part)

    def _image(self, entry: dict[str, Any]) -> None:
        found = entry.get("image_url")
        url = found.get("url") if isinstance(found, dict) else found
        if not isinstance(url, str) or not url or hash(url) in self._images:  # some say all images again at the end
            return
        if len(self._images) >= MAX_IMAGES:
            raise protocol_error(f"The provider sent more than {MAX_IMAGES} images in one answer.")
        self._images.add(hash(url))
        try:
            image = image_of(url)
        except ValueError:
            raise protocol_error("The provider sent an image that cannot be read.") from None
        if image is None:  # elsewhere: what can be shown of it is its address
            self._batch.text(PartKind.TEXT, f"![image]({url})")
        else:
            self._batch.add(MediaProduced(self._batch.new_part(), *image))

    def _identify(self, response_id: object, model: object) -> None:
        response_id = response_id if isinstance(response_id, str) else ""
        model = model if isinstance(model, str) else ""
        if response_id or model:
            self._identified = True
            self._decode = self._decode_later
            self._batch.add(ResponseIdentified(response_id, model))

    def _usage(self, raw: dict[str, Any]) -> None:
        usage = usage_of(raw)
        self._batch.usage(usage)
        if usage.input_tokens is not None or usage.output_tokens is not None:
            self._usage_seen = True
            self._usage_after_finish = self._finish is not None

    def _end(self) -> None:
        self.ended = True
        word = self._finish
        if word is None and self._form.stream_end is StreamEnd.LENIENT and self._is_whole():
            self._batch.add(IrregularityFound(Irregularity.MISSING_FINISH, UNFINISHED))
            word = ""
        self._calls.close(complete=word is not None)
        if word is not None:
            self._natives.report(self._batch)
            self._batch.stop(GenerationStopped(self._reason(word), word))

    def _reason(self, word: str) -> FinishReason:
        reason = _FINISH.get(word or "stop", FinishReason.OTHER)
        if reason is FinishReason.STOP and len(self._calls):
            return FinishReason.TOOL_CALLS
        if reason is FinishReason.STOP and self._refused:
            return FinishReason.REFUSAL
        return reason

    def _is_whole(self) -> bool:
        """Whether an answer without a finish reason has something in it and nothing in it is unfinished.

        Text does not show what was to follow it; an unfinished call does.
        """
        return self._calls.whole and bool(len(self._calls) or self._batch.spoken or self._images)

    def _fail(self, error: WireError) -> None:
        self.ended = True
        self._calls.close(complete=False)
        self.error = error

    def _break(self, error: ProviderError) -> None:
        self.ended = True
        self.broken = error.failure
