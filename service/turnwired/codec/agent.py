"""Agents, and sessions as they are read."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from turnwire.v1 import agent_service_pb2
from turnwired.codec.model import model_from_pb, model_to_pb
from turnwired.codec.parse import parse
from turnwired.codec.policy import policy_from_pb, policy_to_pb
from turnwired.codec.run import run_to_pb
from turnwired.codec.values import (
    cost_to_pb,
    time_from_pb,
    time_to_pb,
    tool_selection_from_pb,
    tool_selection_to_pb,
    usage_to_pb,
)
from turnwired.domain.run import Agent
from turnwired.domain.session import Session

if TYPE_CHECKING:
    from turnwire.v1 import session_service_pb2


def encode_agent(value: Agent) -> bytes:
    """An agent as it is stored, without its etag. Equal values give equal bytes."""
    out = agent_service_pb2.Agent()
    agent_to_pb(value, out)
    out.etag = ""
    return out.SerializeToString(deterministic=True)


def decode_agent(body: bytes) -> Agent:
    """The inverse of ``encode_agent``. Raises CodecError."""
    return agent_from_pb(parse(agent_service_pb2.Agent, body))


def etag_of(value: Agent) -> str:
    """Changes with every change, of the revision too."""
    out = agent_service_pb2.Agent()
    _fields_to_pb(value, out)
    return hashlib.sha256(out.SerializeToString(deterministic=True)).hexdigest()[:20]


def agent_to_pb(value: Agent, out: agent_service_pb2.Agent) -> None:
    """All fields."""
    _fields_to_pb(value, out)
    out.etag = etag_of(value)


def _fields_to_pb(value: Agent, out: agent_service_pb2.Agent) -> None:
    out.agent_id = value.agent_id
    out.description = value.description
    out.instructions.extend(value.instructions)
    if value.model is not None:
        model_to_pb(value.model, out.model)
    policy_to_pb(value.policy, out.policy)
    tool_selection_to_pb(value.tools, out.tools)
    out.labels.update(value.labels)
    out.agents.extend(value.agents)
    out.run_as = value.run_as
    out.revision = value.revision
    if value.create_time_ns:
        time_to_pb(value.create_time_ns, out.create_time)
    if value.update_time_ns:
        time_to_pb(value.update_time_ns, out.update_time)


def agent_from_pb(message: agent_service_pb2.Agent) -> Agent:
    """All fields that the domain has. Raises CodecError."""
    return Agent(
        agent_id=message.agent_id,
        instructions=tuple(message.instructions),
        model=model_from_pb(message.model) if message.HasField("model") else None,
        policy=policy_from_pb(message.policy),
        tools=tool_selection_from_pb(message.tools),
        description=message.description,
        agents=tuple(message.agents),
        run_as=message.run_as,
        revision=message.revision,
        labels=dict(message.labels),
        create_time_ns=time_from_pb(message.create_time) if message.HasField("create_time") else 0,
        update_time_ns=time_from_pb(message.update_time) if message.HasField("update_time") else 0,
    )


def session_to_pb(value: Session, out: session_service_pb2.Session) -> None:
    """All fields that the domain has."""
    out.session_id = value.session_id
    out.agent_id = value.agent_id
    out.title = value.title
    time_to_pb(value.create_time_ns, out.create_time)
    time_to_pb(value.update_time_ns, out.update_time)
    if value.active_run is not None:
        run_to_pb(value.active_run, out.active_run)
    usage_to_pb(value.usage, out.usage)
    if value.cost is not None:
        cost_to_pb(value.cost, out.cost)
    out.message_count = value.message_count
    out.labels.update(value.labels)
