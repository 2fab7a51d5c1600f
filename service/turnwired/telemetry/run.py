"""The spans of one run: ``invoke_agent`` over ``turnwire.iteration`` over ``chat`` and ``execute_tool``.

Parents are set by structure, never by what happens to be current. Knows events, not where they come from, and not how
spans are sent. Follows the OpenTelemetry GenAI conventions for spans; content is never recorded.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from opentelemetry.trace import SpanKind, Tracer

from turnwired.domain.attachment import AttachmentState
from turnwired.domain.event import (
    ApprovalRequested,
    ApprovalResolved,
    AttachmentUpdated,
    Event,
    HistoryTruncated,
    InputAppended,
    IterationFinished,
    IterationRetryScheduled,
    IterationStarted,
    PartFinished,
    ReasoningDelta,
    RunFinished,
    RunResumed,
    RunStarted,
    RunWaiting,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallArgumentsFinished,
    ToolCallExecuting,
    ToolCallFinished,
    ToolCallProgressed,
    ToolCallStarted,
    ToolsChanged,
)
from turnwired.domain.model import TraceContext
from turnwired.domain.outcome import Notice
from turnwired.domain.tool import Tool, ToolSource
from turnwired.telemetry import names
from turnwired.telemetry.instruments import Instruments
from turnwired.telemetry.iteration import Iteration, chat_attributes
from turnwired.telemetry.null import NO_CONTEXT, NO_HEADERS
from turnwired.telemetry.port import RunInfo
from turnwired.telemetry.run_attributes import (
    add_failure,
    label_attributes,
    request_parameters,
    run_error,
    tool_error,
)
from turnwired.telemetry.spans import Attributes, Span, clip, parent_of
from turnwired.telemetry.waiting import WaitSpans


@dataclass(slots=True, eq=False)
class _ToolSpan:
    """A tool that executes."""

    span: Span
    name: str
    type: str
    iteration: Iteration | None


class OtelRunTelemetry:
    """Telemetry of one run. Used from the event loop only; total: no call in any order raises."""

    __slots__ = (
        "_agent",
        "_attachments",
        "_chat_template",
        "_finish_reasons",
        "_info",
        "_input_tokens",
        "_instruments",
        "_iteration",
        "_known",
        "_model_calls",
        "_output_tokens",
        "_tool_calls",
        "_tool_template",
        "_tools",
        "_tools_by_name",
        "_tracer",
        "_waits",
        "span",
    )

    def __init__(self, tracer: Tracer, instruments: Instruments, info: RunInfo) -> None:
        self._tracer = tracer
        self._instruments = instruments
        self._info = info
        self._agent = clip(info.agent_id)
        self._iteration: Iteration | None = None
        self._waits: WaitSpans | None = None
        self._attachments: dict[str, AttachmentState] = {}
        self._tools: dict[str, _ToolSpan] = {}
        self._tools_by_name: dict[str, Tool] | None = None
        self._known: Sequence[Tool] = info.tools
        self._model_calls = self._tool_calls = 0
        self._input_tokens: int | None = None  # of the iterations that ended
        self._output_tokens: int | None = None
        self._finish_reasons: tuple[str, ...] | None = None
        common: Attributes = {}
        if info.session_id:
            common[names.CONVERSATION_ID] = clip(info.session_id)
        self._chat_template = chat_attributes(info, common, request_parameters(info.model, structured=info.structured))
        if self._agent:
            common[names.AGENT_NAME] = self._agent
        self._tool_template: Attributes = {names.OPERATION_NAME: names.OPERATION_EXECUTE_TOOL, **common}
        # The RPC that starts a run does not wait for it (StartTurn, on_disconnect = CONTINUE), and after a takeover
        # it was served elsewhere: its span is a remote parent, which a child may outlive.
        self.span = Span(
            tracer,
            _spaced(names.OPERATION_INVOKE_AGENT, self._agent),
            SpanKind.INTERNAL,
            {
                names.OPERATION_NAME: names.OPERATION_INVOKE_AGENT,
                names.REQUEST_MODEL: clip(info.model.model),
                names.RUN_ID: info.run_id,
                **common,
                **label_attributes(info.labels),
            },
            parent_of(info.parent_headers),
        )

    @property
    def trace_context(self) -> TraceContext:
        """The run's span; empty when the trace is not recorded."""
        return self.span.trace_context

    def iteration_started(self, iteration: int, max_output_tokens: int | None) -> str:
        """Open the spans of an iteration and its model call, which all attempts share; returns the latter's id."""
        current = self._current(iteration)
        if current is None:
            self._end_iteration(time.time_ns(), None)
            attributes = self._chat_template.copy()
            if max_output_tokens is not None:
                attributes[names.REQUEST_MAX_TOKENS] = max_output_tokens
            current = self._iteration = Iteration(
                self._tracer, self._instruments, self._info, self.span.context, iteration, attributes
            )
            self._model_calls += 1
        return current.chat.trace_context.span_id

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
        span = Span(
            self._tracer,
            _spaced(names.OPERATION_EXECUTE_TOOL, name),
            SpanKind.INTERNAL,
            attributes,
            parent.context,
        )
        self._tools[call_id] = _ToolSpan(span, name, tool_type, current)
        self._tool_calls += 1
        return span.trace_context.span_id

    def tools_known(self, tools: Sequence[Tool]) -> None:
        """Take what the spans of calls say of their tools from these."""
        self._known, self._tools_by_name = tools, None

    def response_identified(self, iteration: int, response_id: str, model: str) -> None:
        """Note the response's id and the model that answers."""
        if current := self._current(iteration):
            current.response_identified(response_id, model)

    def output_began(self, iteration: int) -> None:
        """Note when the first output came."""
        if current := self._current(iteration):
            current.output_began()

    def output_chunks(self, iteration: int, count: int) -> None:
        """Note how many reads brought output."""
        if current := self._current(iteration):
            current.output_chunks(count)

    def headers_for_model(self, iteration: int) -> Mapping[str, str]:
        """Propagation headers of the model call's span."""
        current = self._current(iteration)
        return NO_HEADERS if current is None else current.chat.headers()

    def headers_for_tool(self, call_id: str) -> Mapping[str, str]:
        """Propagation headers of the tool's span."""
        tool = self._tools.get(call_id)
        return NO_HEADERS if tool is None else tool.span.headers()

    def in_tool(self, call_id: str) -> AbstractContextManager[object]:
        """Makes the tool's span current in this task."""
        tool = self._tools.get(call_id)
        return NO_CONTEXT if tool is None else tool.span.current()

    def event(self, iteration: int, time_ns: int, event: Event) -> None:
        """Close the spans that the event ends, and record what they measured."""
        current = self._current(iteration)
        match event:
            case ToolCallFinished():
                self._tool_finished(time_ns, event)
            case IterationStarted():
                if current is not None:
                    current.known(event)
            case IterationFinished():
                if current is not None:
                    current.chat_finished(time_ns, event)
            case IterationRetryScheduled():
                if current is not None:
                    current.retry_scheduled(time_ns, event)
            case RunFinished():
                self._run_finished(time_ns, event)
            case ApprovalRequested() | ApprovalResolved() | RunWaiting() | RunResumed() | AttachmentUpdated():
                self._caller_side(time_ns, event)
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
                | InputAppended()
                | HistoryTruncated()
                | ToolsChanged()
                | Notice()
            ):
                pass

    def _caller_side(
        self, time_ns: int, event: ApprovalRequested | ApprovalResolved | RunWaiting | RunResumed | AttachmentUpdated
    ) -> None:
        """What the run waits for, and how many files are in which state: their names are the caller's, and stay out."""
        if isinstance(event, AttachmentUpdated):
            self._attachments[event.attachment.attachment_id] = event.attachment.state
            states = list(self._attachments.values())
            for state in AttachmentState:
                self.span.attributes[f"{names.RUN_ATTACHMENTS}{state.value.lower()}"] = states.count(state)
            return
        if self._waits is None:
            self._waits = WaitSpans(self.span)
        self._waits.event(time_ns, event)

    def left(self) -> None:
        """End what is open without a word on how the run ended: that comes with another span of the trace."""
        if self.span.end_ns:
            return
        time_ns = time.time_ns()
        self._end_iteration(time_ns, None)
        for tool in self._tools.values():
            self._end_tool(tool, time_ns, None)
        self._tools.clear()
        if self._waits is not None:
            self._waits.end(time_ns)
        self.span.attributes[names.RUN_LEFT_WAITING] = True
        self.span.end(time_ns)

    def _current(self, number: int) -> Iteration | None:
        current = self._iteration
        return current if current is not None and current.number == number else None

    def _end_iteration(self, time_ns: int, error: str | None) -> None:
        """End the iteration and what still runs in it, as the run or its next iteration makes it end."""
        current = self._iteration
        if current is None:
            return
        self._iteration = None
        for call_id in [key for key, tool in self._tools.items() if tool.iteration is current]:
            self._end_tool(self._tools.pop(call_id), time_ns, error)
        current.end(time_ns, error)
        self._finish_reasons = current.finish_reasons
        self._input_tokens = _sum(self._input_tokens, current.usage.input_tokens)
        self._output_tokens = _sum(self._output_tokens, current.usage.output_tokens)

    def _tool(self, routed_name: str) -> Tool | None:
        tools = self._tools_by_name
        if tools is None:
            tools = self._tools_by_name = {tool.ref.routed_name: tool for tool in self._known}
        return tools.get(routed_name)

    def _tool_finished(self, time_ns: int, event: ToolCallFinished) -> None:
        if self._waits is not None:
            self._waits.event(time_ns, event)
        tool = self._tools.pop(event.result.call_id, None)
        if tool is None:  # it never executed: denied, not found, badly called
            return
        tool.span.attributes[names.TOOL_STATUS] = event.result.status.value
        add_failure(tool.span.attributes, event.result.failure)
        self._end_tool(tool, time_ns, tool_error(event.result))

    def _end_tool(self, tool: _ToolSpan, time_ns: int, error: str | None) -> None:
        if error is not None:
            tool.span.attributes[names.ERROR_TYPE] = error
        tool.span.end(time_ns)
        if tool.iteration is not None:
            tool.iteration.child_ended(tool.span.end_ns)
        self._instruments.tool(tool.name, tool.type, self._agent, tool.span.seconds, error)

    def _run_finished(self, time_ns: int, event: RunFinished) -> None:
        if self.span.end_ns:
            return
        error = run_error(event.outcome)
        self._end_iteration(time_ns, error)
        for tool in self._tools.values():
            self._end_tool(tool, time_ns, error)
        self._tools.clear()
        if self._waits is not None:
            self._waits.end(time_ns)
        attributes = self.span.attributes
        outcome = event.outcome
        attributes[names.RUN_OUTCOME] = outcome.kind.value
        attributes[names.RUN_ITERATIONS] = self._model_calls
        attributes[names.RUN_TOOL_CALLS] = self._tool_calls
        add_failure(attributes, outcome.failure)
        if self._finish_reasons is not None:
            attributes[names.RESPONSE_FINISH_REASONS] = self._finish_reasons
        # The sum of the children, never the run's own account: backends that add both up must get equal halves.
        if self._input_tokens is not None:
            attributes[names.USAGE_INPUT_TOKENS] = self._input_tokens
        if self._output_tokens is not None:
            attributes[names.USAGE_OUTPUT_TOKENS] = self._output_tokens
        if error is not None:
            attributes[names.ERROR_TYPE] = error
        self.span.end(time_ns)
        self._instruments.run(
            self._agent,
            clip(self._info.model.model),
            outcome.kind.value,
            self.span.seconds,
            error,
            inference_calls=self._model_calls,
            tool_calls=self._tool_calls,
        )


def _sum(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return b if a is None else a
    return a + b


def _spaced(operation: str, target: str) -> str:
    return f"{operation} {target}" if target else operation
