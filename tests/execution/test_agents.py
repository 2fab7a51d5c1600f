"""AgentService over the API."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from execution.served import SECONDS, Served, served
from execution.test_sessions import refused
from google.protobuf import field_mask_pb2

from turnwire.v1 import agent_service_pb2
from turnwired.store.sqlite import SqliteStore
from turnwired.testing.provider import answer

pytestmark = pytest.mark.anyio


def agent(agent_id: str = "helper", *instructions: str, **fields: object) -> agent_service_pb2.Agent:
    """An agent to put."""
    made = agent_service_pb2.Agent(agent_id=agent_id, instructions=instructions or ("Help.",))
    for name, value in fields.items():
        setattr(made, name, value)
    return made


async def put(
    s: Served, wanted: agent_service_pb2.Agent, *paths: str, validate_only: bool = False
) -> agent_service_pb2.Agent:
    """Put an agent, or the fields of it that are named."""
    mask = field_mask_pb2.FieldMask(paths=paths) if paths else None
    request = agent_service_pb2.PutAgentRequest(agent=wanted, update_mask=mask, validate_only=validate_only)
    return (await s.agents.PutAgent(request, timeout=SECONDS)).agent


async def get(s: Served, agent_id: str, revision: int | None = None) -> agent_service_pb2.Agent:
    """Read an agent."""
    request = agent_service_pb2.GetAgentRequest(agent_id=agent_id, revision=revision)
    return (await s.agents.GetAgent(request, timeout=SECONDS)).agent


@pytest.mark.requirement("TOOLX-26")
async def test_a_new_revision_is_what_the_next_run_uses_and_what_changes_nothing_is_none() -> None:
    async with served([answer("Yes.")]) as s:
        s.provider.repeat_last = True
        first = await put(s, agent("helper", "Speak plainly."))
        before = await s.run(agent_id="helper")
        same = await put(s, agent("helper", "Speak plainly."))
        second = await put(s, agent("helper", "Speak in verse.", description="a poet"))
        after = await s.run(agent_id="helper")
        systems = [s.provider.messages(number)[0] for number in range(2)]
    assert (first.revision, same.revision, second.revision) == (1, 1, 2)
    assert first.etag == same.etag != second.etag
    assert first.create_time == second.create_time
    assert second.update_time.ToNanoseconds() > first.update_time.ToNanoseconds()
    assert [seen.events[0].run_started.agent_revision for seen in (before, after)] == [1, 2]
    assert "Speak plainly." in str(systems[0])
    assert "Speak in verse." in str(systems[1])


@pytest.mark.requirement("TOOLX-27")
async def test_an_etag_guards_against_changes_that_were_not_seen() -> None:
    async with served([]) as s:
        first = await put(s, agent())
        await put(s, agent("helper", "Changed by somebody else."))
        stale = await refused(put(s, agent("helper", "Mine.", etag=first.etag)))
        unknown = await refused(put(s, agent("nobody", etag="abc")))
        current = await get(s, "helper")
        mine = await put(s, agent("helper", "Mine.", etag=current.etag))
    assert stale == (grpc.StatusCode.ABORTED, "ETAG_MISMATCH")
    assert unknown == (grpc.StatusCode.ABORTED, "ETAG_MISMATCH")
    assert (mine.revision, list(mine.instructions)) == (3, ["Mine."])


@pytest.mark.requirement("TOOLX-27")
async def test_a_mask_changes_its_fields_alone_and_a_rehearsal_changes_nothing() -> None:
    async with served([]) as s:
        whole = agent("helper", "Help.", description="old")
        whole.policy.loop.max_steps.value = 3
        whole.policy.tool.max_parallel_calls.value = 2
        whole.labels["team"] = "a"
        await put(s, whole)
        change = agent("helper", "ignored", description="new")
        change.policy.loop.max_steps.value = 5
        rehearsed = await put(s, change, "description", "policy.loop.max_steps", validate_only=True)
        untouched = await get(s, "helper")
        changed = await put(s, change, "description", "policy.loop.max_steps")
        output_only = await refused(put(s, change, "revision"))
        no_field = await refused(put(s, change, "colour"))
        missing = await refused(put(s, agent("nobody"), "description"))
    assert (rehearsed.revision, untouched.revision, changed.revision) == (2, 1, 2)
    assert untouched.description == "old"
    assert (changed.description, list(changed.instructions), dict(changed.labels)) == ("new", ["Help."], {"team": "a"})
    assert changed.policy.loop.max_steps.value == 5
    assert changed.policy.tool.max_parallel_calls.value == 2
    assert output_only[0] is no_field[0] is grpc.StatusCode.INVALID_ARGUMENT
    assert missing == (grpc.StatusCode.NOT_FOUND, "AGENT_NOT_FOUND")


@pytest.mark.requirement("TOOLX-28")
async def test_what_a_run_would_refuse_is_refused_when_it_is_put() -> None:
    broken = agent("helper")
    broken.policy.loop.max_steps.value = 0
    stranger = agent("helper")
    stranger.model.provider = "nobody"
    clients = agent("helper")
    clients.tools.client_tools.add(name="x")
    labels = agent("helper")
    labels.labels["k" * 300] = "v"
    wanted = [
        (broken, "INVALID_REQUEST"),
        (stranger, "PROVIDER_NOT_CONFIGURED"),
        (labels, "INVALID_REQUEST"),
        (agent("no spaces"), "INVALID_REQUEST"),
        (agent("helper", "x" * ((1 << 20) + 1)), "INVALID_REQUEST"),
        (agent("helper", run_as="root"), "INVALID_REQUEST"),
        (agent("default"), "INVALID_REQUEST"),
    ]
    async with served([]) as s:
        for bad, reason in wanted:
            assert (await refused(put(s, bad)))[1] == reason, bad
        with pytest.raises(grpc.aio.AioRpcError):
            await put(s, clients)
        missing = await refused(get(s, "helper"))
        listed = await s.agents.ListAgents(agent_service_pb2.ListAgentsRequest(), timeout=SECONDS)
    assert missing == (grpc.StatusCode.NOT_FOUND, "AGENT_NOT_FOUND")
    assert [(found.agent_id, found.revision) for found in listed.agents] == [("default", 1)]


@pytest.mark.requirement("TOOLX-29")
async def test_agents_and_their_revisions_survive_a_restart(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "turnwire.db")
    async with served([], store=store) as s:
        for name in ("b", "a", "c"):
            await put(s, agent(name))
        await put(s, agent("a", "Second."))
    async with served([answer("Yes.")], store=store) as s:
        pages: list[list[str]] = []
        token = ""
        while not pages or token:
            request = agent_service_pb2.ListAgentsRequest(page_size=3, page_token=token)
            page = await s.agents.ListAgents(request, timeout=SECONDS)
            pages.append([found.agent_id for found in page.agents])
            token = page.next_page_token
        first, newest = await get(s, "a", 1), await get(s, "a")
        beyond = await refused(get(s, "a", 3))
        third = await put(s, agent("a", "Third."))
        seen = await s.run(agent_id="a")
    assert pages == [["a", "b", "c"], ["default"]]
    assert (list(first.instructions), list(newest.instructions)) == (["Help."], ["Second."])
    assert beyond == (grpc.StatusCode.NOT_FOUND, "AGENT_NOT_FOUND")
    assert third.revision == 3
    assert seen.events[0].run_started.agent_revision == 3
