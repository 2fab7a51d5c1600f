"""What is measured, and with which attributes: one method per thing that ends. Knows no span and no run.

No id of a run, session, call or response is ever an attribute here; the SDK bounds the attribute sets of an
instrument (2000, then ``otel.metric.overflow``). Attributes that repeat are built once per combination and kept.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from opentelemetry.metrics import Counter, Histogram, Meter

from turnwired.domain.usage import Cost, Usage
from turnwired.telemetry import names
from turnwired.telemetry.names import Instrument

MetricAttributes = dict[str, str | int]

_MAX_KEPT = 512  # combinations of attributes


class ChatKey(NamedTuple):
    """What tells model calls apart. ``server_address`` may be empty: unknown."""

    provider: str
    model: str
    server_address: str
    server_port: int
    response_model: str


class Instruments:
    """Records what ends into the process's metrics."""

    def __init__(self, meter: Meter) -> None:
        self._chat = _histogram(meter, Instrument.CHAT_DURATION)
        self._first_chunk = _histogram(meter, Instrument.CHAT_FIRST_CHUNK)
        self._output_chunk = _histogram(meter, Instrument.CHAT_OUTPUT_CHUNK)
        self._input_tokens = _counter(meter, Instrument.INPUT_TOKENS)
        self._output_tokens = _counter(meter, Instrument.OUTPUT_TOKENS)
        self._cache_read = _counter(meter, Instrument.CACHE_READ_TOKENS)
        self._cache_write = _counter(meter, Instrument.CACHE_WRITE_TOKENS)
        self._reasoning = _counter(meter, Instrument.REASONING_TOKENS)
        self._cost = _counter(meter, Instrument.COST)
        self._retries = _counter(meter, Instrument.RETRIES)
        self._tool = _histogram(meter, Instrument.TOOL_DURATION)
        self._agent = _histogram(meter, Instrument.AGENT_DURATION)
        self._inference_calls = _histogram(meter, Instrument.AGENT_INFERENCE_CALLS)
        self._tool_calls = _histogram(meter, Instrument.AGENT_TOOL_CALLS)
        self._runs = _counter(meter, Instrument.RUNS)
        self._mcp = _histogram(meter, Instrument.MCP_DURATION)
        self._rpc = _histogram(meter, Instrument.RPC_DURATION)

    def chat(
        self,
        key: ChatKey,
        seconds: float,
        error: str | None,
        usage: Usage,
        *,
        first_chunk: float | None,
        output_chunks: int,
        streaming: float,
    ) -> None:
        """A model call ended after ``seconds``; its first output came after ``first_chunk`` seconds, if any came.

        ``output_chunks`` is the number of reads that brought output, 0 when not known, and ``streaming`` the seconds
        from the first to the last. Gaps between them are recorded as their mean, once per call: no delta costs
        anything.
        """
        attributes = _chat_attributes(key)
        self._chat.record(seconds, attributes if error is None else {**attributes, names.ERROR_TYPE: error})
        if first_chunk is not None:
            self._first_chunk.record(first_chunk, attributes)
            if output_chunks > 1:
                self._output_chunk.record(max(0.0, streaming) / (output_chunks - 1), attributes)
        tokens = _token_attributes(key)
        self._input_tokens.add(usage.input_tokens or 0, tokens)
        self._output_tokens.add(usage.output_tokens or 0, tokens)
        self._cache_read.add(usage.cache_read_tokens or 0, tokens)
        self._cache_write.add(usage.cache_write_tokens or 0, tokens)
        self._reasoning.add(usage.reasoning_tokens or 0, tokens)

    def cost(self, provider: str, model: str, cost: Cost) -> None:
        """A model call was priced."""
        self._cost.add(
            cost.amount_nanos / 1e9,
            {names.PROVIDER_NAME: provider, names.REQUEST_MODEL: model, names.COST_CURRENCY: cost.currency_code},
        )

    def retry(self, provider: str, model: str, reason: str) -> None:
        """A model call will be tried again."""
        self._retries.add(1, {names.PROVIDER_NAME: provider, names.REQUEST_MODEL: model, names.FAILURE_REASON: reason})

    def tool(self, name: str, tool_type: str, agent: str, seconds: float, error: str | None) -> None:
        """A tool's execution ended."""
        self._tool.record(
            seconds,
            _present(
                (names.TOOL_NAME, name),
                (names.TOOL_TYPE, tool_type),
                (names.AGENT_NAME, agent),
                (names.ERROR_TYPE, error),
            ),
        )

    def run(
        self,
        agent: str,
        model: str,
        outcome: str,
        seconds: float,
        error: str | None,
        *,
        inference_calls: int,
        tool_calls: int,
    ) -> None:
        """A run ended."""
        named = _present((names.AGENT_NAME, agent))
        self._inference_calls.record(inference_calls, named)
        self._tool_calls.record(tool_calls, named)
        self._runs.add(1, {**named, names.RUN_OUTCOME: outcome})
        self._agent.record(
            seconds,
            _present(
                (names.OPERATION_NAME, names.OPERATION_INVOKE_AGENT),
                (names.REQUEST_MODEL, model),
                (names.AGENT_NAME, agent),
                (names.ERROR_TYPE, error),
            ),
        )

    def mcp(
        self,
        method: str,
        tool: str | None,
        protocol_version: str | None,
        transport: str,
        seconds: float,
        error: str | None,
    ) -> None:
        """A request to an MCP server ended."""
        self._mcp.record(
            seconds,
            _present(
                (names.MCP_METHOD_NAME, method),
                (names.NETWORK_TRANSPORT, transport),
                (names.TOOL_NAME, tool),
                (names.MCP_PROTOCOL_VERSION, protocol_version),
                (names.ERROR_TYPE, error),
            ),
        )

    def rpc(self, method: str, code: str, seconds: float) -> None:
        """An RPC ended with the status of this name."""
        self._rpc.record(
            seconds,
            _present(
                (names.RPC_SYSTEM_NAME, names.RPC_SYSTEM_GRPC),
                (names.RPC_METHOD, method),
                (names.RPC_STATUS_CODE, code),
                (names.ERROR_TYPE, code if code in names.RPC_ERROR_CODES else None),
            ),
        )


def _histogram(meter: Meter, instrument: Instrument) -> Histogram:
    spec = instrument.value
    return meter.create_histogram(
        spec.name, spec.unit, spec.description, explicit_bucket_boundaries_advisory=spec.bounds
    )


def _counter(meter: Meter, instrument: Instrument) -> Counter:
    return meter.create_counter(instrument.value.name, instrument.value.unit, instrument.value.description)


@lru_cache(_MAX_KEPT)
def _present(*pairs: tuple[str, str | None]) -> MetricAttributes:
    """The attributes that have a value. Shared: never change them."""
    return {name: value for name, value in pairs if value}


@lru_cache(_MAX_KEPT)
def _chat_attributes(key: ChatKey) -> MetricAttributes:
    attributes: MetricAttributes = {
        names.OPERATION_NAME: names.OPERATION_CHAT,
        names.PROVIDER_NAME: key.provider,
        names.REQUEST_MODEL: key.model,
    }
    if key.server_address:
        attributes[names.SERVER_ADDRESS] = key.server_address
        attributes[names.SERVER_PORT] = key.server_port
    if key.response_model:
        attributes[names.RESPONSE_MODEL] = key.response_model
    return attributes


@lru_cache(_MAX_KEPT)
def _token_attributes(key: ChatKey) -> MetricAttributes:
    return {**_chat_attributes(key), names.TOKEN_MODALITY: names.MODALITY_UNKNOWN}
