"""Runs one turn and shows it as it comes: python examples/ask.py 127.0.0.1:7443 "What time is it in Tokyo?"."""

import os
import sys

from turnwire import Client, RunView, Update
from turnwire.v1.message_pb2 import ROLE_USER, Message, Part
from turnwire.v1.outcome_pb2 import OutcomeKind
from turnwire.v1.turn_service_pb2 import RunTurnRequest, TurnSpec


def show(update: Update, view: RunView) -> None:
    """Text as it comes, calls of tools, and the end."""
    del view
    for event in update.events:
        if event.HasField("tool_call_started"):
            print("calls", event.tool_call_started.tool.routed_name)
        elif event.HasField("text_delta"):
            print(event.text_delta.text, end="", flush=True)
        elif event.HasField("run_waiting"):
            print("waits for you: see turnwire approvals list")
        elif event.HasField("run_finished"):
            print()


def main() -> None:
    """One question, one answer."""
    if len(sys.argv) != 3:
        sys.exit("usage: ask ADDRESS QUESTION")
    turn = TurnSpec(input=[Message(role=ROLE_USER, parts=[Part(text=sys.argv[2])])])
    client = Client(sys.argv[1], token=os.environ.get("TURNWIRE_TOKEN"))
    outcome = client.run(RunTurnRequest(turn=turn), on_update=show).outcome
    if outcome is not None:
        print(OutcomeKind.Name(outcome.kind), outcome.failure.message)


if __name__ == "__main__":
    main()
