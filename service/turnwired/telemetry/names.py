"""Every name that leaves this process in a span or a metric, with units and buckets. Imports nothing.

Follows OpenTelemetry semantic conventions for generative AI 0.1.0 on core 1.45 (GenAI, MCP and RPC pages). What they
do not name is ours and stands under ``turnwire.``. Nothing here carries prompts, answers, arguments or results.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

SCOPE: Final = "turnwired"
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/gen-ai/0.1.0"

# --- spans -----------------------------------------------------------------------------------------------------------

ITERATION_SPAN: Final = "turnwire.iteration"
RETRY_EVENT: Final = "turnwire.retry"

OPERATION_INVOKE_AGENT: Final = "invoke_agent"
OPERATION_CHAT: Final = "chat"
OPERATION_EXECUTE_TOOL: Final = "execute_tool"

# --- attributes of the conventions -----------------------------------------------------------------------------------

ERROR_TYPE: Final = "error.type"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
NETWORK_TRANSPORT: Final = "network.transport"

OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
AGENT_NAME: Final = "gen_ai.agent.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STREAM: Final = "gen_ai.request.stream"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
REQUEST_TOP_P: Final = "gen_ai.request.top_p"
REQUEST_FREQUENCY_PENALTY: Final = "gen_ai.request.frequency_penalty"
REQUEST_PRESENCE_PENALTY: Final = "gen_ai.request.presence_penalty"
REQUEST_TOP_K: Final = "gen_ai.request.top_k"
REQUEST_STOP_SEQUENCES: Final = "gen_ai.request.stop_sequences"
OUTPUT_TYPE: Final = "gen_ai.output.type"
REQUEST_SEED: Final = "gen_ai.request.seed"
RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
RESPONSE_TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
USAGE_CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
USAGE_CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_write.input_tokens"
USAGE_REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
TOKEN_MODALITY: Final = "gen_ai.token.modality"  # noqa: S105 - tokens of a model, not of a caller
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_DESCRIPTION: Final = "gen_ai.tool.description"

MCP_METHOD_NAME: Final = "mcp.method.name"
MCP_PROTOCOL_VERSION: Final = "mcp.protocol.version"
JSONRPC_REQUEST_ID: Final = "jsonrpc.request.id"

RPC_SYSTEM_NAME: Final = "rpc.system.name"
RPC_METHOD: Final = "rpc.method"
RPC_METHOD_ORIGINAL: Final = "rpc.method_original"
RPC_STATUS_CODE: Final = "rpc.status_code"


# --- attributes of ours ----------------------------------------------------------------------------------------------

RUN_ID: Final = "turnwire.run.id"
RUN_OUTCOME: Final = "turnwire.run.outcome"
RUN_ITERATIONS: Final = "turnwire.run.iterations"
RUN_TOOL_CALLS: Final = "turnwire.run.tool_calls"
RUN_LABEL: Final = "turnwire.run.label."
RUN_ATTACHMENTS: Final = "turnwire.run.attachments."
RUN_WAIT_DURATION: Final = "turnwire.run.wait_duration"
RUN_LEFT_WAITING: Final = "turnwire.run.left_waiting"
WAITING_APPROVALS: Final = "turnwire.waiting.approvals"
WAITING_CALLS: Final = "turnwire.waiting.client_tool_calls"
APPROVAL_ID: Final = "turnwire.approval.id"
APPROVAL_KIND: Final = "turnwire.approval.kind"
APPROVAL_DECISION: Final = "turnwire.approval.decision"
EVENT_APPROVAL_REQUESTED: Final = "turnwire.approval.requested"
EVENT_APPROVAL_RESOLVED: Final = "turnwire.approval.resolved"
EVENT_RUN_WAITING: Final = "turnwire.run.waiting"
EVENT_RUN_RESUMED: Final = "turnwire.run.resumed"
STREAM_END: Final = "turnwire.provider.stream_end"
STREAM_END_LAYER: Final = "turnwire.provider.stream_end.layer"
ITERATION_NUMBER: Final = "turnwire.iteration.number"
ITERATION_KIND: Final = "turnwire.iteration.kind"
ITERATION_ATTEMPTS: Final = "turnwire.iteration.attempts"
TOOL_SOURCE: Final = "turnwire.tool.source"
TOOL_STATUS: Final = "turnwire.tool.status"
TOOL_SERVER: Final = "turnwire.tool.server"
FAILURE_PHASE: Final = "turnwire.failure.phase"
FAILURE_REASON: Final = "turnwire.failure.reason"
COST_AMOUNT: Final = "turnwire.cost.amount"
COST_CURRENCY: Final = "turnwire.cost.currency"
COST_COMPLETE: Final = "turnwire.cost.complete"
USAGE_SOURCE: Final = "turnwire.usage.source"
CANCELLED: Final = "turnwire.cancelled"
RETRY_DELAY: Final = "turnwire.retry.delay"
RETRY_ATTEMPT: Final = "turnwire.retry.attempt"

# --- values ----------------------------------------------------------------------------------------------------------

RPC_SYSTEM_GRPC: Final = "grpc"
METHOD_OTHER: Final = "_OTHER"
ERROR_OTHER: Final = "_OTHER"
ERROR_PROVIDER_EOF: Final = "PROVIDER_EOF"
ERROR_TOOL: Final = "tool_error"
TOOL_TYPE_FUNCTION: Final = "function"
TOOL_TYPE_EXTENSION: Final = "extension"
MODALITY_UNKNOWN: Final = "unknown"
FINISH_ERROR: Final = "error"
OUTPUT_JSON: Final = "json"

RPC_ERROR_CODES: Final = frozenset(
    {"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"}
)
"""The codes that are the server's fault: only these make the status of a SERVER span ERROR."""

# --- metrics ---------------------------------------------------------------------------------------------------------


def _doubling(first: float, count: int) -> tuple[float, ...]:
    # Rounded, because 0.01 * 2**13 is not the float that a reader writes as 81.92.
    return tuple(round(first * 2**exponent, 2) for exponent in range(count))


_CALL_SECONDS = _doubling(0.01, 14)  # 0.01 .. 81.92
_AGENT_SECONDS = _doubling(0.1, 13)  # 0.1 .. 409.6
_MCP_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_RPC_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_CALLS = _doubling(1, 8)  # 1 .. 128


@dataclass(frozen=True, slots=True)
class Spec:
    """One metric: ``bounds`` are a histogram's bucket limits in ``unit``; a metric without them is a counter."""

    name: str
    unit: str
    description: str
    bounds: tuple[float, ...] = ()


class Instrument(Enum):
    """Every metric."""

    CHAT_DURATION = Spec("gen_ai.client.inference.duration", "s", "Duration of a model call.", _CALL_SECONDS)
    CHAT_FIRST_CHUNK = Spec(
        "gen_ai.client.inference.time_to_first_chunk", "s", "Time from request to first output.", _CALL_SECONDS
    )
    CHAT_OUTPUT_CHUNK = Spec(
        "gen_ai.client.inference.time_per_output_chunk",
        "s",
        "Time between reads that brought output; the mean of a model call.",
        _CALL_SECONDS,
    )
    INPUT_TOKENS = Spec("gen_ai.client.inference.usage.input_tokens", "{token}", "Input tokens, cached ones included.")
    OUTPUT_TOKENS = Spec("gen_ai.client.inference.usage.output_tokens", "{token}", "Output tokens, reasoning included.")
    CACHE_READ_TOKENS = Spec(
        "gen_ai.client.inference.usage.cache_read.input_tokens", "{token}", "Input tokens read from the prompt cache."
    )
    CACHE_WRITE_TOKENS = Spec(
        "gen_ai.client.inference.usage.cache_write.input_tokens", "{token}", "Input tokens written to the prompt cache."
    )
    REASONING_TOKENS = Spec(
        "gen_ai.client.inference.usage.reasoning.output_tokens", "{token}", "Output tokens spent on reasoning."
    )
    AGENT_DURATION = Spec("gen_ai.invoke_agent.duration", "s", "Duration of a run.", _AGENT_SECONDS)
    AGENT_INFERENCE_CALLS = Spec(
        "gen_ai.invoke_agent.inference_calls", "{inference_call}", "Model calls of a run.", _CALLS
    )
    AGENT_TOOL_CALLS = Spec("gen_ai.invoke_agent.tool_calls", "{tool_call}", "Tools executed in a run.", _CALLS)
    TOOL_DURATION = Spec("gen_ai.execute_tool.duration", "s", "Duration of a tool execution.", _CALL_SECONDS)
    MCP_DURATION = Spec("mcp.client.operation.duration", "s", "Duration of a request to an MCP server.", _MCP_SECONDS)
    RPC_DURATION = Spec("rpc.server.call.duration", "s", "Duration of an RPC, its streams included.", _RPC_SECONDS)
    RUNS = Spec("turnwire.runs", "{run}", "Runs that ended, by outcome.")
    RETRIES = Spec("turnwire.iteration.retries", "{retry}", "Model calls tried again, by reason.")
    COST = Spec("turnwire.cost", "{currency}", "Cost of model calls, in units of the currency.")
    SPANS_DROPPED = Spec("turnwire.telemetry.spans_dropped", "{span}", "Spans that never reached the collector.")
