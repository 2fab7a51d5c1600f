"""Hooks, sessions and agents in the service as a process of its own, over a crash."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e.provider import Hang, Say, answer, provider
from e2e.service import SECONDS, Followed, config_text, prompt, service

from turnwire.v1 import agent_service_pb2, agent_service_pb2_grpc, session_service_pb2, session_service_pb2_grpc

pytestmark = pytest.mark.anyio

HOOKS = '[hooks]\npython = ["agent_hooks:Ledger"]\nentry_points = false\n'


@pytest.mark.requirement("TOOLX-30", "TOOLX-31", "TOOLX-23", "TOOLX-29")
async def test_a_killed_service_tells_its_hooks_what_is_left_and_still_has_its_agents_and_sessions(
    tmp_path: Path,
) -> None:
    async with provider(answer("Yes."), (Say("half "), Hang())) as p:
        config = config_text(p.url, more=HOOKS)
        async with service(tmp_path, config) as s:
            agents: agent_service_pb2_grpc.AgentServiceAsyncStub = agent_service_pb2_grpc.AgentServiceStub(s.channel)
            wanted = agent_service_pb2.Agent(agent_id="poet", instructions=["Rhyme."])
            await agents.PutAgent(agent_service_pb2.PutAgentRequest(agent=wanted), timeout=SECONDS)
            first = await s.run(prompt(session_id="s", agent_id="poet"))
            cut = Followed()
            following = s.follow(prompt(session_id="s", agent_id="poet"), cut)
            await cut.until("text_delta")
            await s.kill()
            following.cancel()
        async with service(tmp_path, config) as s:
            sessions: session_service_pb2_grpc.SessionServiceAsyncStub = session_service_pb2_grpc.SessionServiceStub(
                s.channel
            )
            request = session_service_pb2.GetSessionRequest(session_id="s")
            session = (await sessions.GetSession(request, timeout=SECONDS)).session
            agents = agent_service_pb2_grpc.AgentServiceStub(s.channel)
            listed = await agents.ListAgents(agent_service_pb2.ListAgentsRequest(), timeout=SECONDS)
            await s.stop()
    lines = (tmp_path / "ledger").read_text().splitlines()
    assert f"settled {first.view.run_id} ANSWERED" in lines
    assert f"settled {cut.view.run_id} ERRORED" in lines
    assert len([line for line in lines if line == f"settled {cut.view.run_id} ERRORED"]) == 1
    assert f"event {first.view.run_id}/1" in lines
    assert session.agent_id == "poet"
    assert not session.HasField("active_run")
    assert "poet" in [agent.agent_id for agent in listed.agents]
    assert "Rhyme." in str(p.requests[0]["messages"][0])
