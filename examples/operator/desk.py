"""What an operator does with agents and conversations: python desk.py 127.0.0.1:7443."""

import sys

import grpc
from google.protobuf.field_mask_pb2 import FieldMask
from google.rpc.error_details_pb2 import ErrorInfo
from grpc_status import rpc_status

from turnwire import RunView, follow
from turnwire.v1 import agent_service_pb2 as agents_pb
from turnwire.v1 import session_service_pb2 as sessions_pb
from turnwire.v1 import turn_service_pb2 as turns_pb
from turnwire.v1.agent_service_pb2_grpc import AgentServiceStub
from turnwire.v1.message_pb2 import ROLE_USER, Message, Part, Role
from turnwire.v1.outcome_pb2 import OutcomeKind
from turnwire.v1.session_service_pb2_grpc import SessionServiceStub
from turnwire.v1.turn_service_pb2_grpc import TurnServiceStub
from turnwire.v1.usage_pb2 import Cost


def reason(error: grpc.RpcError) -> str:
    """The word for programs, of the details of an error (`pip install grpcio-status`)."""
    status = rpc_status.from_call(error)
    for detail in status.details if status is not None else ():
        info = ErrorInfo()
        if detail.Unpack(info):
            return info.reason
    return ""


def money(cost: Cost) -> str:
    """An amount in full. A cost that is not complete is a lower bound."""
    return f"{'' if cost.complete else 'at least '}{cost.amount_nanos / 1e9:.6f} {cost.currency_code}"


def agents(stub: AgentServiceStub) -> None:
    """Makes an agent, changes it, and sees a change refused that was made from an old state."""
    clerk = agents_pb.Agent(agent_id="clerk", description="Answers at the desk.", instructions=["Be brief."])
    first = stub.PutAgent(agents_pb.PutAgentRequest(agent=clerk)).agent
    print("revision", first.revision)

    change = agents_pb.Agent(agent_id="clerk", instructions=["Be brief.", "Be polite."], etag=first.etag)
    only = FieldMask(paths=["instructions"])
    second = stub.PutAgent(agents_pb.PutAgentRequest(agent=change, update_mask=only)).agent
    print("revision", second.revision, list(second.instructions), second.description)
    try:
        stub.PutAgent(agents_pb.PutAgentRequest(agent=change, update_mask=only))
    except grpc.RpcError as error:
        print(error.code().name, reason(error))

    broken = agents_pb.Agent(agent_id="clerk")
    broken.policy.loop.max_steps.value = 0
    try:
        stub.PutAgent(agents_pb.PutAgentRequest(agent=broken, validate_only=True))
    except grpc.RpcError as error:
        print(error.code().name, error.details())
    before = stub.GetAgent(agents_pb.GetAgentRequest(agent_id="clerk", revision=1)).agent
    print("revision", before.revision, list(before.instructions))
    request = agents_pb.ListAgentsRequest(page_size=1)
    while True:
        page = stub.ListAgents(request)
        print("listed", [agent.agent_id for agent in page.agents])
        request.page_token = page.next_page_token
        if not request.page_token:
            break


def say(stub: TurnServiceStub, session_id: str, text: str) -> None:
    """One turn of a session."""
    view = RunView()
    turn = turns_pb.TurnSpec(agent_id="clerk", session_id=session_id, labels={"shop": "ginza"})
    turn.input.append(Message(role=ROLE_USER, parts=[Part(text=text)]))
    for update in follow(stub, turns_pb.RunTurnRequest(turn=turn)):
        view.apply(update)
    print("answered", view.text)


def sessions(stub: SessionServiceStub, turns: TurnServiceStub) -> None:
    """Reads a conversation, what each of its turns cost, and removes it."""
    for listed in stub.ListSessions(sessions_pb.ListSessionsRequest(agent_id="clerk")).sessions:
        print("session", listed.session_id, listed.message_count, "messages", money(listed.cost))
    for message in stub.ListMessages(sessions_pb.ListMessagesRequest(session_id="ann-42")).messages:
        print("   ", Role.Name(message.role), "".join(part.text for part in message.parts))
    for run in turns.ListRuns(turns_pb.ListRunsRequest(session_id="ann-42")).runs:
        tokens = f"{run.usage.input_tokens} tokens in, {run.usage.output_tokens} out"
        print("turn", OutcomeKind.Name(run.outcome.kind), f"revision {run.agent_revision}", tokens, money(run.cost))
    stub.DeleteSession(sessions_pb.DeleteSessionRequest(session_id="ann-42"))
    try:
        stub.GetSession(sessions_pb.GetSessionRequest(session_id="ann-42"))
    except grpc.RpcError as error:
        print(error.code().name, reason(error))


if __name__ == "__main__":
    with grpc.insecure_channel(sys.argv[1]) as channel:
        agents(AgentServiceStub(channel))
        for session_id, text in (("ann-42", "Where is Momo?"), ("ann-42", "And Solaris?"), ("bob-7", "Hello.")):
            say(TurnServiceStub(channel), session_id, text)
        sessions(SessionServiceStub(channel), TurnServiceStub(channel))
