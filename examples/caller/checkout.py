"""A caller that a run may need: python checkout.py 127.0.0.1:7443 "Order 4711 never came."

It executes a tool of its own, adds a word while the run goes on, and answers questions.
"""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from typing import TYPE_CHECKING

import grpc

from turnwire import RunView, afollow
from turnwire.v1.approval_pb2 import APPROVAL_DECISION_ONCE, APPROVAL_DECISION_REJECT, Approval
from turnwire.v1.message_pb2 import ROLE_USER, TOOL_RESULT_STATUS_OK, Message, Part, ToolCall, ToolResult
from turnwire.v1.outcome_pb2 import OutcomeKind
from turnwire.v1.tool_pb2 import ClientTool, ToolSelection
from turnwire.v1.turn_service_pb2 import (
    AppendInputRequest,
    ResolveApprovalRequest,
    RunTurnRequest,
    SubmitToolResultsRequest,
    ToolResultReceiptStatus,
    TurnSpec,
)
from turnwire.v1.turn_service_pb2_grpc import TurnServiceStub

if TYPE_CHECKING:
    from turnwire.v1.turn_service_pb2_grpc import TurnServiceAsyncStub

SCHEMA = {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]}
CHOOSE_ADDRESS = ClientTool(
    name="choose_address",
    description="Let the customer choose an address on the screen.",
    input_schema_json=json.dumps(SCHEMA),
)


def said(text: str) -> Message:
    """A message of the user."""
    return Message(role=ROLE_USER, parts=[Part(text=text)])


async def choose_address(turns: TurnServiceAsyncStub, run_id: str, call: ToolCall) -> None:
    """Executes the call here, and hands its result in."""
    print("choose_address", call.arguments_json)
    # Meanwhile the user says something: the model reads it behind the result.
    words = AppendInputRequest(run_id=run_id, request_id=str(uuid.uuid4()), input=[said("Leave it at the door.")])
    await turns.AppendInput(words)
    result = ToolResult(call_id=call.call_id, status=TOOL_RESULT_STATUS_OK, content=[Part(text="Ginza 4-6-16")])
    answer = await turns.SubmitToolResults(SubmitToolResultsRequest(run_id=run_id, results=[result]))
    print(ToolResultReceiptStatus.Name(answer.receipts[0].status))


async def decide(turns: TurnServiceAsyncStub, approval: Approval) -> None:
    """Asks at the terminal. The digest binds the answer to the call that was shown."""
    print(approval.title, approval.call.arguments_json, "[y/n] ", end="", flush=True)
    yes = (await asyncio.to_thread(sys.stdin.readline)).strip() == "y"
    await turns.ResolveApproval(
        ResolveApprovalRequest(
            run_id=approval.run_id,
            approval_id=approval.approval_id,
            call_digest=approval.call_digest,
            decision=APPROVAL_DECISION_ONCE if yes else APPROVAL_DECISION_REJECT,
            comment="" if yes else "The shop says no.",
        )
    )


async def checkout(address: str, words: str) -> RunView:
    """One turn. What a run waits for is told until it has it, so this keeps what it has seen to."""
    view, seen = RunView(), set[str]()
    turn = TurnSpec(input=[said(words)], tools=ToolSelection(client_tools=[CHOOSE_ADDRESS]))
    async with grpc.aio.insecure_channel(address) as channel:
        turns: TurnServiceAsyncStub = TurnServiceStub(channel)
        async for update in afollow(turns, RunTurnRequest(turn=turn)):
            view.apply(update)
            if view.run_id is None or view.waiting is None:
                continue
            for call in view.waiting.client_tool_calls:
                if call.call_id not in seen:
                    seen.add(call.call_id)
                    await choose_address(turns, view.run_id, call)
            for approval in view.waiting.approvals:
                if approval.approval_id not in seen:
                    seen.add(approval.approval_id)
                    await decide(turns, approval)
    return view


if __name__ == "__main__":
    run = asyncio.run(checkout(sys.argv[1], sys.argv[2]))
    print(run.text)
    if run.outcome is not None:
        print(OutcomeKind.Name(run.outcome.kind), run.outcome.failure.message)
