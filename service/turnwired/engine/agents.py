"""The agents of a deployment: those of its configuration, which only it can change, and those stored at runtime.

Every change of a stored agent is a new revision, and a run keeps the one that it began with. The newest revisions are
held in memory, so that starting a run reads nothing. It may not know what calls it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import anyio

from turnwired.codec.agent import decode_agent, encode_agent, etag_of
from turnwired.domain.errors import Conflict, FieldViolation, InvalidRequest, NotFound
from turnwired.domain.failure import Reason
from turnwired.domain.run import Agent
from turnwired.engine.log import now_ns
from turnwired.store.port import Store, StoredAgent


class AgentBook:
    """Finds, lists and changes agents. ``changing`` is held from reading an agent until its change is stored."""

    def __init__(self, configured: Mapping[str, Agent], store: Store, default: str) -> None:
        self.changing = anyio.Lock()
        self._configured = configured
        self._store = store
        self._default = default
        self._stored: dict[tuple[str, str], Agent] = {}

    async def load(self) -> None:
        """Read the stored agents; once, before the first run."""
        for stored in await self._store.newest_agents():
            self._stored[stored.tenant, stored.agent_id] = decode_agent(stored.body)

    def known(self, agent_id: str, tenant: str) -> Agent | None:
        """The newest revision. What the configuration defines goes before what is stored."""
        wanted = agent_id or self._default
        return self._configured.get(wanted) or self._stored.get((tenant, wanted))

    def find(self, agent_id: str, tenant: str) -> Agent:
        """The newest revision of an agent; the default one for no id. Raises NotFound."""
        agent = self.known(agent_id, tenant)
        if agent is None:
            known = ", ".join(found.agent_id for found in self.listed(tenant)[:20])
            wanted = agent_id or self._default
            raise NotFound(
                Reason.AGENT_NOT_FOUND,
                f"No agent has the id {wanted!r}. Configured agents: {known}.",
                {"agent_id": wanted},
            )
        return agent

    async def revision(self, agent_id: str, revision: int, tenant: str) -> Agent:
        """One revision of an agent. Raises NotFound."""
        newest = self.find(agent_id, tenant)
        if newest.revision == revision:
            return newest
        stored = await self._store.get_agent(tenant, newest.agent_id, revision)
        if stored is None or newest.agent_id in self._configured:
            words = f"Agent {newest.agent_id!r} has no revision {revision}; its newest is {newest.revision}."
            raise NotFound(Reason.AGENT_NOT_FOUND, words, {"agent_id": newest.agent_id})
        return decode_agent(stored.body)

    def listed(self, tenant: str) -> Sequence[Agent]:
        """All agents, by id."""
        found = {agent_id: agent for (owner, agent_id), agent in self._stored.items() if owner == tenant}
        return [agent for _, agent in sorted({**found, **self._configured}.items())]

    def require_changeable(self, agent_id: str) -> None:
        """Raises InvalidRequest for an agent of the configuration."""
        if agent_id in self._configured:
            problem = "is an agent of the configuration: change it there, or put one with another id"
            raise InvalidRequest([FieldViolation("agent.agent_id", problem)])

    def require_etag(self, agent_id: str, etag: str, tenant: str) -> None:
        """Raises Conflict ETAG_MISMATCH unless this is the etag of the agent as it stands."""
        current = self.known(agent_id, tenant)
        now = "" if current is None else etag_of(current)
        if etag != now:
            raise _changed(agent_id, now)

    async def put(self, agent: Agent, tenant: str, *, store: bool = True) -> Agent:
        """Make the agent the newest revision, durably; one that changes nothing stays as it is. While ``changing``.

        With ``store`` off: what it would be. Raises Conflict ETAG_MISMATCH when somebody else changed it meanwhile.
        """
        current = self.known(agent.agent_id, tenant)
        if current is None:
            now = now_ns()
            agent = replace(agent, revision=1, create_time_ns=now, update_time_ns=now)
        else:
            same = replace(
                agent,
                revision=current.revision,
                create_time_ns=current.create_time_ns,
                update_time_ns=current.update_time_ns,
            )
            if encode_agent(same) == encode_agent(current):
                return current
            agent = replace(same, revision=current.revision + 1, update_time_ns=now_ns())
        if not store:
            return agent
        if not await self._store.put_agent(StoredAgent(tenant, agent.agent_id, agent.revision, encode_agent(agent))):
            newest = await self._store.get_agent(tenant, agent.agent_id)
            assert newest is not None, "a revision that is there was stored by somebody"
            self._stored[tenant, agent.agent_id] = other = decode_agent(newest.body)
            raise _changed(agent.agent_id, etag_of(other))
        self._stored[tenant, agent.agent_id] = agent
        return agent


def _changed(agent_id: str, etag: str) -> Conflict:
    words = f"Agent {agent_id!r} is not as the etag says any more. Read it again, and change that."
    return Conflict(Reason.ETAG_MISMATCH, words, {"agent_id": agent_id, "etag": etag})
