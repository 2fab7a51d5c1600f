"""An app that Turnwire tells what runs do: it keeps their events, and bills each run once.

python audit.py 127.0.0.1:7500
"""

import asyncio
import sqlite3
import sys

import grpc

from turnwire.v1 import hook_service_pb2, hook_service_pb2_grpc, outcome_pb2

TABLES = """
CREATE TABLE IF NOT EXISTS events (run_id TEXT, sequence INTEGER, event BLOB, PRIMARY KEY (run_id, sequence));
CREATE TABLE IF NOT EXISTS bills (delivery_id TEXT PRIMARY KEY, outcome TEXT, tokens INTEGER);
"""


class Audit(hook_service_pb2_grpc.HookServiceServicer):
    """Whatever is told twice has the same key, and is kept once."""

    def __init__(self, path: str) -> None:
        self.database = sqlite3.connect(path)
        self.database.executescript(TABLES)

    async def OnEvents(self, request, context):
        """Keep events. The answer acknowledges them, so it comes after they are stored."""
        rows = [(request.run_id, event.sequence, event.SerializeToString()) for event in request.events]
        with self.database:
            self.database.executemany("INSERT OR IGNORE INTO events VALUES (?, ?, ?)", rows)
        for event in request.events:
            print(event.sequence, event.WhichOneof("event"), flush=True)
        return hook_service_pb2.OnEventsResponse()

    async def OnSettle(self, request, context):
        """Bill a run, once, however often its end is told."""
        outcome = outcome_pb2.OutcomeKind.Name(request.run.outcome.kind).removeprefix("OUTCOME_KIND_")
        tokens = request.run.usage.input_tokens + request.run.usage.output_tokens
        with self.database:
            bill = (request.delivery_id, outcome, tokens)
            new = self.database.execute("INSERT OR IGNORE INTO bills VALUES (?, ?, ?)", bill).rowcount
        print(f"{outcome}: {tokens} tokens" if new else f"{outcome}: billed already", flush=True)
        return hook_service_pb2.OnSettleResponse()


async def main(address: str) -> None:
    """Listen until the process is stopped."""
    server = grpc.aio.server()
    hook_service_pb2_grpc.add_HookServiceServicer_to_server(Audit("audit.db"), server)
    server.add_insecure_port(address)
    await server.start()
    print(f"listening on {address}", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
