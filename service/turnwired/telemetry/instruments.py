"""What is measured, and with which attributes: one method per thing that ends. Knows no span and no run.

Each method looks its time series up once per combination of attributes and keeps them: ending a model call, eight
records, costs 4 µs. No id of a run, session, call or response is ever an attribute here.
"""

from __future__ import annotations

from typing import NamedTuple

from turnwired.domain.usage import Cost, Usage
from turnwired.telemetry import names
from turnwired.telemetry.metrics import Meter, Point
from turnwired.telemetry.names import Instrument

_MAX_KEPT = 512  # combinations kept; a process that has more looks the rest up each time


class ChatKey(NamedTuple):
    """What tells model calls apart. ``server_address`` may be empty: unknown."""

    provider: str
    model: str
    server_address: str
    server_port: int
    response_model: str


class _ChatPoints(NamedTuple):
    first_chunk: Point
    output_chunk: Point
    input_tokens: Point
    output_tokens: Point
    cache_read: Point
    cache_write: Point
    reasoning: Point


class _AgentPoints(NamedTuple):
    inference_calls: Point
    tool_calls: Point


class Instruments:
    """Records what ends into the process's metrics."""

    __slots__ = ("_agents", "_chats", "_dropped", "_meter", "_points")

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._chats: dict[ChatKey, _ChatPoints] = {}
        self._agents: dict[str, _AgentPoints] = {}
        self._points: dict[tuple[str | int, ...], Point] = {}
        self._dropped = meter.point(Instrument.SPANS_DROPPED, {})

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
        from the first to the last. Gaps between them are recorded
        as their mean, once per gap: count and sum are exact, and no delta costs anything.
        """
        duration = self._points.get(("chat", *key, error or ""))
        if duration is None:
            attributes = _chat_attributes(key)
            if error is not None:
                attributes[names.ERROR_TYPE] = error
            duration = self._keep(("chat", *key, error or ""), Instrument.CHAT_DURATION, attributes)
        duration.record(seconds)
        points = self._chats.get(key) or self._chat_points(key)
        if first_chunk is not None:
            points.first_chunk.record(first_chunk)
            if output_chunks > 1:
                gaps = output_chunks - 1
                points.output_chunk.record(max(0.0, streaming) / gaps, gaps)
        points.input_tokens.add(usage.input_tokens or 0)
        points.output_tokens.add(usage.output_tokens or 0)
        points.cache_read.add(usage.cache_read_tokens or 0)
        points.cache_write.add(usage.cache_write_tokens or 0)
        points.reasoning.add(usage.reasoning_tokens or 0)

    def cost(self, provider: str, model: str, cost: Cost) -> None:
        """A model call was priced."""
        point = self._points.get(("cost", provider, model, cost.currency_code))
        if point is None:
            point = self._keep(
                ("cost", provider, model, cost.currency_code),
                Instrument.COST,
                {
                    names.PROVIDER_NAME: provider,
                    names.REQUEST_MODEL: model,
                    names.COST_CURRENCY: cost.currency_code,
                },
            )
        point.add(cost.amount_nanos / 1e9)

    def retry(self, provider: str, model: str, reason: str) -> None:
        """A model call will be tried again."""
        self._meter.point(
            Instrument.RETRIES,
            {names.PROVIDER_NAME: provider, names.REQUEST_MODEL: model, names.FAILURE_REASON: reason},
        ).add(1)

    def tool(self, name: str, tool_type: str, agent: str, seconds: float, error: str | None) -> None:
        """A tool's execution ended."""
        key = ("tool", name, tool_type, agent, error or "")
        point = self._points.get(key)
        if point is None:
            attributes: dict[str, str | int | bool] = {names.TOOL_NAME: name, names.TOOL_TYPE: tool_type}
            _put(attributes, names.AGENT_NAME, agent)
            _put(attributes, names.ERROR_TYPE, error)
            point = self._keep(key, Instrument.TOOL_DURATION, attributes)
        point.record(seconds)

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
        points = self._agents.get(agent) or self._agent_points(agent)
        points.inference_calls.record(inference_calls)
        points.tool_calls.record(tool_calls)
        key = ("run", agent, model, error or "")
        duration = self._points.get(key)
        if duration is None:
            attributes: dict[str, str | int | bool] = {
                names.OPERATION_NAME: names.OPERATION_INVOKE_AGENT,
                names.REQUEST_MODEL: model,
            }
            _put(attributes, names.AGENT_NAME, agent)
            _put(attributes, names.ERROR_TYPE, error)
            duration = self._keep(key, Instrument.AGENT_DURATION, attributes)
        duration.record(seconds)
        runs = self._points.get(("runs", agent, outcome))
        if runs is None:
            attributes = {names.RUN_OUTCOME: outcome}
            _put(attributes, names.AGENT_NAME, agent)
            runs = self._keep(("runs", agent, outcome), Instrument.RUNS, attributes)
        runs.add(1)

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
        key = ("mcp", method, tool or "", protocol_version or "", transport, error or "")
        point = self._points.get(key)
        if point is None:
            attributes: dict[str, str | int | bool] = {
                names.MCP_METHOD_NAME: method,
                names.NETWORK_TRANSPORT: transport,
            }
            _put(attributes, names.TOOL_NAME, tool)
            _put(attributes, names.MCP_PROTOCOL_VERSION, protocol_version)
            _put(attributes, names.ERROR_TYPE, error)
            point = self._keep(key, Instrument.MCP_DURATION, attributes)
        point.record(seconds)

    def rpc(self, method: str, code: str, seconds: float) -> None:
        """An RPC ended with the status of this name."""
        key = ("rpc", method, code)
        point = self._points.get(key)
        if point is None:
            attributes: dict[str, str | int | bool] = {
                names.RPC_SYSTEM_NAME: names.RPC_SYSTEM_GRPC,
                names.RPC_METHOD: method,
                names.RPC_STATUS_CODE: code,
            }
            if code in names.RPC_ERROR_CODES:
                attributes[names.ERROR_TYPE] = code
            point = self._keep(key, Instrument.RPC_DURATION, attributes)
        point.record(seconds)

    def dropped(self, count: int) -> None:
        """Spans did not reach the collector."""
        self._dropped.add(count)

    def _keep(
        self, key: tuple[str | int, ...], instrument: Instrument, attributes: dict[str, str | int | bool]
    ) -> Point:
        point = self._meter.point(instrument, attributes)
        if len(self._points) < _MAX_KEPT:
            self._points[key] = point
        return point

    def _chat_points(self, key: ChatKey) -> _ChatPoints:
        attributes = _chat_attributes(key)
        tokens = {**attributes, names.TOKEN_MODALITY: names.MODALITY_UNKNOWN}
        point = self._meter.point
        points = _ChatPoints(
            point(Instrument.CHAT_FIRST_CHUNK, attributes),
            point(Instrument.CHAT_OUTPUT_CHUNK, attributes),
            point(Instrument.INPUT_TOKENS, tokens),
            point(Instrument.OUTPUT_TOKENS, tokens),
            point(Instrument.CACHE_READ_TOKENS, tokens),
            point(Instrument.CACHE_WRITE_TOKENS, tokens),
            point(Instrument.REASONING_TOKENS, tokens),
        )
        if len(self._chats) < _MAX_KEPT:
            self._chats[key] = points
        return points

    def _agent_points(self, agent: str) -> _AgentPoints:
        attributes: dict[str, str | int | bool] = {}
        _put(attributes, names.AGENT_NAME, agent)
        point = self._meter.point
        points = _AgentPoints(
            point(Instrument.AGENT_INFERENCE_CALLS, attributes), point(Instrument.AGENT_TOOL_CALLS, attributes)
        )
        if len(self._agents) < _MAX_KEPT:
            self._agents[agent] = points
        return points


def _put(attributes: dict[str, str | int | bool], name: str, value: str | None) -> None:
    if value:
        attributes[name] = value


def _chat_attributes(key: ChatKey) -> dict[str, str | int | bool]:
    attributes: dict[str, str | int | bool] = {
        names.OPERATION_NAME: names.OPERATION_CHAT,
        names.PROVIDER_NAME: key.provider,
        names.REQUEST_MODEL: key.model,
    }
    if key.server_address:
        attributes[names.SERVER_ADDRESS] = key.server_address
        attributes[names.SERVER_PORT] = key.server_port
    _put(attributes, names.RESPONSE_MODEL, key.response_model)
    return attributes
