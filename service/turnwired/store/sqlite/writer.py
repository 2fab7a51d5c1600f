"""The one thread that writes. Everything that is pending becomes one transaction, whichever runs it is of.

A transaction of rows alone is one statement, so its cost in the database is one step and one sync of the disk. When
something in a transaction does not go through, each change is tried by itself, and only the bad one fails. It belongs
to its thread entirely: the event loop reaches it through a Worker.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from turnwired.domain.errors import RequestError, StoreError, StoreUnavailable
from turnwired.store.port import Changes, LogRow, NewRun, RunCreated, Settlement, StoredAgent, StoredRun
from turnwired.store.rules import LogState, explain, request_id_reused, session_busy, sums_of
from turnwired.store.sqlite import sessions, sql, waiting
from turnwired.store.sqlite.connection import concerns_one, unavailable
from turnwired.store.sqlite.records import (
    log_values,
    message_values,
    new_stored_run,
    run_values,
    stored_run,
)
from turnwired.store.sqlite.worker import Job

_PING_BYTES = 16 << 10


@dataclass(frozen=True, slots=True)
class Append:
    """Append a row, settle its run with it, and make what else it changes."""

    row: LogRow
    settlement: Settlement | None
    changes: Changes | None = None

    @property
    def plain(self) -> bool:
        """Whether it is a row and nothing else."""
        return self.settlement is None and self.changes is None


@dataclass(frozen=True, slots=True)
class Create:
    """Create a run."""

    new: NewRun


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Raise the epoch of every run that is not settled, and read them."""


@dataclass(frozen=True, slots=True)
class TakeOverOne:
    """Raise the epoch of one run, unless it is settled, and read it."""

    run_id: str


@dataclass(frozen=True, slots=True)
class DeleteSession:
    """Delete a session and all of it, unless a run of it is active."""

    tenant: str
    session_id: str


@dataclass(frozen=True, slots=True)
class PutAgent:
    """Store a revision of an agent, unless it is there."""

    agent: StoredAgent


@dataclass(frozen=True, slots=True)
class Delivered:
    """A hook was told of a run."""

    hook: str
    run_id: str


@dataclass(frozen=True, slots=True)
class Ping:
    """Write something, for the sake of knowing that it works."""


Work = Append | Create | TakeOver | TakeOverOne | DeleteSession | PutAgent | Delivered | Ping
WriteJob = Job[Work]


class _NotAppended(Exception):
    """Fewer rows were inserted than given."""


@dataclass(slots=True)
class _Change:
    """One transaction's worth of jobs, by kind; the work of a job is beside it so that its type is known."""

    appends: list[tuple[WriteJob, Append]]
    creates: list[tuple[WriteJob, Create]]

    @property
    def jobs(self) -> list[WriteJob]:
        return [job for job, _ in self.appends] + [job for job, _ in self.creates]

    def one_by_one(self) -> Iterator[_Change]:
        for append in self.appends:
            yield _Change([append], [])
        for create in self.creates:
            yield _Change([], [create])


class Writer:
    """Performs what changes the database, on the connection that it is given and closes."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._inode = path.stat().st_ino

    def perform(self, jobs: Sequence[WriteJob]) -> None:
        """Commit the jobs and set what became of each."""
        change = _Change([], [])
        alone: list[WriteJob] = []
        for job in jobs:
            match job.work:
                case Append() as work:
                    change.appends.append((job, work))
                case Create() as work:
                    change.creates.append((job, work))
                case TakeOver() | TakeOverOne() | DeleteSession() | PutAgent() | Delivered() | Ping():
                    alone.append(job)
        self._commit(change)
        for job in alone:
            self._perform_alone(job)

    def close(self) -> None:
        """Close the connection, which moves what the log file holds into the database."""
        self._connection.close()

    def _commit(self, change: _Change) -> None:
        jobs = change.jobs
        if not jobs:
            return
        try:
            self._transaction(change)
        except _NotAppended:
            if len(jobs) > 1:
                self._commit_one_by_one(change)
            else:
                self._set_refusal(*change.appends[0])
        except sqlite3.Error as error:
            if len(jobs) > 1 and concerns_one(error):
                self._commit_one_by_one(change)
            else:
                for job in jobs:
                    job.error = self._translated(error)
        except (ValueError, OverflowError, TypeError) as error:  # a value that no database can hold
            if len(jobs) > 1:
                self._commit_one_by_one(change)
            else:
                jobs[0].error = StoreError(f"a value cannot be stored: {error}")

    def _commit_one_by_one(self, change: _Change) -> None:
        for one in change.one_by_one():
            self._commit(one)

    def _translated(self, error: sqlite3.Error) -> StoreError:
        match error:
            case sqlite3.IntegrityError():
                return StoreError(f"the change contradicts what is stored: {error}")
            case sqlite3.InterfaceError() | sqlite3.DataError():
                return StoreError(f"a value cannot be stored: {error}")
            case _:
                return unavailable(self._path, error)

    def _transaction(self, change: _Change) -> None:
        if not change.creates and all(append.plain for _, append in change.appends):
            self._append(change)  # one statement is a transaction by itself
            return
        with _Transaction(self._connection):
            self._append(change)
            changed = [(append.row.run_id, append.changes) for _, append in change.appends]
            waiting.apply(self._connection, [(run_id, made) for run_id, made in changed if made is not None])
            self._settle(change)
            outcomes = _create(self._connection, [create.new for _, create in change.creates])
        for (job, _), outcome in zip(change.creates, outcomes, strict=True):
            if isinstance(outcome, RequestError):
                job.error = outcome
            else:
                job.result = outcome

    def _append(self, change: _Change) -> None:
        appends = change.appends
        if not appends:
            return
        # A count of changes for statements that start with WITH: the driver's rowcount has none.
        before = self._connection.total_changes
        sql.APPEND.run(self._connection, [log_values(append.row) for _, append in appends])
        if self._connection.total_changes - before != len(appends):
            raise _NotAppended

    def _settle(self, change: _Change) -> None:
        settled = [(append.row.run_id, append.settlement) for _, append in change.appends]
        ends = [(run_id, settlement) for run_id, settlement in settled if settlement is not None]
        if not ends:
            return
        sql.SETTLE.run(
            self._connection, [(run_id, end.settle_time_ns, end.summary, end.outcome) for run_id, end in ends]
        )
        messages = [values for run_id, end in ends for values in message_values(run_id, end.messages)]
        sql.ADD_MESSAGES.run(self._connection, messages)
        sql.TOUCH_SETTLED.run(self._connection, [(run_id, end.settle_time_ns) for run_id, end in ends])
        told = [(hook, run_id, end.settle_time_ns) for run_id, end in ends for hook in end.hooks]
        sql.ADD_DELIVERIES.run(self._connection, told)
        self._add_spending(sums_of(end for _, end in ends))

    def _add_spending(self, sums: Sequence[tuple[str, str, str, str, int]]) -> None:
        before = self._connection.total_changes
        sql.RAISE_TOTALS.run(self._connection, sums)
        if self._connection.total_changes - before < len(sums):  # the first run of a session or day
            sql.ADD_TOTALS.run(self._connection, sums)

    def _set_refusal(self, job: WriteJob, append: Append) -> None:
        try:
            log = self._log_state(append.row)
        except sqlite3.Error as error:
            job.error = unavailable(self._path, error)
        else:
            job.error = explain(append.row, log, settles=append.settlement is not None)

    def _log_state(self, row: LogRow) -> LogState | None:
        run = _get_run(self._connection, row.run_id)
        if run is None:
            return None
        there = sql.GET_ROW.run(self._connection, run_id=row.run_id, row_no=row.row_no).fetchone()
        stored = None if there is None else LogRow(*there)
        return LogState(run.epoch, run.state == "SETTLED", run.last_row_no, run.last_sequence, stored)

    def _perform_alone(self, job: WriteJob) -> None:
        try:
            with _Transaction(self._connection):
                match job.work:
                    case TakeOver():
                        sql.RAISE_EPOCHS.run(self._connection)
                        unfinished = sql.UNFINISHED_RUNS.run(self._connection).fetchall()
                        job.result = [stored_run(row) for row in unfinished]
                    case TakeOverOne(run_id):
                        raised = sql.RAISE_EPOCH.run(self._connection, run_id=run_id).rowcount
                        job.result = _get_run(self._connection, run_id) if raised else None
                    case DeleteSession(tenant, session_id):
                        job.error = sessions.delete(self._connection, tenant, session_id)
                    case PutAgent(agent):
                        job.result = sessions.put_agent(self._connection, agent)
                    case Delivered(hook, run_id):
                        sessions.delivered(self._connection, hook, run_id)
                    case _:
                        self._ping()
        except sqlite3.Error as error:
            job.error = unavailable(self._path, error)
        except OSError as error:
            job.error = StoreUnavailable(f"the database {self._path} cannot be used: {error.strerror}")

    def _ping(self) -> None:
        if self._path.stat().st_ino != self._inode:
            raise FileNotFoundError(0, "its file was replaced while it was open, restart the server")
        # Rolled back: asks for new pages, as a database that may not grow can still change those it has.
        self._connection.execute("SAVEPOINT ping")
        sql.DELETE_PING.run(self._connection)
        sql.WRITE_PING.run(self._connection, time_ns=0, filler=b"\1" * _PING_BYTES)
        self._connection.execute("ROLLBACK TO ping")
        sql.DELETE_PING.run(self._connection)
        sql.WRITE_PING.run(self._connection, time_ns=time.time_ns(), filler=b"")


class _Transaction:
    """BEGIN IMMEDIATE, then COMMIT, or ROLLBACK when anything is raised."""

    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            try:
                self._connection.execute("COMMIT")
            except sqlite3.Error as failed:
                self._rollback(failed)
                raise
        else:
            self._rollback(error)

    def _rollback(self, error: BaseException) -> None:
        if not self._connection.in_transaction:  # SQLite has rolled back by itself
            return
        try:
            self._connection.execute("ROLLBACK")
        except sqlite3.Error as second:
            error.add_note(f"the transaction could not be rolled back: {second}")


def _create(connection: sqlite3.Connection, news: Sequence[NewRun]) -> list[RunCreated | RequestError]:
    """Decide about each new run in turn, then insert those that are accepted. Inside a transaction."""
    if not news:
        return []
    keys = _known_keys(connection, news)
    active = _active_runs(connection, news)
    created: dict[str, StoredRun] = {}
    accepted: list[NewRun] = []
    outcomes: list[RunCreated | RequestError] = []
    for new in news:
        tenant = new.caller.tenant
        key = (tenant, new.caller.principal, new.request_id)
        session = (tenant, new.session_id)
        if new.request_id and key in keys:
            run_id, digest = keys[key]
            if digest != new.digest:
                outcomes.append(request_id_reused(new.request_id, run_id))
            else:
                run = created.get(run_id) or _get_run(connection, run_id)
                assert run is not None
                outcomes.append(RunCreated(run, existing=True))
        elif new.session_id is not None and session in active:
            outcomes.append(session_busy(new.session_id, active[session]))
        else:
            if new.request_id:
                keys[key] = (new.run_id, new.digest)
            if new.session_id is not None:
                active[session] = new.run_id
            created[new.run_id] = run = new_stored_run(new)
            accepted.append(new)
            outcomes.append(RunCreated(run, existing=False))
    _insert(connection, accepted)
    return outcomes


def _known_keys(
    connection: sqlite3.Connection, news: Sequence[NewRun]
) -> dict[tuple[str, str, str], tuple[str, bytes]]:
    wanted = [(new.caller.tenant, new.caller.principal, new.request_id) for new in news if new.request_id]
    return {
        (tenant, principal, request_id): (run_id, digest)
        for tenant, principal, request_id, run_id, digest in sql.FIND_KEYS.fetch(connection, wanted)
    }


def _active_runs(connection: sqlite3.Connection, news: Sequence[NewRun]) -> dict[tuple[str, str | None], str]:
    wanted = [(new.caller.tenant, new.session_id) for new in news if new.session_id is not None]
    return {(tenant, session_id): run_id for tenant, session_id, run_id in sql.FIND_ACTIVE.fetch(connection, wanted)}


def _insert(connection: sqlite3.Connection, news: Sequence[NewRun]) -> None:
    used = [(new.caller.tenant, new.session_id, new.create_time_ns) for new in news if new.session_id is not None]
    sql.ADD_SESSIONS.run(connection, used)
    sql.TOUCH.run(connection, used)
    sql.ADD_RUNS.run(connection, [run_values(new) for new in news])
    sql.ADD_KEYS.run(
        connection,
        [
            (new.caller.tenant, new.caller.principal, new.request_id, new.run_id, new.digest, new.create_time_ns)
            for new in news
            if new.request_id
        ],
    )
    sql.ADD_LABELS.run(connection, [(new.run_id, name, value) for new in news for name, value in new.labels.items()])
    sql.ADD_MESSAGES.run(connection, [values for new in news for values in message_values(new.run_id, new.input)])


def _get_run(connection: sqlite3.Connection, run_id: str) -> StoredRun | None:
    row = sql.GET_RUN.run(connection, run_id=run_id).fetchone()
    return None if row is None else stored_run(row)
