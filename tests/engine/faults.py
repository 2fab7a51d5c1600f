"""A store that fails or waits where a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from turnwired.domain.errors import Fenced, StoreUnavailable
from turnwired.store.memory import MemoryStore
from turnwired.store.port import (
    ApprovalFilter,
    Changes,
    LogRow,
    NewRun,
    RunCreated,
    RunFilter,
    SessionFilter,
    Settlement,
    SpendingScope,
    StoredAgent,
    StoredApproval,
    StoredMessage,
    StoredRule,
    StoredRun,
    StoredSession,
)


@dataclass
class FaultyStore:
    """A memory store behind faults. ``fail_next`` appends fail; ``fence`` fences them; ``gate`` holds them back."""

    inner: MemoryStore = field(default_factory=MemoryStore)
    fail_next: int = 0
    fence: bool = False
    gate: asyncio.Event | None = None
    unreadable: bool = False
    gone: bool = False
    create_gate: asyncio.Event | None = None
    lost_answers: int = 0
    load_gate: asyncio.Event | None = None
    create_fault: BaseException | None = None
    appended: list[LogRow] = field(default_factory=list)
    held: asyncio.Event = field(default_factory=asyncio.Event)

    async def start(self) -> None:
        await self.inner.start()

    async def create_run(self, new: NewRun) -> RunCreated:
        if self.create_gate is not None:
            self.held.set()
            await self.create_gate.wait()
        if self.create_fault is not None:
            raise self.create_fault
        created = await self.inner.create_run(new)
        if self.lost_answers > 0:
            self.lost_answers -= 1
            raise StoreUnavailable("did not answer in time", uncertain=True)
        return created

    async def append(self, row: LogRow, settlement: Settlement | None = None, changes: Changes | None = None) -> None:
        if self.gate is not None:
            self.held.set()
            await self.gate.wait()
        if self.fence:
            raise Fenced("somebody else owns the run")
        if self.fail_next > 0:
            self.fail_next -= 1
            raise StoreUnavailable("the disk is full")
        await self.inner.append(row, settlement, changes)
        self.appended.append(row)

    async def read_rows(self, run_id: str, after_sequence: int, max_bytes: int) -> Sequence[LogRow]:
        return await self.inner.read_rows(run_id, after_sequence, max_bytes)

    async def first_sequence_after_epoch(self, run_id: str, epoch: int) -> int | None:
        return await self.inner.first_sequence_after_epoch(run_id, epoch)

    async def get_run(self, tenant: str, run_id: str) -> StoredRun | None:
        return await self.inner.get_run(tenant, run_id)

    async def list_runs(self, query: RunFilter, page_size: int, page_token: str) -> tuple[Sequence[StoredRun], str]:
        return await self.inner.list_runs(query, page_size, page_token)

    async def session_exists(self, tenant: str, session_id: str) -> bool:
        return await self.inner.session_exists(tenant, session_id)

    async def load_messages(self, tenant: str, session_id: str) -> Sequence[StoredMessage]:
        if self.load_gate is not None:
            self.held.set()
            await self.load_gate.wait()
        if self.unreadable:
            raise StoreUnavailable("the disk cannot be read")
        return await self.inner.load_messages(tenant, session_id)

    async def get_session(self, tenant: str, session_id: str) -> StoredSession | None:
        return await self.inner.get_session(tenant, session_id)

    async def list_sessions(
        self, query: SessionFilter, page_size: int, page_token: str
    ) -> tuple[Sequence[StoredSession], str]:
        return await self.inner.list_sessions(query, page_size, page_token)

    async def list_messages(
        self, tenant: str, session_id: str, page_size: int, page_token: str
    ) -> tuple[Sequence[StoredMessage], str]:
        return await self.inner.list_messages(tenant, session_id, page_size, page_token)

    async def get_approval(self, tenant: str, run_id: str, approval_id: str) -> StoredApproval | None:
        return await self.inner.get_approval(tenant, run_id, approval_id)

    async def list_approvals(
        self, query: ApprovalFilter, page_size: int, page_token: str
    ) -> tuple[Sequence[StoredApproval], str]:
        return await self.inner.list_approvals(query, page_size, page_token)

    async def session_rules(self, tenant: str, session_id: str) -> Sequence[StoredRule]:
        return await self.inner.session_rules(tenant, session_id)

    async def delete_session(self, tenant: str, session_id: str) -> None:
        await self.inner.delete_session(tenant, session_id)

    async def spent(self, tenant: str, scope: SpendingScope, name: str) -> Mapping[str, int]:
        if self.unreadable:
            raise StoreUnavailable("the disk cannot be read")
        return await self.inner.spent(tenant, scope, name)

    async def pending_deliveries(self, hook: str, limit: int) -> Sequence[tuple[str, str]]:
        return await self.inner.pending_deliveries(hook, limit)

    async def delivered(self, hook: str, run_id: str) -> None:
        await self.inner.delivered(hook, run_id)

    async def put_agent(self, agent: StoredAgent) -> bool:
        return await self.inner.put_agent(agent)

    async def get_agent(self, tenant: str, agent_id: str, revision: int | None = None) -> StoredAgent | None:
        return await self.inner.get_agent(tenant, agent_id, revision)

    async def newest_agents(self) -> Sequence[StoredAgent]:
        return await self.inner.newest_agents()

    async def take_over_unfinished(self) -> Sequence[StoredRun]:
        return await self.inner.take_over_unfinished()

    async def take_over(self, run_id: str) -> StoredRun | None:
        if self.fail_next > 0:
            self.fail_next -= 1
            raise StoreUnavailable("the disk is full")
        return await self.inner.take_over(run_id)

    async def ping(self) -> None:
        if self.gone:
            raise StoreUnavailable("the database was deleted")
        await self.inner.ping()

    async def aclose(self) -> None:
        """The memory outlives a world, as a file would."""
