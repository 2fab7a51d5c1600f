"""The spans of one run: ``invoke_agent`` over ``turnwire.iteration`` over ``chat`` and ``execute_tool``.

Parents are set by structure, never by what happens to be current. Knows events, not where they come from, and not how
spans are sent. Follows the OpenTelemetry GenAI conventions for spans; content is never recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from opentelemetry.trace import SpanKind

from turnwired.domain.event import (
    Event,
    IterationFinished,
    IterationRetryScheduled,
    IterationStarted,
    Notice,
    PartFinished,
    ReasoningDelta,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallArgumentsFinished,
    ToolCallExecuting,
    ToolCallFinished,
    ToolCallProgressed,
    ToolCallStarted,
    TraceContext,
)
from turnwired.domain.tool import Tool, ToolSource
from turnwired.domain.usage import Usage
from turnwired.telemetry import names
from turnwired.telemetry.current import Current, nothing_current
from turnwired.telemetry.instruments import ChatKey, Instruments
from turnwired.telemetry.null import NO_HEADERS, NO_TRACE
from turnwired.telemetry.port import RunInfo
from turnwired.telemetry.propagation import extract
from turnwired.telemetry.run_attributes import (
    add_cost,
    add_failure,
    add_usage,
    chat_error,
    finish_reasons,
    label_attributes,
    request_parameters,
    run_error,
    tool_error,
)
from turnwired.telemetry.spans import Attributes, Span, SpanEvent, Tracer, clip


@dataclass(slots=True, eq=False)
class _Iteration:
    """The iteration that runs. Its span ends when the next one starts, at the end of its last child."""

    number: int
    span: Span
    chat: Span
    model: str
    response_model: str = ""
    chunks: int = 0
    attempts: int = 1
    last_end_ns: int = 0


@dataclass(slots=True, eq=False)
class _ToolSpan:
    """A tool that executes."""

    span: Span
    name: str
    type: str
    iteration: int


class OtelRunTelemetry:
    """Telemetry of one run. Used from the event loop only; total: no call in any order raises."""

    __slots__ = (
        "_agent",
        "_chat_template",
        "_info",
        "_instruments",
        "_iteration",
        "_last_finish",
        "_model_calls",
        "_tool_calls",
        "_tool_template",
        "_tools",
        "_tools_by_name",
        "_tracer",
        "_usage",
        "span",
    )

    def __init__(self, tracer: Tracer, instruments: Instruments, info: RunInfo) -> None:
        self._tracer = tracer
        self._instruments = instruments
        self._info = info
        self._agent = clip(info.agent_id)
        self._iteration: _Iteration | None = None
        self._tools: dict[str, _ToolSpan] = {}
        self._tools_by_name: dict[str, Tool] | None = None
        self._model_calls = self._tool_calls = 0
        self._usage: list[int | None] = [None, None]  # input and output tokens of the model calls so far
        self._last_finish: tuple[str, ...] | None = None
        common: Attributes = {}
        if info.session_id:
            common[names.CONVERSATION_ID] = clip(info.session_id)
        self._chat_template = _chat_template(info, common)
        if self._agent:
            common[names.AGENT_NAME] = self._agent
        self._tool_template: Attributes = {names.OPERATION_NAME: names.OPERATION_EXECUTE_TOOL, **common}
        # The RPC that starts a run does not wait for it (StartTurn, on_disconnect = CONTINUE), and after a takeover
        # it was served elsewhere: its span is a remote parent, which a child may outlive.
        self.span = tracer.start(
            _spaced(names.OPERATION_INVOKE_AGENT, self._agent),
            SpanKind.INTERNAL,
            {
                names.OPERATION_NAME: names.OPERATION_INVOKE_AGENT,
                names.REQUEST_MODEL: clip(info.model.model),
                names.RUN_ID: info.run_id,
                **common,
                **label_attributes(info.labels),
            },
            extract(info.parent_headers),
            remote=True,
        )

    @property
    def trace_context(self) -> TraceContext:
        """The run's span; empty when the trace is not recorded."""
        reference = self.span.reference
        if not reference.sampled:
            return NO_TRACE
        return TraceContext(reference.hex_trace_id, reference.hex_span_id)

    def iteration_started(self, iteration: int, max_output_tokens: int | None) -> str:
        """Open the spans of an iteration and its model call, which all attempts share; returns the latter's id."""
        current = self._iteration
        if current is not None and current.number == iteration:
            return _visible_id(current.chat)
        self._close_iteration(self._tracer.now())
        model = clip(self._info.model.model)
        span = self._tracer.start(
            names.ITERATION_SPAN,
            SpanKind.INTERNAL,
            {names.ITERATION_NUMBER: iteration, names.RUN_ID: self._info.run_id},
            self.span.reference,
        )
        attributes = self._chat_template.copy()
        if max_output_tokens is not None:
            attributes[names.REQUEST_MAX_TOKENS] = max_output_tokens
        name = _spaced(names.OPERATION_CHAT, model)
        chat = self._tracer.start(name, SpanKind.CLIENT, attributes, span.reference)
        self._iteration = _Iteration(iteration, span, chat, model)
        self._model_calls += 1
        return _visible_id(chat)

    def tool_started(self, call_id: str, routed_name: str) -> str:
        """Open the span of a tool's execution; returns its id."""
        name = clip(routed_name)
        tool = self._tool(routed_name)
        source = ToolSource.UNSPECIFIED if tool is None else tool.ref.source
        tool_type = names.TOOL_TYPE_EXTENSION if source is ToolSource.PROVIDER else names.TOOL_TYPE_FUNCTION
        attributes = self._tool_template.copy()
        attributes[names.TOOL_NAME] = name
        attributes[names.TOOL_TYPE] = tool_type
        attributes[names.TOOL_CALL_ID] = clip(call_id)
        if tool is not None:
            attributes[names.TOOL_SOURCE] = source.value
            if tool.description:
                attributes[names.TOOL_DESCRIPTION] = clip(tool.description)
            if tool.ref.server_id:
                attributes[names.TOOL_SERVER] = clip(tool.ref.server_id)
        current = self._iteration
        parent = self.span if current is None else current.span
        span = self._tracer.start(
            _spaced(names.OPERATION_EXECUTE_TOOL, name), SpanKind.INTERNAL, attributes, parent.reference
        )
        self._tools[call_id] = _ToolSpan(span, name, tool_type, 0 if current is None else current.number)
        self._tool_calls += 1
        return _visible_id(span)

    def response_identified(self, iteration: int, response_id: str, model: str) -> None:
        """Note the response's id and the model that answers."""
        current = self._iteration
        if current is None or current.number != iteration:
            return
        if response_id:
            current.chat.attributes[names.RESPONSE_ID] = clip(response_id)
        if model:
            current.response_model = clip(model)
            current.chat.attributes[names.RESPONSE_MODEL] = current.response_model

    def output_chunks(self, iteration: int, count: int) -> None:
        """Note how many reads brought output."""
        current = self._iteration
        if current is not None and current.number == iteration:
            current.chunks = count

    def headers_for_model(self, iteration: int) -> Mapping[str, str]:
        """Propagation headers of the model call's span."""
        current = self._iteration
        if current is None or current.number != iteration:
            return NO_HEADERS
        return current.chat.reference.headers()

    def headers_for_tool(self, call_id: str) -> Mapping[str, str]:
        """Propagation headers of the tool's span."""
        tool = self._tools.get(call_id)
        return NO_HEADERS if tool is None else tool.span.reference.headers()

    def in_tool(self, call_id: str) -> AbstractContextManager[None]:
        """Makes the tool's span current in this task."""
        tool = self._tools.get(call_id)
        return nothing_current() if tool is None else Current(tool.span.reference)

    def event(self, iteration: int, time_ns: int, event: Event) -> None:
        """Close the spans that the event ends, and record what they measured."""
        match event:
            case ToolCallFinished():
                self._tool_finished(time_ns, event)
            case IterationStarted():
                self._iteration_known(iteration, event)
            case IterationFinished():
                self._chat_finished(iteration, time_ns, event)
            case IterationRetryScheduled():
                self._retry_scheduled(iteration, time_ns, event)
            case RunFinished():
                self._run_finished(time_ns, event)
            case (
                TextDelta()
                | ReasoningDelta()
                | ToolCallArgumentsDelta()
                | ToolCallProgressed()
                | PartFinished()
                | RunStarted()
                | ToolCallStarted()
                | ToolCallArgumentsFinished()
                | ToolCallExecuting()
                | Notice()
            ):
                pass

    def _iteration_known(self, iteration: int, event: IterationStarted) -> None:
        current = self._iteration
        if current is None or current.number != iteration:
            return
        current.span.attributes[names.ITERATION_KIND] = event.kind.value
        model = clip(event.model.model)
        if model != current.model:  # another model than the run's answers this iteration
            current.model = model
            current.chat.name = _spaced(names.OPERATION_CHAT, model)
            current.chat.attributes[names.REQUEST_MODEL] = model

    def _retry_scheduled(self, iteration: int, time_ns: int, event: IterationRetryScheduled) -> None:
        current = self._iteration
        if current is None or current.number != iteration:
            return
        current.attempts += 1
        reason = event.failure.reason.value
        current.chat.events.append(
            SpanEvent(
                names.RETRY_EVENT,
                time_ns,
                {
                    names.FAILURE_REASON: reason,
                    names.RETRY_ATTEMPT: event.attempt,
                    names.RETRY_DELAY: event.delay_ns / 1e9,
                },
            )
        )
        self._instruments.retry(self._info.provider_name, current.model, reason)

    def _chat_finished(self, iteration: int, time_ns: int, event: IterationFinished) -> None:
        current = self._iteration
        if current is None or current.number != iteration or current.chat.end_ns:
            return
        error = chat_error(event)
        attributes = current.chat.attributes
        self._last_finish = attributes[names.RESPONSE_FINISH_REASONS] = finish_reasons(event)
        first_chunk = None if event.time_to_first_token_ns is None else event.time_to_first_token_ns / 1e9
        if first_chunk is not None:
            attributes[names.RESPONSE_TIME_TO_FIRST_CHUNK] = first_chunk
        add_usage(attributes, event.usage)
        if event.cost is not None:
            add_cost(attributes, event.cost)
            self._instruments.cost(self._info.provider_name, current.model, event.cost)
        add_failure(attributes, event.failure)
        self._end_chat(current, time_ns, error, event.usage, first_chunk)

    def _end_chat(
        self, current: _Iteration, time_ns: int, error: str | None, usage: Usage, first_chunk: float | None
    ) -> None:
        if error is not None:
            current.chat.attributes[names.ERROR_TYPE] = error
        self._tracer.end(current.chat, time_ns)
        current.last_end_ns = max(current.last_end_ns, current.chat.end_ns)
        self._count_tokens(usage)
        info = self._info
        self._instruments.chat(
            ChatKey(info.provider_name, current.model, info.server_address, info.server_port, current.response_model),
            current.chat.seconds,
            error,
            usage,
            first_chunk=first_chunk,
            output_chunks=current.chunks,
        )

    def _count_tokens(self, usage: Usage) -> None:
        for index, tokens in enumerate((usage.input_tokens, usage.output_tokens)):
            if tokens is not None:
                self._usage[index] = (self._usage[index] or 0) + tokens

    def _close_iteration(self, time_ns: int, error: str | None = None) -> None:
        """End the iteration; a model call that nobody finished ends with it, as the run does."""
        current = self._iteration
        if current is None:
            return
        self._iteration = None
        if not current.chat.end_ns:
            self._last_finish = current.chat.attributes[names.RESPONSE_FINISH_REASONS] = (names.FINISH_ERROR,)
            self._end_chat(current, time_ns, error, Usage(), None)
        for call_id in [key for key, tool in self._tools.items() if tool.iteration == current.number]:
            self._end_tool(self._tools.pop(call_id), time_ns, error)
            current.last_end_ns = max(current.last_end_ns, time_ns)
        if current.attempts > 1:
            current.span.attributes[names.ITERATION_ATTEMPTS] = current.attempts
        if chat_failed := current.chat.attributes.get(names.ERROR_TYPE):
            current.span.attributes[names.ERROR_TYPE] = chat_failed
        self._tracer.end(current.span, current.last_end_ns)

    def _tool(self, routed_name: str) -> Tool | None:
        tools = self._tools_by_name
        if tools is None:
            tools = self._tools_by_name = {tool.ref.routed_name: tool for tool in self._info.tools}
        return tools.get(routed_name)

    def _tool_finished(self, time_ns: int, event: ToolCallFinished) -> None:
        tool = self._tools.pop(event.result.call_id, None)
        if tool is None:  # it never executed: denied, not found, badly called
            return
        tool.span.attributes[names.TOOL_STATUS] = event.result.status.value
        add_failure(tool.span.attributes, event.result.failure)
        self._end_tool(tool, time_ns, tool_error(event.result))
        current = self._iteration
        if current is not None and current.number == tool.iteration:
            current.last_end_ns = max(current.last_end_ns, tool.span.end_ns)

    def _end_tool(self, tool: _ToolSpan, time_ns: int, error: str | None) -> None:
        if error is not None:
            tool.span.attributes[names.ERROR_TYPE] = error
        self._tracer.end(tool.span, time_ns)
        self._instruments.tool(tool.name, tool.type, self._agent, tool.span.seconds, error)

    def _run_finished(self, time_ns: int, event: RunFinished) -> None:
        if self.span.end_ns:
            return
        error = run_error(event.outcome)
        self._close_iteration(time_ns, error)
        for tool in self._tools.values():
            self._end_tool(tool, time_ns, error)
        self._tools.clear()
        attributes = self.span.attributes
        outcome = event.outcome
        attributes[names.RUN_OUTCOME] = outcome.kind.value
        attributes[names.RUN_ITERATIONS] = self._model_calls
        attributes[names.RUN_TOOL_CALLS] = self._tool_calls
        add_failure(attributes, outcome.failure)
        if self._last_finish is not None:
            attributes[names.RESPONSE_FINISH_REASONS] = self._last_finish
        # The sum of the children, never the run's own account: backends that add both up must get equal halves.
        for name, tokens in zip((names.USAGE_INPUT_TOKENS, names.USAGE_OUTPUT_TOKENS), self._usage, strict=True):
            if tokens is not None:
                attributes[name] = tokens
        if error is not None:
            attributes[names.ERROR_TYPE] = error
        self._tracer.end(self.span, time_ns)
        self._instruments.run(
            self._agent,
            clip(self._info.model.model),
            outcome.kind.value,
            self.span.seconds,
            error,
            inference_calls=self._model_calls,
            tool_calls=self._tool_calls,
        )


def _chat_template(info: RunInfo, common: Attributes) -> Attributes:
    attributes: Attributes = {
        names.OPERATION_NAME: names.OPERATION_CHAT,
        names.PROVIDER_NAME: info.provider_name,
        names.REQUEST_MODEL: clip(info.model.model),
        names.REQUEST_STREAM: True,
        **common,
        **request_parameters(info.model.provider_options_json),
    }
    if info.server_address:
        attributes[names.SERVER_ADDRESS] = info.server_address
        attributes[names.SERVER_PORT] = info.server_port
    return attributes


def _spaced(operation: str, target: str) -> str:
    return f"{operation} {target}" if target else operation


def _visible_id(span: Span) -> str:
    return span.reference.hex_span_id if span.reference.sampled else ""
