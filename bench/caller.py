"""A caller of RunTurn: for the service and for the relay, which speak the same contract. Reads what a client reads."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import grpc
import grpc.aio

from bench.turn import MCP_TOOL, PROMPT, OnText, Turn, TurnFailure
from turnwire.v1 import message_pb2, outcome_pb2, tool_pb2, turn_service_pb2

PROVIDER = "bench"
METHOD = "/turnwire.v1.TurnService/RunTurn"
TURNS_PER_CHANNEL = 100
TURN_SECONDS = 120.0


@lru_cache(maxsize=200)
def request_of(turn: Turn) -> bytes:
    """The request, encoded: what the caller does is not measured."""
    request = turn_service_pb2.RunTurnRequest()
    spec = request.turn
    spec.model.provider = PROVIDER
    spec.model.model = turn.model
    for number, text in enumerate((*turn.history, PROMPT)):
        role = message_pb2.ROLE_USER if number % 2 == 0 else message_pb2.ROLE_ASSISTANT
        spec.input.add(role=role).parts.add().text = text
    spec.tools.include.extend(f"{PROVIDER}__{MCP_TOOL}" if key == "mcp" else key for key in turn.tools)
    if not turn.tools:
        spec.tools.choice.mode = tool_pb2.TOOL_CHOICE_MODE_NONE
    return request.SerializeToString()


class GrpcTarget:
    """Runs turns on a server. Turns beyond a hundred at once go over further connections."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._channels: list[grpc.aio.Channel] = []
        self._active = 0

    def _channel(self) -> grpc.aio.Channel:
        wanted = self._active // TURNS_PER_CHANNEL
        while len(self._channels) <= wanted:
            options = [("grpc.use_local_subchannel_pool", 1)]  # else they would share one connection
            self._channels.append(grpc.aio.insecure_channel(self._address, options))
        return self._channels[wanted]

    async def turn(self, turn: Turn, on_text: OnText) -> None:
        """As the target says."""
        read = turn_service_pb2.RunTurnResponse.FromString
        call: grpc.aio.UnaryStreamMultiCallable[Any, Any] = self._channel().unary_stream(METHOD)  # bytes both ways
        stream = call(request_of(turn), timeout=TURN_SECONDS)
        self._active += 1
        frame: turn_service_pb2.RunTurnResponse | None = None
        try:
            async for data in stream:
                frame = read(data)
                for event in frame.events:
                    # Only deltas count: the text is said again in PartFinished and RunFinished.
                    if event.HasField("text_delta"):
                        on_text(event.text_delta.text)
        finally:
            self._active -= 1
        last = frame.events[-1] if frame is not None and frame.events else None
        if last is None or not last.HasField("run_finished"):
            raise TurnFailure("the stream ended without RunFinished")
        if last.run_finished.outcome.kind != outcome_pb2.OUTCOME_KIND_ANSWERED:
            raise TurnFailure(f"the run ended otherwise: {last.run_finished.outcome}")

    async def aclose(self) -> None:
        """As the target says."""
        for channel in self._channels:
            await channel.close()
