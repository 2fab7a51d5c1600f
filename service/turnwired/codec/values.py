"""Small values that everything else is made of: time, tokens, money, models, failures, outcomes, tool names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnwired.codec.enums import (
    COLLISION_RESOLUTION,
    FAILURE_PHASE,
    OUTCOME_KIND,
    REASON,
    TOOL_CHOICE_MODE,
    TOOL_SOURCE,
    USAGE_SOURCE,
)
from turnwired.codec.model import model_from_pb, model_to_pb
from turnwired.domain.event import ModelUsage
from turnwired.domain.failure import Failure
from turnwired.domain.model import TraceContext
from turnwired.domain.outcome import LimitTrip, Notice, Outcome
from turnwired.domain.tool import (
    ClientTool,
    Tool,
    ToolAnnotations,
    ToolChoice,
    ToolChoiceMode,
    ToolCollision,
    ToolRef,
    ToolSelection,
)
from turnwired.domain.usage import Cost, Usage, UsageSource

if TYPE_CHECKING:
    from google.protobuf.duration_pb2 import Duration
    from google.protobuf.timestamp_pb2 import Timestamp

    from turnwire.v1 import outcome_pb2, tool_pb2, trace_pb2, usage_pb2

NS = 1_000_000_000


def time_to_pb(time_ns: int, out: Timestamp) -> None:
    """Unix time in nanoseconds. Negative times are floored, as Timestamp wants it."""
    out.seconds, out.nanos = divmod(time_ns, NS)


def time_from_pb(message: Timestamp) -> int:
    """Unix time in nanoseconds; 0 for an unset message."""
    return message.seconds * NS + message.nanos


def duration_to_pb(duration_ns: int, out: Duration) -> None:
    """Nanoseconds; of both parts the sign is the same, as Duration wants it."""
    seconds, nanos = divmod(abs(duration_ns), NS)
    sign = -1 if duration_ns < 0 else 1
    out.seconds, out.nanos = sign * seconds, sign * nanos


def duration_from_pb(message: Duration) -> int:
    """Nanoseconds; 0 for an unset message."""
    return message.seconds * NS + message.nanos


def seconds_to_pb(seconds: float, out: Duration) -> None:
    """Seconds, rounded to nanoseconds."""
    duration_to_pb(round(seconds * NS), out)


def seconds_from_pb(message: Duration) -> float:
    """Seconds."""
    return duration_from_pb(message) / NS


def usage_to_pb(value: Usage, out: usage_pb2.Usage) -> None:
    """Counts that are None stay unset."""
    if value.input_tokens is not None:
        out.input_tokens = value.input_tokens
    if value.output_tokens is not None:
        out.output_tokens = value.output_tokens
    if value.reasoning_tokens is not None:
        out.reasoning_tokens = value.reasoning_tokens
    if value.cache_read_tokens is not None:
        out.cache_read_tokens = value.cache_read_tokens
    if value.cache_write_tokens is not None:
        out.cache_write_tokens = value.cache_write_tokens
    if value.source is not UsageSource.UNSPECIFIED:  # an empty usage stays an unset message
        out.source = USAGE_SOURCE.to_wire[value.source]


def usage_from_pb(message: usage_pb2.Usage) -> Usage:
    """Unset counts are None."""
    return Usage(
        message.input_tokens if message.HasField("input_tokens") else None,
        message.output_tokens if message.HasField("output_tokens") else None,
        message.reasoning_tokens if message.HasField("reasoning_tokens") else None,
        message.cache_read_tokens if message.HasField("cache_read_tokens") else None,
        message.cache_write_tokens if message.HasField("cache_write_tokens") else None,
        USAGE_SOURCE.from_wire(message.source, "source"),
    )


def cost_to_pb(value: Cost, out: usage_pb2.Cost) -> None:
    """All fields."""
    out.currency_code = value.currency_code
    out.amount_nanos = value.amount_nanos
    out.rate_card = value.rate_card
    out.complete = value.complete


def cost_from_pb(message: usage_pb2.Cost) -> Cost:
    """All fields."""
    return Cost(message.currency_code, message.amount_nanos, message.rate_card, message.complete)


def model_usage_to_pb(value: ModelUsage, out: usage_pb2.ModelUsage) -> None:
    """All fields."""
    model_to_pb(value.model, out.model)
    usage_to_pb(value.usage, out.usage)
    if value.cost is not None:
        cost_to_pb(value.cost, out.cost)


def model_usage_from_pb(message: usage_pb2.ModelUsage) -> ModelUsage:
    """All fields."""
    cost = cost_from_pb(message.cost) if message.HasField("cost") else None
    return ModelUsage(model_from_pb(message.model), usage_from_pb(message.usage), cost)


def trace_context_to_pb(value: TraceContext, out: trace_pb2.TraceContext) -> None:
    """All fields; an empty context stays an unset message."""
    if value.trace_id or value.span_id:
        out.trace_id = value.trace_id
        out.span_id = value.span_id


def trace_context_from_pb(message: trace_pb2.TraceContext) -> TraceContext:
    """All fields."""
    return TraceContext(message.trace_id, message.span_id)


def failure_to_pb(value: Failure, out: outcome_pb2.Failure) -> None:
    """All fields."""
    out.phase = FAILURE_PHASE.to_wire[value.phase]
    out.reason = REASON.to_wire[value.reason]
    out.message = value.message
    out.retryable = value.retryable
    if value.retry_after is not None:
        out.retry_after.SetInParent()
        seconds_to_pb(value.retry_after, out.retry_after)
    out.iteration = value.iteration
    if value.call_id is not None:
        out.call_id = value.call_id
    out.origin = value.origin
    out.origin_code = value.origin_code
    out.metadata.update(value.metadata)


def failure_from_pb(message: outcome_pb2.Failure) -> Failure:
    """All fields; phase and reason must be set."""
    return Failure(
        phase=FAILURE_PHASE.from_wire(message.phase, "phase"),
        reason=REASON.from_wire(message.reason, "reason"),
        message=message.message,
        retryable=message.retryable,
        retry_after=seconds_from_pb(message.retry_after) if message.HasField("retry_after") else None,
        iteration=message.iteration,
        call_id=message.call_id if message.HasField("call_id") else None,
        origin=message.origin,
        origin_code=message.origin_code,
        metadata=dict(message.metadata),
    )


def notice_to_pb(value: Notice, out: outcome_pb2.Notice) -> None:
    """All fields."""
    out.reason = REASON.to_wire[value.reason]
    out.message = value.message
    out.metadata.update(value.metadata)


def notice_from_pb(message: outcome_pb2.Notice) -> Notice:
    """All fields; reason must be set."""
    return Notice(REASON.from_wire(message.reason, "reason"), message.message, dict(message.metadata))


def outcome_to_pb(value: Outcome, out: outcome_pb2.Outcome) -> None:
    """All fields."""
    out.kind = OUTCOME_KIND.to_wire[value.kind]
    if value.failure is not None:
        failure_to_pb(value.failure, out.failure)
    if value.limit_trip is not None:
        trip = out.limit_trip
        trip.SetInParent()
        trip.policy_path = value.limit_trip.policy_path
        trip.limit = value.limit_trip.limit
        trip.observed = value.limit_trip.observed
        trip.estimated = value.limit_trip.estimated
    out.recoverable = value.recoverable
    out.partial = value.partial


def outcome_from_pb(message: outcome_pb2.Outcome) -> Outcome:
    """All fields; kind must be set."""
    trip = message.limit_trip
    return Outcome(
        kind=OUTCOME_KIND.from_wire(message.kind, "kind"),
        failure=failure_from_pb(message.failure) if message.HasField("failure") else None,
        limit_trip=LimitTrip(trip.policy_path, trip.limit, trip.observed, trip.estimated)
        if message.HasField("limit_trip")
        else None,
        recoverable=message.recoverable,
        partial=message.partial,
    )


def tool_ref_to_pb(value: ToolRef, out: tool_pb2.ToolRef) -> None:
    """All fields."""
    out.SetInParent()
    out.routed_name = value.routed_name
    out.native_name = value.native_name
    out.source = TOOL_SOURCE.to_wire[value.source]
    if value.server_id is not None:
        out.server_id = value.server_id


def tool_ref_from_pb(message: tool_pb2.ToolRef) -> ToolRef:
    """All fields; an unset source is that of a tool that nobody has."""
    return ToolRef(
        message.routed_name,
        message.native_name,
        TOOL_SOURCE.from_wire(message.source, "source"),
        message.server_id if message.HasField("server_id") else None,
    )


def _annotations_to_pb(value: ToolAnnotations, out: tool_pb2.ToolAnnotations) -> None:
    if value.read_only is not None:
        out.read_only = value.read_only
    if value.destructive is not None:
        out.destructive = value.destructive
    if value.idempotent is not None:
        out.idempotent = value.idempotent
    if value.open_world is not None:
        out.open_world = value.open_world


def annotations_from_pb(message: tool_pb2.ToolAnnotations) -> ToolAnnotations:
    """All fields."""
    return ToolAnnotations(
        read_only=message.read_only if message.HasField("read_only") else None,
        destructive=message.destructive if message.HasField("destructive") else None,
        idempotent=message.idempotent if message.HasField("idempotent") else None,
        open_world=message.open_world if message.HasField("open_world") else None,
    )


def tool_to_pb(value: Tool, out: tool_pb2.Tool) -> None:
    """All fields of the domain; ``permission`` is the caller's business."""
    tool_ref_to_pb(value.ref, out.ref)
    out.title = value.title
    out.description = value.description
    out.input_schema_json = value.input_schema_json
    if value.output_schema_json is not None:
        out.output_schema_json = value.output_schema_json
    _annotations_to_pb(value.annotations, out.annotations)
    out.lazy = value.lazy


def tool_from_pb(message: tool_pb2.Tool) -> Tool:
    """The inverse of ``tool_to_pb``."""
    return Tool(
        ref=tool_ref_from_pb(message.ref),
        description=message.description,
        input_schema_json=message.input_schema_json,
        output_schema_json=message.output_schema_json if message.HasField("output_schema_json") else None,
        title=message.title,
        annotations=annotations_from_pb(message.annotations),
        lazy=message.lazy,
    )


def tool_collision_to_pb(value: ToolCollision, out: tool_pb2.ToolCollision) -> None:
    """All fields."""
    out.routed_name = value.routed_name
    if value.winner is not None:
        tool_ref_to_pb(value.winner, out.winner)
    for loser in value.losers:
        tool_ref_to_pb(loser, out.losers.add())
    out.resolution = COLLISION_RESOLUTION.to_wire[value.resolution]


def tool_collision_from_pb(message: tool_pb2.ToolCollision) -> ToolCollision:
    """All fields; resolution must be set."""
    return ToolCollision(
        message.routed_name,
        tool_ref_from_pb(message.winner) if message.HasField("winner") else None,
        tuple(tool_ref_from_pb(loser) for loser in message.losers),
        COLLISION_RESOLUTION.from_wire(message.resolution, "resolution"),
    )


def tool_selection_to_pb(value: ToolSelection, out: tool_pb2.ToolSelection) -> None:
    """All but ``narrow``, which only a prepared run has. A named tool wins over a mode: there is room for one."""
    out.include.extend(value.include)
    out.exclude.extend(value.exclude)
    if value.choice.routed_name is not None:
        out.choice.routed_name = value.choice.routed_name
    elif value.choice.mode is not ToolChoiceMode.UNSPECIFIED:
        out.choice.mode = TOOL_CHOICE_MODE.to_wire[value.choice.mode]
    for tool in value.client_tools:
        client_tool = out.client_tools.add()
        client_tool.name = tool.name
        client_tool.description = tool.description
        client_tool.input_schema_json = tool.input_schema_json
        _annotations_to_pb(tool.annotations, client_tool.annotations)


def tool_selection_from_pb(message: tool_pb2.ToolSelection) -> ToolSelection:
    """The inverse of ``tool_selection_to_pb``."""
    if message.choice.WhichOneof("choice") == "routed_name":
        choice = ToolChoice(routed_name=message.choice.routed_name)
    else:
        choice = ToolChoice(TOOL_CHOICE_MODE.from_wire(message.choice.mode, "choice.mode"))
    client_tools = tuple(
        ClientTool(tool.name, tool.description, tool.input_schema_json, annotations_from_pb(tool.annotations))
        for tool in message.client_tools
    )
    return ToolSelection(
        include=tuple(message.include), exclude=tuple(message.exclude), choice=choice, client_tools=client_tools
    )
