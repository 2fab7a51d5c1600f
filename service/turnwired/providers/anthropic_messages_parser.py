"""The answer of a Messages endpoint, from bytes to model items. Does no I/O and does not know the request.

Takes streams, plain JSON bodies and error bodies of the Anthropic API and of the servers that resemble it. Source:
Anthropic API reference, "Streaming messages", and recorded traffic for what servers do otherwise.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Failure, Reason
from turnwired.domain.generation import (
    FinishReason,
    GenerationStopped,
    ModelItem,
    ReasoningChunk,
    ResponseIdentified,
    ToolCallOpened,
)
from turnwired.providers.anthropic_messages_blocks import Block
from turnwired.providers.anthropic_messages_fields import CUT, FINISH, Counts, block_text, content_texts, error_of
from turnwired.providers.batch import BatchBuilder, PartKind, has_content
from turnwired.providers.body import MAX_BODY_BYTES, AnswerBody
from turnwired.providers.errors import WireError, protocol_error, provider_failure
from turnwired.providers.openai_chat_fields import loads
from turnwired.providers.sse import Event

MAX_OPEN_BLOCKS = 1024
_GROWS = {"text": PartKind.TEXT, "thinking": PartKind.REASONING, "tool_use": PartKind.ARGUMENTS}
# Blocks in which the model works and says nothing for a while.
_QUIET = frozenset({"thinking", "redacted_thinking", "compaction"})


class _TextDelta(msgspec.Struct, gc=False, tag_field="type", tag="text_delta"):
    text: str
    grows: ClassVar[PartKind] = PartKind.TEXT


class _ThinkingDelta(msgspec.Struct, gc=False, tag_field="type", tag="thinking_delta"):
    text: str = msgspec.field(name="thinking")
    grows: ClassVar[PartKind] = PartKind.REASONING


class _InputDelta(msgspec.Struct, gc=False, tag_field="type", tag="input_json_delta"):
    text: str = msgspec.field(name="partial_json")
    grows: ClassVar[PartKind] = PartKind.ARGUMENTS


class _Delta(msgspec.Struct, gc=False):
    type: Literal["content_block_delta"]
    index: int
    delta: _TextDelta | _ThinkingDelta | _InputDelta


# Nearly every event is one of these. Anything else makes the typed decode fail, and the event goes the general way.
_decode_delta = msgspec.json.Decoder(_Delta).decode


class MessagesParser:
    """Parses one answer. ``feed`` each read, then ``finish`` at the end of the body.

    ``error`` is set when the provider reported one and ``broken`` when the body cannot be understood; what had come
    before is in the items, and nothing more will come. ``ended``: the answer is over, the rest of the body says
    nothing. ``finish_seen``: the provider said why it stopped, though more may follow. ``content``: the last read
    brought something that the model produced, also when it is held back.
    """

    __slots__ = (
        "_batch",
        "_began",
        "_blocks",
        "_body",
        "_counts",
        "_finish",
        "_held",
        "_held_bytes",
        "_identity",
        "_local_calls",
        "_quiet",
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
        self._blocks: dict[int, Block] = {}
        self._counts = Counts()
        self._body = AnswerBody(status)
        self._identity: str | None = None
        self._began = False
        self._finish: str | None = None
        self._held = False
        self._held_bytes = 0
        self._local_calls = False
        self._quiet = False
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
        """Whether the model is at work silently: it thinks, it sums up, or a tool of the provider runs."""
        return self._quiet

    def feed(self, data: bytes) -> list[ModelItem]:
        """The items that ``data`` completes."""
        self._held = False
        if not self.ended:
            self._feed(data)
        items = self._batch.take()
        self.content = self._held or has_content(items)
        return items

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
        return self._batch.take()

    def _feed(self, data: bytes) -> None:
        try:
            self._events(self._body.feed(data))
        except ProviderError as error:
            self._break(error)

    # --- events -----------------------------------------------------------------------------------------------------

    def _events(self, events: list[Event], *, at_end: bool = False) -> None:
        blocks, grow = self._blocks, self._batch.grow
        for name, data in events:
            if blocks:
                try:
                    event = _decode_delta(data)
                except (msgspec.DecodeError, RecursionError):
                    pass
                else:
                    delta, block = event.delta, blocks.get(event.index)
                    if block is not None and block.grows is delta.grows:
                        if delta.text:
                            block.filled = True
                            grow(delta.grows, block.part, delta.text)
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
            self._object(value.get("type") or name.decode(errors="replace"), value, data)
        elif name == b"error":
            self._fail(error_of(value if value is not None else data.decode(errors="replace"), self._status))
        elif not at_end:  # at the end it is an event that was cut, and the missing stop reason tells so
            raise protocol_error("The provider sent an event that is no JSON object.")

    def _object(self, kind: object, value: dict[str, Any], data: bytes) -> None:
        match kind:
            case "content_block_delta":
                self._delta(value, len(data))
            case "content_block_start":
                block = value.get("content_block")
                if isinstance(block, dict):
                    self._open(_index(value), block, block_text(data))
            case "content_block_stop":
                self._close(_index(value), complete=True)
            case "message_start":
                message = value.get("message")
                if isinstance(message, dict):
                    self._message(message, data, within_event=True)
            case "message_delta":
                self._take_usage(value)
                delta = value.get("delta")
                if isinstance(delta, dict):
                    self._take_finish(delta)
            case "message_stop":
                self._end()
            case _ if kind == "error" or value.get("error"):
                self._fail(error_of(value, self._status))
            case _:
                pass  # pings, and events that are to come

    def _delta(self, value: dict[str, Any], size: int) -> None:
        """A delta that is not of the usual kind, or that is not for a block of its kind."""
        delta = value.get("delta")
        if not isinstance(delta, dict):
            return
        index = _index(value)
        block = self._blocks.get(index)
        if block is not None and block.grows is None:
            self._hold(size)
            block.take(delta, size)
            return
        match delta.get("type"):
            case "text_delta":
                self._grow(index, block, PartKind.TEXT, delta.get("text"))
            case "thinking_delta":
                self._grow(index, block, PartKind.REASONING, delta.get("thinking"))
            case "input_json_delta":
                if block is None or block.grows is not PartKind.ARGUMENTS:
                    raise protocol_error("The provider sent arguments for a tool call that it never began.")
                self._grow(index, block, PartKind.ARGUMENTS, delta.get("partial_json"))
            case "signature_delta":
                self._sign(block, delta.get("signature"))
            case "citations_delta" if block is not None and delta.get("citation") is not None:
                self._hold(size)
                block.size += size
                block.cite(delta.get("citation"))
            case _:
                pass

    def _grow(self, index: int, block: Block | None, kind: PartKind, text: object) -> None:
        if not isinstance(text, str) or not text:
            return
        if block is None or block.grows is not kind:
            block = self._open(index, {"type": "text" if kind is PartKind.TEXT else "thinking"}, b"")
        block.filled = True
        self._batch.grow(kind, block.part, text)

    def _sign(self, block: Block | None, signature: object) -> None:
        if block is not None and block.grows is PartKind.REASONING and isinstance(signature, str) and signature:
            self._batch.add(ReasoningChunk(block.part, "", signature.encode()))

    def _hold(self, size: int) -> None:
        self._held = True
        self._held_bytes += size
        if self._held_bytes > MAX_BODY_BYTES:
            raise protocol_error(f"The provider sent content blocks of more than {MAX_BODY_BYTES} bytes.")

    # --- blocks -----------------------------------------------------------------------------------------------------

    def _open(self, index: int, value: dict[str, Any], text: bytes) -> Block:
        """A block begins, which may be whole already."""
        if index in self._blocks:
            self._close(index, complete=True)  # its end was not said, and the next one is there
        elif len(self._blocks) >= MAX_OPEN_BLOCKS:
            raise protocol_error(f"The provider left more than {MAX_OPEN_BLOCKS} content blocks open.")
        self._began = True
        kind = _text(value.get("type"))
        redacted = kind == "redacted_thinking"
        grows = PartKind.REASONING if redacted else _GROWS.get(kind)
        block = Block(self._batch.new_part(), kind, grows, value, text)
        self._blocks[index] = block
        self._quiet = kind in _QUIET
        if block.size:
            self._hold(block.size)
        if redacted:
            data = value.get("data")
            if isinstance(data, str) and data:
                self._batch.add(ReasoningChunk(block.part, "", data.encode(), redacted=True))
        elif grows is PartKind.ARGUMENTS:
            self._local_calls = self._local_calls or not block.answered_by_provider
            self._batch.add(ToolCallOpened(block.part, _text(value.get("id")), _text(value.get("name"))))
        elif grows is not None:
            self._grow(index, block, grows, value.get("text" if grows is PartKind.TEXT else "thinking"))
            self._sign(block, value.get("signature"))
            citations = value.get("citations")
            for citation in citations if isinstance(citations, list) else ():
                block.cite(citation)
        return block

    def _close(self, index: int, *, complete: bool) -> None:
        block = self._blocks.pop(index, None)
        if block is None:
            return
        self._held_bytes -= block.size
        self._held = self._held or block.grows is None
        self._quiet = complete and block.runs_at_provider
        block.close(self._batch, complete=complete)

    # --- the message ------------------------------------------------------------------------------------------------

    def _whole(self, body: bytes) -> None:
        value = loads(body)
        if self._status >= 400:
            self._fail(error_of(value if value is not None else body.decode(errors="replace"), self._status))
        elif isinstance(value, dict) and isinstance(value.get("content"), list):
            self._message(value, body, within_event=False)
            self._end()
        elif (isinstance(value, dict) and "error" in value) or (isinstance(value, list) and value):
            self._fail(error_of(value, self._status))
        elif body[:1] == b"<":
            raise provider_failure(
                Reason.PROVIDER_PROTOCOL_ERROR, "The provider sent a web page instead of an answer: check the base URL."
            )
        else:
            raise protocol_error("The provider sent a body that is no JSON, or only a part of one.")

    def _message(self, message: dict[str, Any], data: bytes, *, within_event: bool) -> None:
        """A message: the whole of a plain answer, or the beginning of a stream, which may hold all of it too."""
        self._identify(message)
        self._take_usage(message)
        content = message.get("content")
        if isinstance(content, list) and content:
            texts = content_texts(data, within_event=within_event)
            for position, block in enumerate(content):
                if isinstance(block, dict):
                    # Below the indexes of the stream, which may count on from them or begin anew.
                    text = texts[position] if position < len(texts) else b""
                    self._open(-1, block, text)
                    self._close(-1, complete=True)
        self._take_finish(message)

    def _identify(self, message: dict[str, Any]) -> None:
        response_id, model = _text(message.get("id")), _text(message.get("model"))
        if self._identity is None:
            if response_id or model:
                self._identity = response_id
                self._batch.add(ResponseIdentified(response_id, model))
        elif response_id != self._identity and self._began:
            # What was shown cannot be taken back, and calls of both answers must not run.
            raise protocol_error("The provider began another answer in the middle of the first one.")

    def _take_usage(self, value: dict[str, Any]) -> None:
        usage = value.get("usage")
        if isinstance(usage, dict):
            self._counts.take(usage)
            self._batch.usage(self._counts.usage())

    def _take_finish(self, value: dict[str, Any]) -> None:
        word = value.get("stop_reason")
        if isinstance(word, str) and word:
            self._finish = word

    def _end(self) -> None:
        self.ended = True
        if self._finish is None:
            return
        reason = FINISH.get(self._finish, FinishReason.OTHER)
        for index in list(self._blocks):
            self._close(index, complete=reason not in CUT)
        if reason is FinishReason.STOP and self._local_calls:
            reason = FinishReason.TOOL_CALLS
        self._batch.stop(GenerationStopped(reason, self._finish))

    def _fail(self, error: WireError) -> None:
        self.ended = True
        self.error = error

    def _break(self, error: ProviderError) -> None:
        self.ended = True
        self.broken = error.failure


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _index(value: dict[str, Any]) -> int:
    index = value.get("index")
    return index if isinstance(index, int) else 0
