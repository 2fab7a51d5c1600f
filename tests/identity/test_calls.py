"""Callers over gRPC: who is let in, what operators alone may do, and what tenants see of each other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import grpc
import pytest
from e2e.service import child_environment, run_cli
from execution.served import SECONDS, served, turn
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from identity.kit import ADMIN, BANK, SHOP, Metadata, drain, people, refusal, results, shows

from turnwire import Resume, afollow
from turnwire.v1 import (
    agent_service_pb2,
    approval_pb2,
    mcp_server_service_pb2,
    mcp_server_service_pb2_grpc,
    run_pb2,
    session_service_pb2,
    turn_service_pb2,
)
from turnwired.callers import Callers
from turnwired.domain.policy import ApprovalPolicy, PermissionAction, PermissionRule, Policy
from turnwired.domain.run import Agent, Caller
from turnwired.store.memory import MemoryStore
from turnwired.testing.provider import answer, calls
from turnwired.tools.context import ToolContext

pytestmark = pytest.mark.anyio


def whoami(context: ToolContext) -> str:
    """Tell as whom the tool is called."""
    return f"{context.caller.tenant}/{context.caller.principal}/{','.join(sorted(context.caller.roles))}"


@pytest.mark.requirement("IDENT-1", "IDENT-4")
@pytest.mark.parametrize("metadata", [None, shows("nobody-0123456789"), (("authorization", f"Basic {SHOP}"),)])
async def test_a_call_without_a_known_token_is_refused_before_it_is_read(metadata: Metadata | None) -> None:
    expected = (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")
    async with served([], callers=people()) as s:
        empty = turn_service_pb2.RunTurnRequest()  # which would be INVALID_ARGUMENT
        assert await refusal(drain(s.turns.RunTurn(empty, timeout=SECONDS, metadata=metadata))) == expected
        runs = s.turns.ListRuns(turn_service_pb2.ListRunsRequest(), timeout=SECONDS, metadata=metadata)
        assert await refusal(runs) == expected
        servers: Any = mcp_server_service_pb2_grpc.McpServerServiceStub(s.channel)
        listed = servers.ListMcpServers(mcp_server_service_pb2.ListMcpServersRequest(), metadata=metadata)
        assert await refusal(listed) == expected


@pytest.mark.requirement("IDENT-4")
async def test_health_and_reflection_need_no_token() -> None:
    async with served([], callers=people()) as s:
        health: Any = health_pb2_grpc.HealthStub(s.channel)
        assert (await health.Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)).status == 1
        channel: Any = s.channel
        reflection: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        async for found in reflection.ServerReflectionInfo(iter([asked]), timeout=SECONDS):
            assert "turnwire.v1.TurnService" in {service.name for service in found.list_services_response.service}


@pytest.mark.requirement("IDENT-1", "IDENT-2", "IDENT-3")
async def test_a_tool_is_called_as_the_caller_of_the_run() -> None:
    async def told(callers: Callers | None, metadata: Metadata | None) -> str:
        async with served([calls(("whoami", "{}")), answer("Done.")], whoami, callers=callers) as s:
            stream = s.turns.RunTurn(turn(include_trace=True), timeout=SECONDS, metadata=metadata)
            return (await results(stream))[0]

    assert await told(people(), shows(SHOP)) == "acme/shop/support"
    assert await told(None, None) == "default/anonymous/"
    guest = Caller("public", roles=frozenset(("guest",)))
    assert await told(people(guest), None) == "public/anonymous/guest"


@pytest.mark.requirement("IDENT-7")
async def test_tenants_do_not_see_each_other() -> None:
    ask = Policy(approval=ApprovalPolicy(rules=(PermissionRule("tool", "*", PermissionAction.ASK),)))
    async with served([calls(("whoami", "{}"))], whoami, callers=people(), policy=ask) as s:
        request = turn_service_pb2.StartTurnRequest(turn=turn(session_id="s1").turn)
        run_id = (await s.turns.StartTurn(request, timeout=SECONDS, metadata=shows(SHOP))).run_id
        watch = turn_service_pb2.WatchRunRequest(run_id=run_id, on_wait=turn_service_pb2.ON_WAIT_CLOSE)
        await drain(s.turns.WatchRun(watch, timeout=SECONDS, metadata=shows(SHOP)))
        agent = agent_service_pb2.PutAgentRequest(agent=agent_service_pb2.Agent(agent_id="helper"))
        await s.agents.PutAgent(agent, timeout=SECONDS, metadata=shows(ADMIN))

        async def seen(token: str) -> list[int]:
            how: dict[str, Any] = {"timeout": SECONDS, "metadata": shows(token)}
            asked = turn_service_pb2.ListApprovalsRequest(run_id=run_id)
            return [
                len((await s.turns.ListRuns(turn_service_pb2.ListRunsRequest(), **how)).runs),
                len((await s.sessions.ListSessions(session_service_pb2.ListSessionsRequest(), **how)).sessions),
                len((await s.turns.ListApprovals(asked, **how)).approvals),
                len((await s.agents.ListAgents(agent_service_pb2.ListAgentsRequest(), **how)).agents),
            ]

        assert (await seen(SHOP), await seen(BANK)) == ([1, 1, 1, 2], [0, 0, 0, 1])
        how: dict[str, Any] = {"timeout": SECONDS, "metadata": shows(BANK)}
        resolve = turn_service_pb2.ResolveApprovalRequest(
            run_id=run_id, approval_id="a", decision=approval_pb2.APPROVAL_DECISION_ONCE
        )
        hidden: dict[str, Awaitable[Any]] = {
            "GetRun": s.turns.GetRun(turn_service_pb2.GetRunRequest(run_id=run_id), **how),
            "WatchRun": drain(s.turns.WatchRun(turn_service_pb2.WatchRunRequest(run_id=run_id), **how)),
            "CancelRun": s.turns.CancelRun(turn_service_pb2.CancelRunRequest(run_id=run_id), **how),
            "ResolveApproval": s.turns.ResolveApproval(resolve, **how),
            "GetSession": s.sessions.GetSession(session_service_pb2.GetSessionRequest(session_id="s1"), **how),
            "GetAgent": s.agents.GetAgent(agent_service_pb2.GetAgentRequest(agent_id="helper"), **how),
            "RunTurn": drain(s.turns.RunTurn(turn(agent_id="helper"), **how)),
            "child": drain(s.turns.RunTurn(turn(parent_run_id=run_id), **how)),
        }
        codes = {name: (await refusal(call))[0] for name, call in hidden.items()}
        assert codes == dict.fromkeys(hidden, grpc.StatusCode.NOT_FOUND)
        run = (await s.turns.GetRun(turn_service_pb2.GetRunRequest(run_id=run_id), metadata=shows(ADMIN))).run
        assert run.state == run_pb2.RUN_STATE_WAITING


@pytest.mark.requirement("IDENT-8")
async def test_what_changes_others_is_for_operators() -> None:
    denied = (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED")
    put = agent_service_pb2.PutAgentRequest(agent=agent_service_pb2.Agent(agent_id="helper"))
    every, one = turn_service_pb2.ListApprovalsRequest(), turn_service_pb2.ListApprovalsRequest(session_id="s")
    async with served([], callers=people(Caller())) as s:
        for metadata in (shows(SHOP), None):
            assert await refusal(s.agents.PutAgent(put, timeout=SECONDS, metadata=metadata)) == denied
            assert await refusal(s.turns.ListApprovals(every, timeout=SECONDS, metadata=metadata)) == denied
            await s.turns.ListApprovals(one, timeout=SECONDS, metadata=metadata)
        await s.agents.PutAgent(put, timeout=SECONDS, metadata=shows(ADMIN))
        await s.turns.ListApprovals(every, timeout=SECONDS, metadata=shows(ADMIN))
    async with served([]) as s:
        await s.agents.PutAgent(put, timeout=SECONDS)
        await s.turns.ListApprovals(every, timeout=SECONDS)


@pytest.mark.requirement("IDENT-10")
async def test_an_agent_calls_tools_as_the_principal_that_it_runs_as() -> None:
    agents = [Agent("invoices", run_as="billing")]
    async with served([calls(("whoami", "{}")), answer("Done.")], whoami, callers=people(), agents=agents) as s:
        stream = s.turns.RunTurn(turn(agent_id="invoices"), timeout=SECONDS, metadata=shows(BANK))
        assert await results(stream) == ["bank/billing/accounts"]


@pytest.mark.requirement("IDENT-10", "IDENT-11")
async def test_an_operator_gives_an_agent_an_identity_of_its_tenant() -> None:
    def put(run_as: str) -> agent_service_pb2.PutAgentRequest:
        return agent_service_pb2.PutAgentRequest(agent=agent_service_pb2.Agent(agent_id="invoices", run_as=run_as))

    async with served([calls(("whoami", "{}")), answer("Done.")], whoami, callers=people()) as s:
        for unknown in ("nobody", "teller"):
            asked = s.agents.PutAgent(put(unknown), timeout=SECONDS, metadata=shows(ADMIN))
            assert await refusal(asked) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")
        stored = await s.agents.PutAgent(put("billing"), timeout=SECONDS, metadata=shows(ADMIN))
        assert stored.agent.run_as == "billing"
        stream = s.turns.RunTurn(turn(agent_id="invoices"), timeout=SECONDS, metadata=shows(SHOP))
        assert await results(stream) == ["acme/billing/accounts"]


@pytest.mark.requirement("IDENT-11")
async def test_a_run_is_refused_when_the_identity_of_its_agent_is_not_there_any_more() -> None:
    async with served([], callers=people(), agents=[Agent("invoices", run_as="gone")]) as s:
        asked = drain(s.turns.RunTurn(turn(agent_id="invoices"), timeout=SECONDS, metadata=shows(SHOP)))
        assert await refusal(asked) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")


@pytest.mark.requirement("IDENT-13")
async def test_following_a_run_shows_the_token_with_every_call() -> None:
    release = asyncio.Event()

    async def hold() -> str:
        """Wait."""
        await release.wait()
        return "held"

    async with served([calls(("hold", "{}")), answer("Done.")], hold, callers=people()) as s:
        updates = afollow(s.turns, turn(), metadata=shows(SHOP), resume=Resume(attempts=3, initial_delay=0.01))
        kinds: list[str | None] = []
        async with asyncio.timeout(SECONDS):
            async for update in updates:
                kinds += [event.WhichOneof("event") for event in update.events]
                release.set()
        watch = turn_service_pb2.WatchRunRequest(
            run_id=(await s.turns.ListRuns(turn_service_pb2.ListRunsRequest(), metadata=shows(SHOP))).runs[0].run_id
        )
        again = [
            event.WhichOneof("event")
            async for update in afollow(s.turns, watch, metadata=shows(SHOP))
            for event in update.events
        ]
    assert kinds[-1] == again[-1] == "run_finished"


@pytest.mark.requirement("IDENT-9")
async def test_a_run_that_another_process_goes_on_with_acts_for_its_caller() -> None:
    ask = Policy(approval=ApprovalPolicy(rules=(PermissionRule("tool", "*", PermissionAction.ASK),)))
    store = MemoryStore()
    script = [calls(("whoami", "{}"))]
    async with served(script, whoami, callers=people(), policy=ask, store=store) as s:
        request = turn_service_pb2.StartTurnRequest(turn=turn().turn)
        run_id = (await s.turns.StartTurn(request, timeout=SECONDS, metadata=shows(SHOP))).run_id
        watch = turn_service_pb2.WatchRunRequest(run_id=run_id, on_wait=turn_service_pb2.ON_WAIT_CLOSE)
        await drain(s.turns.WatchRun(watch, timeout=SECONDS, metadata=shows(SHOP)))
    async with served([answer("Done.")], whoami, callers=people(), policy=ask, store=store) as s:
        how: dict[str, Any] = {"timeout": SECONDS, "metadata": shows(ADMIN)}
        asked = (await s.turns.ListApprovals(turn_service_pb2.ListApprovalsRequest(run_id=run_id), **how)).approvals
        resolve = turn_service_pb2.ResolveApprovalRequest(
            run_id=run_id,
            approval_id=asked[0].approval_id,
            decision=approval_pb2.APPROVAL_DECISION_ONCE,
        )
        await s.turns.ResolveApproval(resolve, **how)
        assert await results(s.turns.WatchRun(turn_service_pb2.WatchRunRequest(run_id=run_id), **how)) == [
            "acme/shop/support"
        ]


@pytest.mark.requirement("IDENT-12")
async def test_the_command_line_shows_the_token_of_a_variable(tmp_path: Path) -> None:
    async with served([answer("Hello.")], whoami, callers=people()) as s:
        environment = child_environment(SHOP_TOKEN=SHOP)
        tools = ("tools", "--server", s.address)
        listed = await run_cli(*tools, "--token-env", "SHOP_TOKEN", cwd=tmp_path, environment=environment)
        assert (listed.code, "whoami" in listed.stdout) == (0, True), listed.stderr
        ran = await run_cli(
            *("run", "Hello", "--server", s.address, "--token-env", "SHOP_TOKEN"), cwd=tmp_path, environment=environment
        )
        assert ran.code == 0, ran.stderr
        refused = await run_cli(*tools, cwd=tmp_path, environment=environment)
        assert (refused.code, "UNAUTHENTICATED" in refused.stderr) == (2, True), refused.stderr
        unset = await run_cli(*tools, "--token-env", "NO_TOKEN", cwd=tmp_path, environment=environment)
        assert unset.stderr == "turnwire: --token-env: the environment variable NO_TOKEN is not set\n"


@pytest.mark.requirement("IDENT-12")
async def test_the_private_server_of_the_command_line_lets_in_who_started_it(tmp_path: Path) -> None:
    (tmp_path / "turnwire.toml").write_text('[[callers]]\nprincipal = "shop"\ntoken_env = "SHOP_TOKEN"\n')
    listed = await run_cli("tools", cwd=tmp_path, environment=child_environment(SHOP_TOKEN=SHOP))
    assert (listed.code, listed.stderr) == (0, "")
    both = await run_cli("tools", "--token-env", "SHOP_TOKEN", cwd=tmp_path)
    assert both.code == 2
