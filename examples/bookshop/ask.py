"""Runs one turn and prints it as it comes: python ask.py 127.0.0.1:7443 "Where is order 4711?"."""

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
                print(f"{event.sequence:3} {event.WhichOneof('event')}")
    return view


if __name__ == "__main__":
    run = asyncio.run(ask(sys.argv[1], sys.argv[2]))
    if run.outcome is not None:
        print(OutcomeKind.Name(run.outcome.kind), run.outcome.failure.message)
    print(run.text)
