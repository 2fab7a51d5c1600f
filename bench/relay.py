"""The floor of a Python gRPC service: RunTurn of our contract over grpc.aio, with the hand-written loop behind it.

It coalesces what is ready into one frame, as the service does, and has nothing else: no policy, no validation, no
store, no log, no telemetry, no retries, no cursor. What the service costs beyond it is what the service does.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import grpc
import grpc.aio

from bench.child import announce, until_stdin_ends
from bench.handloop import HandLoop
from bench.rawhttp import RawClient
from bench.turn import MCP_TOOL, Turn
from turnwire.v1 import outcome_pb2, turn_service_pb2

Context = grpc.aio.ServicerContext[Any, Any]


class Relay:
    """Serves RunTurn."""

    def __init__(self, base_url: str) -> None:
        url = urlsplit(base_url)
        self._http = RawClient(url.hostname or "", url.port or 80, f"{url.path}/chat/completions")
        self._loop = HandLoop(self._http.post)

    async def run_turn(self, request: turn_service_pb2.RunTurnRequest, context: Context) -> None:
        """Run the loop in a task, and write what it has said whenever the last write is done."""
        said: list[str] = []
        more = asyncio.Event()

        def on_text(text: str) -> None:
            said.append(text)
            more.set()

        task = asyncio.create_task(self._loop.turn(_turn_of(request), on_text))
        task.add_done_callback(lambda _: more.set())
        try:
            while not task.done() or said:
                await more.wait()
                more.clear()
                if said:
                    frame = turn_service_pb2.RunTurnResponse()
                    frame.events.add().text_delta.text = "".join(said)
                    said.clear()
                    await context.write(frame)
            task.result()
        finally:
            task.cancel()
        last = turn_service_pb2.RunTurnResponse()
        last.events.add().run_finished.outcome.kind = outcome_pb2.OUTCOME_KIND_ANSWERED
        await context.write(last)

    async def aclose(self) -> None:
        """Close the connections and the MCP server."""
        await self._loop.aclose()
        self._http.close()


def _turn_of(request: turn_service_pb2.RunTurnRequest) -> Turn:
    turn = request.turn
    texts: Sequence[str] = [message.parts[0].text for message in turn.input]
    tools = tuple("mcp" if MCP_TOOL in name else name for name in turn.tools.include)
    return Turn(turn.model.model, tools, tuple(texts[:-1]))


async def _main(base_url: str) -> None:
    relay = Relay(base_url)
    handler = grpc.unary_stream_rpc_method_handler(
        relay.run_turn,
        turn_service_pb2.RunTurnRequest.FromString,
        turn_service_pb2.RunTurnResponse.SerializeToString,
    )
    server = grpc.aio.server(options=[("grpc.max_concurrent_streams", 10_000)])
    service = turn_service_pb2.DESCRIPTOR.services_by_name["TurnService"].full_name
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"RunTurn": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    announce(port)
    await until_stdin_ends()
    await server.stop(1.0)
    await relay.aclose()


if __name__ == "__main__":
    import uvloop

    sys.exit(uvloop.run(_main(sys.argv[1])))
