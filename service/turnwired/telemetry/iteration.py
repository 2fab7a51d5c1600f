"""The spans of one iteration, ``turnwire.iteration`` over ``chat``, and what they measure.

All attempts of an iteration share the ``chat`` span: it is one logical model call. Knows nothing of the run around it.
"""

from __future__ import annotations

import time

from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, Tracer

from turnwired.domain.event import IterationFinished, IterationRetryScheduled, IterationStarted
from turnwired.domain.usage import Cost, Usage, sum_cost, sum_usage
from turnwired.telemetry import names
from turnwired.telemetry.instruments import ChatKey, Instruments
from turnwired.telemetry.port import RunInfo
from turnwired.telemetry.run_attributes import add_cost, add_failure, add_usage, chat_error, finish_reasons
from turnwired.telemetry.spans import Attributes, Span, clip

_NO_USAGE = Usage()
_CUT = (names.FINISH_ERROR,)


class Iteration:
    """The iteration that runs. Its span ends when the next one starts, at the end of its last child."""

    __slots__ = (
        "_attempts",
        "_children_end_ns",
        "_chunks",
        "_cost",
        "_failed_usage",
        "_first_output_ns",
        "_info",
        "_instruments",
        "_model",
        "_response_model",
        "chat",
        "finish_reasons",
        "number",
        "span",
        "usage",
    )

    def __init__(
        self,
        tracer: Tracer,
        instruments: Instruments,
        info: RunInfo,
        parent: Context,
        number: int,
        chat_attributes: Attributes,
    ) -> None:
        self._instruments = instruments
        self._info = info
        self.number = number
        self._model = clip(info.model.model)
        self.span = Span(
            tracer,
            names.ITERATION_SPAN,
            SpanKind.INTERNAL,
            {names.ITERATION_NUMBER: number, names.RUN_ID: info.run_id},
            parent,
        )
        self.chat = Span(
            tracer, f"{names.OPERATION_CHAT} {self._model}", SpanKind.CLIENT, chat_attributes, self.span.context
        )
        self.finish_reasons: tuple[str, ...] = _CUT
        self.usage = _NO_USAGE  # of all attempts, once the model call has ended
        self._response_model = ""
        self._chunks = 0
        self._first_output_ns: int | None = None  # when, of the attempt that runs
        self._attempts = 1
        self._failed_usage = _NO_USAGE
        self._cost: Cost | None = None  # of all attempts so far
        self._children_end_ns = 0

    def known(self, event: IterationStarted) -> None:
        """The iteration's kind, and its model where that is not the run's."""
        self.span.attributes[names.ITERATION_KIND] = event.kind.value
        model = clip(event.model.model)
        if model != self._model:
            self._model = model
            self.chat.rename(f"{names.OPERATION_CHAT} {model}")
            self.chat.attributes[names.REQUEST_MODEL] = model

    def response_identified(self, response_id: str, model: str) -> None:
        """The response's id and the model that answers; either may be empty."""
        if self.chat.end_ns:
            return
        if response_id:
            self.chat.attributes[names.RESPONSE_ID] = clip(response_id)
        if model:
            self._response_model = clip(model)
            self.chat.attributes[names.RESPONSE_MODEL] = self._response_model

    def output_began(self) -> None:
        """The first output came now."""
        self._first_output_ns = time.time_ns()

    def output_chunks(self, count: int) -> None:
        """How many reads brought output."""
        self._chunks = count

    def retry_scheduled(self, time_ns: int, event: IterationRetryScheduled) -> None:
        """An attempt failed; there will be another."""
        self._attempts += 1
        self._first_output_ns = None
        self._failed_usage = sum_usage((self._failed_usage, event.usage))
        self._add_cost(event.cost)
        reason = event.failure.reason.value
        self.chat.event(
            names.RETRY_EVENT,
            time_ns,
            {
                names.FAILURE_REASON: reason,
                names.RETRY_ATTEMPT: event.attempt,
                names.RETRY_DELAY: event.delay_ns / 1e9,
            },
        )
        self._instruments.retry(self._info.provider_name, self._model, reason)

    def chat_finished(self, time_ns: int, event: IterationFinished) -> None:
        """The model call ended as the event says."""
        if self.chat.end_ns:
            return
        self.finish_reasons = finish_reasons(event)
        self._add_cost(event.cost)
        add_failure(self.chat.attributes, event.failure)
        first_ns = event.time_to_first_token_ns
        self._end_chat(
            time_ns,
            chat_error(event),
            event.usage,
            None if first_ns is None else first_ns / 1e9,
            None if first_ns is None or not event.duration_ns else (event.duration_ns - first_ns) / 1e9,
        )

    def child_ended(self, time_ns: int) -> None:
        """A tool of this iteration ended."""
        self._children_end_ns = max(self._children_end_ns, time_ns)

    def end(self, time_ns: int, error: str | None) -> None:
        """End the iteration. A model call that nobody finished is cut at ``time_ns``, with ``error`` if it is one."""
        if not self.chat.end_ns:
            self._end_chat(time_ns, error, _NO_USAGE)
        chat_error_type = self.chat.attributes.get(names.ERROR_TYPE)
        if chat_error_type is not None:
            self.span.attributes[names.ERROR_TYPE] = chat_error_type
        self.span.end(max(self.chat.end_ns, self._children_end_ns))

    def _end_chat(
        self,
        time_ns: int,
        error: str | None,
        usage: Usage,
        first_chunk: float | None = None,
        streaming: float | None = None,
    ) -> None:
        """``first_chunk`` and ``streaming``, from first to last output, are seconds of the last attempt, if told."""
        attributes = self.chat.attributes
        if first_chunk is None and self._first_output_ns is not None:  # a call that was cut has no account of its own
            first_chunk = max(0, self._first_output_ns - self.chat.start_ns) / 1e9
        attributes[names.RESPONSE_FINISH_REASONS] = self.finish_reasons
        if first_chunk is not None:
            attributes[names.RESPONSE_TIME_TO_FIRST_CHUNK] = first_chunk
        if self._attempts > 1:  # what the failed attempts used counts too
            usage = sum_usage((self._failed_usage, usage))
            attributes[names.ITERATION_ATTEMPTS] = self._attempts
        self.usage = usage
        add_usage(attributes, usage)
        if error is not None:
            attributes[names.ERROR_TYPE] = error
        self.chat.end(time_ns)
        info = self._info
        self._instruments.chat(
            ChatKey(info.provider_name, self._model, info.server_address, info.server_port, self._response_model),
            self.chat.seconds,
            error,
            usage,
            first_chunk=first_chunk,
            output_chunks=self._chunks,
            streaming=self.chat.seconds - (first_chunk or 0.0) if streaming is None else streaming,
        )

    def _add_cost(self, cost: Cost | None) -> None:
        if cost is None:
            return
        self._instruments.cost(self._info.provider_name, self._model, cost)
        self._cost = cost if self._cost is None else sum_cost((self._cost, cost))
        if self._cost is not None:
            add_cost(self.chat.attributes, self._cost)


def chat_attributes(info: RunInfo, common: Attributes, parameters: Attributes) -> Attributes:
    """What the ``chat`` spans of a run have in common. ``parameters`` are the request's."""
    attributes: Attributes = {
        names.OPERATION_NAME: names.OPERATION_CHAT,
        names.PROVIDER_NAME: info.provider_name,
        names.REQUEST_MODEL: clip(info.model.model),
        names.REQUEST_STREAM: True,
        names.STREAM_END: info.stream_end,
        names.STREAM_END_LAYER: info.stream_end_layer,
        **common,
        **parameters,
    }
    if info.server_address:
        attributes[names.SERVER_ADDRESS] = info.server_address
        attributes[names.SERVER_PORT] = info.server_port
    return attributes
