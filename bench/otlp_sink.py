"""A collector that takes everything over OTLP/gRPC and keeps nothing. Says how much came when its input ends."""

from __future__ import annotations

import sys

import grpc
import grpc.aio

from bench.child import announce, until_stdin_ends


class Sink(grpc.GenericRpcHandler):
    """Answers any unary method with an empty message, which is what the export services answer."""

    def __init__(self) -> None:
        self.requests = 0
        self.bytes = 0

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        return grpc.unary_unary_rpc_method_handler(self._take)

    async def _take(self, request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        self.requests += 1
        self.bytes += len(request)
        return b""


async def _main() -> None:
    sink = Sink()
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", 64 << 20)])
    server.add_generic_rpc_handlers((sink,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    announce(port)
    await until_stdin_ends()
    await server.stop(1.0)
    sys.stdout.write(f"{sink.requests} {sink.bytes}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    import uvloop

    sys.exit(uvloop.run(_main()))
