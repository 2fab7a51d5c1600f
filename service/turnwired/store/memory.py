"""The store in memory: for tests, and for a server that is to keep nothing.

It keeps the rules of the log exactly as the others do, by the plainest means. Settled runs are forgotten, oldest first,
beyond a number, so that a server which runs for long does not grow.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from turnwired.domain.errors import StoreError, StoreUnavailable
from turnwired.domain.run import RunState
from turnwired.store.port import (
    LogRow,
    NewRun,
    RunCreated,
    RunFilter,
    Settlement,
    StoredMessage,
    StoredRun,
)
from turnwired.store.rules import (
    LogState,
    check_row,
    decode_page_token,
    encode_page_token,
    explain,
    follows,
    request_id_reused,
    session_busy,
)

SETTLED_RUNS = 10_000
"""Settled runs that are kept unless the caller says otherwise."""

_Key = tuple[str, str, str]


@dataclass(slots=True)
class _Run:
    kept: StoredRun  # but for the end of the log, which the rows say
    key: _Key | None
    rows: list[LogRow] = field(default_factory=list[LogRow])

    @property
    def settled(self) -> bool:
        return self.kept.state is RunState.SETTLED

    @property
    def stored(self) -> StoredRun:
        if not self.rows:
            return self.kept
        return replace(self.kept, last_row_no=len(self.rows), last_sequence=self.rows[-1].last_sequence)

    def log_state(self, row_no: int) -> LogState:
        there = self.rows[row_no - 1] if row_no <= len(self.rows) else None
        last_sequence = self.rows[-1].last_sequence if self.rows else 0
        return LogState(self.kept.epoch, self.settled, len(self.rows), last_sequence, there)


@dataclass(slots=True)
class _Session:
    active_run_id: str | None = None
    messages: list[StoredMessage] = field(default_factory=list[StoredMessage])


class MemoryStore:
    """Everything in dictionaries of one process; gone with it. Sessions are kept until then."""

    def __init__(self, *, settled_runs: int = SETTLED_RUNS) -> None:
        self._settled_runs = settled_runs
        self._runs: dict[str, _Run] = {}
        self._settled: dict[str, None] = {}
        self._keys: dict[_Key, tuple[str, bytes]] = {}
        self._sessions: dict[tuple[str, str], _Session] = {}
        self._open = False

    async def start(self) -> None:
        """There is nothing to open."""
        self._open = True

    async def create_run(self, new: NewRun) -> RunCreated:
        """See the port."""
        self._check_open()
        tenant = new.caller.tenant
        key = (tenant, new.caller.principal, new.request_id) if new.request_id else None
        if key is not None and key in self._keys:
            run_id, digest = self._keys[key]
            if digest != new.digest:
                raise request_id_reused(new.request_id, run_id)
            return RunCreated(self._runs[run_id].stored, existing=True)
        if new.session_id is not None:
            session = self._sessions.get((tenant, new.session_id))
            if session is not None and session.active_run_id is not None:
                raise session_busy(new.session_id, session.active_run_id)
        return RunCreated(self._add(new, key), existing=False)

    def _add(self, new: NewRun, key: _Key | None) -> StoredRun:
        if new.run_id in self._runs:
            raise StoreError(f"run {new.run_id} exists already")
        stored = StoredRun(
            run_id=new.run_id,
            tenant=new.caller.tenant,
            agent_id=new.agent_id,
            state=RunState.RUNNING,
            epoch=1,
            last_row_no=0,
            last_sequence=0,
            create_time_ns=new.create_time_ns,
            session_id=new.session_id,
            parent_run_id=new.parent_run_id,
            labels=dict(new.labels),
            spec=new.spec,
        )
        self._runs[new.run_id] = _Run(stored, key)
        if key is not None:
            self._keys[key] = (new.run_id, new.digest)
        if new.session_id is not None:
            session = self._sessions.setdefault((new.caller.tenant, new.session_id), _Session())
            session.active_run_id = new.run_id
            session.messages.extend(new.input)
        return stored

    async def append(self, row: LogRow, settlement: Settlement | None = None) -> None:
        """See the port."""
        self._check_open()
        check_row(row)
        run = self._runs.get(row.run_id)
        log = None if run is None else run.log_state(row.row_no)
        if run is None or log is None or not follows(row, log):
            refusal = explain(row, log, settles=settlement is not None)
            if refusal is not None:
                raise refusal
            return
        run.rows.append(row)
        if settlement is not None:
            self._settle(run, settlement)

    def _settle(self, run: _Run, settlement: Settlement) -> None:
        run.kept = stored = replace(
            run.kept,
            state=RunState.SETTLED,
            settle_time_ns=settlement.settle_time_ns,
            summary=settlement.summary,
        )
        if stored.session_id is not None:
            session = self._sessions[stored.tenant, stored.session_id]
            session.active_run_id = None
            session.messages.extend(settlement.messages)
        self._settled[stored.run_id] = None
        if len(self._settled) > self._settled_runs:
            oldest = next(iter(self._settled))
            del self._settled[oldest]
            key = self._runs.pop(oldest).key
            if key is not None:
                del self._keys[key]

    async def read_rows(self, run_id: str, after_sequence: int, max_bytes: int) -> Sequence[LogRow]:
        """See the port."""
        self._check_open()
        run = self._runs.get(run_id)
        if run is None:
            return []
        rows: list[LogRow] = []
        size = 0
        for row in run.rows[bisect_right(run.rows, after_sequence, key=lambda row: row.last_sequence) :]:
            size += len(row.body)
            if rows and size > max_bytes:
                break
            rows.append(row)
        return rows

    async def first_sequence_after_epoch(self, run_id: str, epoch: int) -> int | None:
        """See the port."""
        self._check_open()
        run = self._runs.get(run_id)
        if run is None:
            return None
        first = bisect_right(run.rows, epoch, key=lambda row: row.epoch)
        return run.rows[first].first_sequence if first < len(run.rows) else None

    async def get_run(self, tenant: str, run_id: str) -> StoredRun | None:
        """See the port."""
        self._check_open()
        run = self._runs.get(run_id)
        return run.stored if run is not None and run.kept.tenant == tenant else None

    async def list_runs(self, query: RunFilter, page_size: int, page_token: str) -> tuple[Sequence[StoredRun], str]:
        """See the port."""
        self._check_open()
        after = decode_page_token(page_token) if page_token else None
        found = sorted((run.stored for run in self._runs.values() if _matches(run.kept, query)), key=_age, reverse=True)
        if after is not None:
            found = [run for run in found if _age(run) < after]
        page = found[: max(1, page_size)]
        more = len(found) > len(page)
        return page, encode_page_token(*_age(page[-1])) if more else ""

    async def session_exists(self, tenant: str, session_id: str) -> bool:
        """See the port."""
        self._check_open()
        return (tenant, session_id) in self._sessions

    async def load_messages(self, tenant: str, session_id: str) -> Sequence[StoredMessage]:
        """See the port."""
        self._check_open()
        session = self._sessions.get((tenant, session_id))
        return [] if session is None else list(session.messages)

    async def take_over_unfinished(self) -> Sequence[StoredRun]:
        """See the port."""
        self._check_open()
        unfinished = [run for run in self._runs.values() if not run.settled]
        for run in unfinished:
            run.kept = replace(run.kept, epoch=run.kept.epoch + 1)
        return sorted((run.stored for run in unfinished), key=_age)

    async def take_over(self, run_id: str) -> StoredRun | None:
        """See the port."""
        self._check_open()
        run = self._runs.get(run_id)
        if run is None or run.settled:
            return None
        run.kept = replace(run.kept, epoch=run.kept.epoch + 1)
        return run.stored

    async def ping(self) -> None:
        """See the port."""
        self._check_open()

    async def aclose(self) -> None:
        """Refuse all that comes after. What is stored stays, so that a test may start the store again."""
        self._open = False

    def _check_open(self) -> None:
        if not self._open:
            raise StoreUnavailable("the store in memory is not open")


def _age(run: StoredRun) -> tuple[int, str]:
    return run.create_time_ns, run.run_id


def _matches(run: StoredRun, query: RunFilter) -> bool:
    return (
        run.tenant == query.tenant
        and query.session_id in (None, run.session_id)
        and query.agent_id in (None, run.agent_id)
        and (not query.states or run.state in query.states)
        and query.parent_run_id in (None, run.parent_run_id)
        and query.labels.items() <= run.labels.items()
    )
