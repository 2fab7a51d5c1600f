"""The store's port over one SQLite file: hands each request to the thread that writes or to one that reads."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from anyio import to_thread

from turnwired.domain.errors import StoreUnavailable
from turnwired.store.migrate import migrate
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
from turnwired.store.rules import check_row
from turnwired.store.sqlite import reader, sessions, waiting
from turnwired.store.sqlite.connection import ProcessLock, connect, prepare_file, unusable
from turnwired.store.sqlite.reader import Read, Reader
from turnwired.store.sqlite.sql import MAX_ROWS
from turnwired.store.sqlite.worker import WAIT_SECONDS, Worker
from turnwired.store.sqlite.writer import (
    Append,
    Create,
    DeleteSession,
    Delivered,
    Ping,
    PutAgent,
    TakeOver,
    TakeOverOne,
    Work,
    Writer,
)

CLOSE_SECONDS = 10.0
READERS = 2


class SqliteStore:
    """Everything in one file, for one process at a time. ``wait_seconds`` bounds each wait for the database."""

    def __init__(self, path: Path, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self._path = path
        self._wait_seconds = wait_seconds
        self._lock = ProcessLock(path)
        self._writing: Worker[Work] | None = None
        self._reading: Worker[Read] | None = None
        self._has_rules = False  # no other process writes any: most deployments never ask the database for them
        self._write_connection: sqlite3.Connection | None = None  # of the writing thread; tests fill and break it

    async def start(self) -> None:
        """Lock the file for this process, migrate it, and start the threads.

        Raises ConfigError when another server has it, or when it is no database of ours or cannot be written.
        """
        writer, readers = await to_thread.run_sync(self._open)
        subject = f"the database {self._path}"
        self._writing = Worker(
            [writer], name="store-writer", subject=subject, batch=MAX_ROWS, wait_seconds=self._wait_seconds
        )
        self._reading = Worker(readers, name="store-reader", subject=subject, batch=1, wait_seconds=self._wait_seconds)

    def _open(self) -> tuple[Writer, list[Reader]]:
        prepare_file(self._path)
        self._lock.acquire()
        opened: list[sqlite3.Connection] = []
        try:
            migrate(self._path)
            opened.append(connect(self._path, write=True))
            opened.extend(connect(self._path, write=False) for _ in range(READERS))
            self._write_connection, *reads = opened
            self._has_rules = waiting.any_rules(reads[0])
            return Writer(opened[0], self._path), [Reader(read, self._path) for read in reads]
        except BaseException as error:
            for connection in opened:
                connection.close()
            self._lock.release()
            if isinstance(error, sqlite3.Error):
                raise unusable(self._path, error) from error
            raise

    async def create_run(self, new: NewRun) -> RunCreated:
        """See the port."""
        size = len(new.spec) + sum(len(message.body) for message in new.input)
        return cast(RunCreated, await self._writer.do(Create(new), size))

    async def append(self, row: LogRow, settlement: Settlement | None = None, changes: Changes | None = None) -> None:
        """See the port."""
        check_row(row)
        size = len(row.body) + len(row.facts)
        if settlement is not None:
            size += len(settlement.summary) + sum(len(message.body) for message in settlement.messages)
        if changes is not None:
            size += len(changes.waiting) + sum(len(approval.body) for approval in changes.approvals)
            self._has_rules = self._has_rules or bool(changes.rules)
        await self._writer.do(Append(row, settlement, changes), size)

    async def read_rows(self, run_id: str, after_sequence: int, max_bytes: int) -> Sequence[LogRow]:
        """See the port."""
        read = reader.read_rows(run_id, after_sequence, max_bytes)
        return cast(Sequence[LogRow], await self._reader.do(read, 0))

    async def first_sequence_after_epoch(self, run_id: str, epoch: int) -> int | None:
        """See the port."""
        read = reader.first_sequence_after_epoch(run_id, epoch)
        return cast("int | None", await self._reader.do(read, 0))

    async def get_run(self, tenant: str, run_id: str) -> StoredRun | None:
        """See the port."""
        return cast("StoredRun | None", await self._reader.do(reader.get_run(tenant, run_id), 0))

    async def list_runs(self, query: RunFilter, page_size: int, page_token: str) -> tuple[Sequence[StoredRun], str]:
        """See the port."""
        read = reader.list_runs(query, page_size, page_token)
        return cast("tuple[Sequence[StoredRun], str]", await self._reader.do(read, 0))

    async def session_exists(self, tenant: str, session_id: str) -> bool:
        """See the port."""
        return cast(bool, await self._reader.do(reader.session_exists(tenant, session_id), 0))

    async def load_messages(self, tenant: str, session_id: str) -> Sequence[StoredMessage]:
        """See the port."""
        read = reader.load_messages(tenant, session_id)
        return cast(Sequence[StoredMessage], await self._reader.do(read, 0))

    async def get_session(self, tenant: str, session_id: str) -> StoredSession | None:
        """See the port."""
        return cast("StoredSession | None", await self._reader.do(sessions.get_session(tenant, session_id), 0))

    async def list_sessions(
        self, query: SessionFilter, page_size: int, page_token: str
    ) -> tuple[Sequence[StoredSession], str]:
        """See the port."""
        read = sessions.list_sessions(query, page_size, page_token)
        return cast("tuple[Sequence[StoredSession], str]", await self._reader.do(read, 0))

    async def list_messages(
        self, tenant: str, session_id: str, page_size: int, page_token: str
    ) -> tuple[Sequence[StoredMessage], str]:
        """See the port."""
        read = sessions.list_messages(tenant, session_id, page_size, page_token)
        return cast("tuple[Sequence[StoredMessage], str]", await self._reader.do(read, 0))

    async def get_approval(self, tenant: str, run_id: str, approval_id: str) -> StoredApproval | None:
        """See the port."""
        read = waiting.get_approval(tenant, run_id, approval_id)
        return cast("StoredApproval | None", await self._reader.do(read, 0))

    async def list_approvals(
        self, query: ApprovalFilter, page_size: int, page_token: str
    ) -> tuple[Sequence[StoredApproval], str]:
        """See the port."""
        read = waiting.list_approvals(query, page_size, page_token)
        return cast("tuple[Sequence[StoredApproval], str]", await self._reader.do(read, 0))

    async def session_rules(self, tenant: str, session_id: str) -> Sequence[StoredRule]:
        """See the port."""
        if not self._has_rules:
            return []
        return cast(Sequence[StoredRule], await self._reader.do(waiting.session_rules(tenant, session_id), 0))

    async def delete_session(self, tenant: str, session_id: str) -> None:
        """See the port."""
        await self._writer.do(DeleteSession(tenant, session_id), 0)

    async def spent(self, tenant: str, scope: SpendingScope, name: str) -> Mapping[str, int]:
        """See the port."""
        return cast("Mapping[str, int]", await self._reader.do(reader.spent(tenant, scope, name), 0))

    async def pending_deliveries(self, hook: str, limit: int) -> Sequence[tuple[str, str]]:
        """See the port."""
        read = sessions.pending_deliveries(hook, limit)
        return cast("Sequence[tuple[str, str]]", await self._reader.do(read, 0))

    async def delivered(self, hook: str, run_id: str) -> None:
        """See the port."""
        await self._writer.do(Delivered(hook, run_id), 0)

    async def put_agent(self, agent: StoredAgent) -> bool:
        """See the port."""
        return cast(bool, await self._writer.do(PutAgent(agent), len(agent.body)))

    async def get_agent(self, tenant: str, agent_id: str, revision: int | None = None) -> StoredAgent | None:
        """See the port."""
        read = sessions.get_agent(tenant, agent_id, revision)
        return cast("StoredAgent | None", await self._reader.do(read, 0))

    async def newest_agents(self) -> Sequence[StoredAgent]:
        """See the port."""
        return cast(Sequence[StoredAgent], await self._reader.do(sessions.newest_agents, 0))

    async def take_over_unfinished(self) -> Sequence[StoredRun]:
        """See the port."""
        return cast(Sequence[StoredRun], await self._writer.do(TakeOver(), 0))

    async def take_over(self, run_id: str) -> StoredRun | None:
        """See the port."""
        return cast("StoredRun | None", await self._writer.do(TakeOverOne(run_id), 0))

    async def ping(self) -> None:
        """See the port."""
        await self._writer.do(Ping(), 0)

    async def aclose(self) -> None:
        """Finish what was handed in and close. Raises StoreUnavailable when that takes over CLOSE_SECONDS."""
        reading, writing = self._reading, self._writing
        self._reading = self._writing = None
        try:
            if reading is not None:
                await reading.aclose(CLOSE_SECONDS)
        finally:
            try:
                if writing is not None:
                    await writing.aclose(CLOSE_SECONDS)
            finally:
                self._lock.release()

    @property
    def _writer(self) -> Worker[Work]:
        if self._writing is None:
            raise self._not_open()
        return self._writing

    @property
    def _reader(self) -> Worker[Read]:
        if self._reading is None:
            raise self._not_open()
        return self._reading

    def _not_open(self) -> StoreUnavailable:
        return StoreUnavailable(f"the database {self._path} is not open")
