"""Runs one turn and shows it as it comes: python ask.py 127.0.0.1:7443 "What time is it in Tokyo?"."""

import asyncio
import sys

import grpc

from turnwire import RunView, afollow
from turnwire.v1.message_pb2 import ROLE_USER, Message, Part
from turnwire.v1.outcome_pb2 import OutcomeKind
from turnwire.v1.turn_service_pb2 import RunTurnRequest, TurnSpec
from turnwire.v1.turn_service_pb2_grpc import TurnServiceStub


async def ask(address: str, question: str) -> RunView:
    """One turn from the first event to the last. A cut connection is taken up again where it stopped."""
    view = RunView()
    turn = TurnSpec(input=[Message(role=ROLE_USER, parts=[Part(text=question)])])
    async with grpc.aio.insecure_channel(address) as channel:
        async for update in afollow(TurnServiceStub(channel), RunTurnRequest(turn=turn)):
            view.apply(update)
            for event in update.events:
                if event.HasField("tool_call_started"):
                    print("calls", event.tool_call_started.tool.routed_name)
                elif event.HasField("text_delta"):
                    print(event.text_delta.text, end="", flush=True)
                elif event.HasField("run_waiting"):
                    print("waits for you: see turnwire approvals list")
                elif event.HasField("run_finished"):
                    print()
    return view


if __name__ == "__main__":
    outcome = asyncio.run(ask(sys.argv[1], sys.argv[2])).outcome
    if outcome is not None:
        print(OutcomeKind.Name(outcome.kind), outcome.failure.message)
