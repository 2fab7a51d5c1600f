"""AgentService: puts, reads and lists named configurations. Translates and checks; the engine keeps them."""

from __future__ import annotations

from google.protobuf import field_mask_pb2

from turnwire.v1 import agent_service_pb2
from turnwired.codec.agent import agent_from_pb, agent_to_pb
from turnwired.domain.errors import CodecError, FieldViolation, InvalidRequest, NotFound
from turnwired.domain.failure import Reason
from turnwired.domain.run import Agent
from turnwired.engine.service import Engine
from turnwired.rpc import request as read
from turnwired.rpc.auth import calling
from turnwired.rpc.errors import Context
from turnwired.rpc.handlers import Behaviours
from turnwired.rpc.paging import name_before, named_page

MAX_INSTRUCTIONS = 64
MAX_AGENTS = 64
MAX_TEXT = 1 << 20
"""Characters of all instructions and the description together."""
_OUTPUT_ONLY = ("agent_id", "revision", "etag", "create_time", "update_time")


class AgentService:
    """Behaviours of all its RPCs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def behaviours(self) -> Behaviours:
        """By method name."""
        return Behaviours(
            unary={"PutAgent": self.put_agent, "GetAgent": self.get_agent, "ListAgents": self.list_agents},
            streaming={},
        )

    async def put_agent(
        self, request: agent_service_pb2.PutAgentRequest, context: Context
    ) -> agent_service_pb2.PutAgentResponse:
        """Create or change an agent, checked as a run would check it."""
        agents, asked = self._engine.agents, request.agent
        read.require_id("agent.agent_id", asked.agent_id)
        agents.require_changeable(asked.agent_id)
        async with agents.changing:
            if asked.etag:
                agents.require_etag(asked.agent_id, asked.etag, calling().tenant)
            agent = _checked(self._merged(request))
            self._engine.check_agent(calling(), agent)
            stored = await agents.put(agent, calling().tenant, store=not request.validate_only)
        response = agent_service_pb2.PutAgentResponse()
        agent_to_pb(stored, response.agent)
        return response

    def _merged(self, request: agent_service_pb2.PutAgentRequest) -> agent_service_pb2.Agent:
        """The agent as it is to be: all of the request, or the stored one with the fields of the mask changed."""
        if not request.HasField("update_mask"):
            return request.agent
        mask: field_mask_pb2.FieldMask = request.update_mask
        problems = [
            FieldViolation("update_mask", f"{path!r} cannot be changed")
            for path in mask.paths
            if path.partition(".")[0] in _OUTPUT_ONLY
        ]
        if not mask.IsValidForDescriptor(agent_service_pb2.Agent.DESCRIPTOR):
            problems.append(FieldViolation("update_mask", "names a field that an agent does not have"))
        if problems:
            raise InvalidRequest(problems)
        current = self._engine.agents.known(request.agent.agent_id, calling().tenant)
        if current is None:
            raise NotFound(
                Reason.AGENT_NOT_FOUND,
                f"No agent has the id {request.agent.agent_id!r}: leave update_mask unset to make it.",
                {"agent_id": request.agent.agent_id},
            )
        merged = agent_service_pb2.Agent()
        agent_to_pb(current, merged)
        mask.MergeMessage(request.agent, merged, True, True)
        return merged

    async def get_agent(
        self, request: agent_service_pb2.GetAgentRequest, context: Context
    ) -> agent_service_pb2.GetAgentResponse:
        """The newest revision, or the one asked for."""
        read.require_id("agent_id", request.agent_id)
        agents = self._engine.agents
        agent = agents.find(request.agent_id, calling().tenant)
        if request.HasField("revision"):
            agent = await agents.revision(request.agent_id, request.revision, calling().tenant)
        response = agent_service_pb2.GetAgentResponse()
        agent_to_pb(agent, response.agent)
        return response

    async def list_agents(
        self, request: agent_service_pb2.ListAgentsRequest, context: Context
    ) -> agent_service_pb2.ListAgentsResponse:
        """Agents by id, those behind the last one of the page before."""
        size = read.page_size(request.page_size, 50, 500)
        before = name_before(request.page_token, "ListAgents")
        rest = [agent for agent in self._engine.agents.listed(calling().tenant) if agent.agent_id > before]
        found, token = await named_page(
            rest, size, lambda agent: agent.agent_id, agent_to_pb, agent_service_pb2.Agent, "ListAgents"
        )
        return agent_service_pb2.ListAgentsResponse(agents=found, next_page_token=token)


def _checked(message: agent_service_pb2.Agent) -> Agent:
    """The agent with every broken rule named by its path. Raises InvalidRequest."""
    problems = read.Problems()
    read.refuse_client_tools(message.tools, "agent.tools", problems)
    text = len(message.description) + sum(map(len, message.instructions))
    if len(message.instructions) > MAX_INSTRUCTIONS or text > MAX_TEXT:
        words = f"at most {MAX_INSTRUCTIONS} blocks, and {MAX_TEXT} characters with the description"
        problems.add("agent.instructions", words)
    if len(message.agents) > MAX_AGENTS:
        problems.add("agent.agents", f"has {len(message.agents)} entries; at most {MAX_AGENTS} are allowed")
    for index, agent_id in enumerate(message.agents):
        problems.check_id(f"agent.agents[{index}]", agent_id)
    read.check_labels(dict(message.labels), "agent.labels", problems)
    problems.raise_if_any()
    read.policy(message.policy, "agent.policy")
    if message.HasField("model"):
        read.model(message.model, "agent.model")
    try:
        agent = agent_from_pb(message)
    except CodecError as error:
        raise InvalidRequest([FieldViolation(f"agent.{error.path}", error.problem)]) from error
    read.check_selection(agent.tools, "agent.tools", problems)
    problems.raise_if_any()
    return agent
