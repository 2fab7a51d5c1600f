"""The port to the store. It keeps bytes and keys; what the bytes mean is the codec's business.

The append log is the truth: a row is one flush of a run's events, and appending is compare-and-append on
``(run_id, row_no)``, which fences a zombie on every database alike. All else (run state, messages) is a projection
written in the same transaction as the row that causes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from turnwired.domain.approval import ApprovalState
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.run import ANONYMOUS, Caller, RunState


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message of a session as codec bytes."""

    message_id: str
    role: str
    body: bytes
    run_id: str | None = None
    create_time_ns: int = 0


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run's projection. ``spec`` and ``summary`` are codec bytes: what was asked, and the run as read by GetRun.

    ``waiting`` are codec bytes too: what the run waits for, empty unless its state is WAITING. ``principal`` and
    ``roles`` are those of the caller who asked for it: the run acts for that one also after a restart.
    """

    run_id: str
    tenant: str
    agent_id: str
    state: RunState
    epoch: int
    last_row_no: int
    last_sequence: int
    create_time_ns: int
    settle_time_ns: int = 0
    session_id: str | None = None
    parent_run_id: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    spec: bytes = b""
    summary: bytes = b""
    waiting: bytes = b""
    outcome: OutcomeKind | None = None
    principal: str = ANONYMOUS
    roles: frozenset[str] = frozenset()

    @property
    def caller(self) -> Caller:
        """On whose behalf it is made."""
        return Caller(self.tenant, self.principal, self.roles)


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to create, in one transaction with its idempotency key, its session and its input messages.

    The session is created when it does not exist. ``request_id`` empty: not idempotent. ``digest`` tells a repeated
    request from a reused key.
    """

    run_id: str
    caller: Caller
    agent_id: str
    create_time_ns: int
    session_id: str | None = None
    parent_run_id: str | None = None
    request_id: str = ""
    digest: bytes = b""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    input: tuple[StoredMessage, ...] = ()
    spec: bytes = b""


@dataclass(frozen=True, slots=True)
class RunCreated:
    """What became of NewRun: the run, and whether it existed before (same request id and digest)."""

    run: StoredRun
    existing: bool


class SpendingScope(StrEnum):
    """What a stored total of spending is of: a session, or a tenant's UTC day."""

    SESSION = "SESSION"
    DAY = "DAY"


@dataclass(frozen=True, slots=True)
class Spending:
    """What a run adds to a total. ``name``: session id, or day as ``2026-11-30``.

    ``unit``: ``tokens``, or a currency whose billionths ``amount`` counts; from 1 to 2**63-1.
    """

    tenant: str
    scope: SpendingScope
    name: str
    unit: str
    amount: int


@dataclass(frozen=True, slots=True)
class Settlement:
    """Projection of the row that holds RunFinished: the run settles and its session gets these messages.

    ``hooks``: names of those that are to be told, each kept with the run until ``delivered``. ``spent`` is added to its
    totals, once, however often the row is handed in. ``outcome``: how the run ended, to list it by.
    """

    settle_time_ns: int
    summary: bytes
    messages: tuple[StoredMessage, ...] = ()
    hooks: tuple[str, ...] = ()
    spent: tuple[Spending, ...] = ()
    outcome: OutcomeKind | None = None


@dataclass(frozen=True, slots=True)
class StoredApproval:
    """A question of a run, as codec bytes with its keys. ``approval_id`` is unique in its run."""

    approval_id: str
    tenant: str
    run_id: str
    agent_id: str
    state: ApprovalState
    create_time_ns: int
    body: bytes
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class StoredRule:
    """A standing answer: a permission rule that a session was given, in the words of PermissionRule."""

    permission: str
    pattern: str
    action: str
    create_time_ns: int


@dataclass(frozen=True, slots=True)
class Changes:
    """What a row of the log changes beside the log, in the same transaction; most rows change nothing.

    ``state``: the run's from now on, WAITING with ``waiting`` or RUNNING; None: as it was. ``approvals`` are new, or
    take the place of those of the same id. ``rules`` are added to the run's session, those that it has already left
    alone; a run without a session keeps none. Neither holds one key twice.
    """

    state: RunState | None = None
    waiting: bytes = b""
    approvals: tuple[StoredApproval, ...] = ()
    rules: tuple[StoredRule, ...] = ()


@dataclass(frozen=True, slots=True)
class LogRow:
    """One flush of a run's events: one event at least. ``body`` is the events, ``facts`` the private part.

    ``row_no`` and, over all rows, the sequences are dense from 1.
    """

    run_id: str
    row_no: int
    epoch: int
    first_sequence: int
    last_sequence: int
    body: bytes
    facts: bytes = b""


@dataclass(frozen=True, slots=True)
class RunFilter:
    """What ListRuns asks for. None or empty: any."""

    tenant: str
    session_id: str | None = None
    agent_id: str | None = None
    states: tuple[RunState, ...] = ()
    parent_run_id: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    outcomes: tuple[OutcomeKind, ...] = ()


@dataclass(frozen=True, slots=True)
class ApprovalFilter:
    """What ListApprovals asks for. None or empty: any."""

    tenant: str
    run_id: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    states: tuple[ApprovalState, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """What ListSessions asks for. ``agent_id`` is that of the newest run, ``labels`` those of the first."""

    tenant: str
    agent_id: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session with what its runs and messages say of it. Bytes are the codec's.

    ``newest`` is its newest run, ``labels`` are of its first; None and empty where a store has forgotten the run.
    ``summaries`` are of its settled runs, for their sum; ``first_message`` is empty while there is no message.
    """

    tenant: str
    session_id: str
    create_time_ns: int
    update_time_ns: int
    message_count: int = 0
    first_message: bytes = b""
    newest: StoredRun | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    summaries: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredAgent:
    """One revision of an agent, from 1. Revisions are never changed. ``body`` is the codec's."""

    tenant: str
    agent_id: str
    revision: int
    body: bytes


class Store(Protocol):
    """Implementations pass ``tests/store/test_store_contract.py`` unchanged. All methods raise StoreUnavailable when
    the store cannot be used, and nothing else of their database.
    """

    async def start(self) -> None:
        """Open, and migrate the schema under a lock. Raises ConfigError when it cannot be opened."""
        ...

    async def create_run(self, new: NewRun) -> RunCreated:
        """Create a run. Raises Conflict SESSION_BUSY (metadata ``active_run_id``) when the session has an active run,
        Conflict REQUEST_ID_REUSED (metadata ``run_id``) when the request id was used with another digest.
        """
        ...

    async def append(self, row: LogRow, settlement: Settlement | None = None, changes: Changes | None = None) -> None:
        """Append one row with what it changes; returns when it is durable. Group-committed with rows of other runs.

        Raises Fenced when ``row_no`` exists with another epoch or content, when the run was taken over since (another
        epoch owns it) or is settled; the same row again is an acknowledgement, also then. Raises StoreError when the
        row does not follow the log's last one, or there is no such run. Cancelled, or after StoreUnavailable, the row
        may have been stored: append the same row again before any other.
        """
        ...

    async def read_rows(self, run_id: str, after_sequence: int, max_bytes: int) -> Sequence[LogRow]:
        """Rows whose last_sequence is greater than ``after_sequence``, in order: at least one if there is any, then
        as many as fit ``max_bytes`` of body.
        """
        ...

    async def first_sequence_after_epoch(self, run_id: str, epoch: int) -> int | None:
        """First sequence of the first row whose epoch is greater than ``epoch``; None when there is none."""
        ...

    async def get_run(self, tenant: str, run_id: str) -> StoredRun | None:
        """One run."""
        ...

    async def list_runs(self, query: RunFilter, page_size: int, page_token: str) -> tuple[Sequence[StoredRun], str]:
        """Newest first, and the token of the next page (empty on the last). Raises InvalidRequest on a bad token."""
        ...

    async def session_exists(self, tenant: str, session_id: str) -> bool:
        """Whether the session is stored."""
        ...

    async def load_messages(self, tenant: str, session_id: str) -> Sequence[StoredMessage]:
        """All messages of a session, oldest first; empty when it does not exist."""
        ...

    async def get_session(self, tenant: str, session_id: str) -> StoredSession | None:
        """One session."""
        ...

    async def list_sessions(
        self, query: SessionFilter, page_size: int, page_token: str
    ) -> tuple[Sequence[StoredSession], str]:
        """Newest change first, and the token of the next page (empty on the last). Raises InvalidRequest."""
        ...

    async def list_messages(
        self, tenant: str, session_id: str, page_size: int, page_token: str
    ) -> tuple[Sequence[StoredMessage], str]:
        """Oldest first, and the token of the next page (empty on the last). Raises InvalidRequest on a bad token."""
        ...

    async def get_approval(self, tenant: str, run_id: str, approval_id: str) -> StoredApproval | None:
        """One question."""
        ...

    async def list_approvals(
        self, query: ApprovalFilter, page_size: int, page_token: str
    ) -> tuple[Sequence[StoredApproval], str]:
        """Oldest first, and the token of the next page (empty on the last). Raises InvalidRequest on a bad token."""
        ...

    async def session_rules(self, tenant: str, session_id: str) -> Sequence[StoredRule]:
        """The standing answers of a session, oldest first."""
        ...

    async def delete_session(self, tenant: str, session_id: str) -> None:
        """Delete a session with its messages, rules, runs, approvals, logs, keys and totals, if it is there.

        What it spent stays in the totals of its tenant.

        Raises Conflict SESSION_BUSY (metadata ``active_run_id``) while a run of it is active.
        """
        ...

    async def spent(self, tenant: str, scope: SpendingScope, name: str) -> Mapping[str, int]:
        """What settled runs have added to a total, by unit; at most 2**63-1, also if it was more."""
        ...

    async def pending_deliveries(self, hook: str, limit: int) -> Sequence[tuple[str, str]]:
        """Tenant and id of settled runs that a hook is still to be told of, at most ``limit``, oldest first."""
        ...

    async def delivered(self, hook: str, run_id: str) -> None:
        """The hook has been told of the run. Idempotent."""
        ...

    async def put_agent(self, agent: StoredAgent) -> bool:
        """Store a revision, durably. False when it exists: somebody else was faster."""
        ...

    async def get_agent(self, tenant: str, agent_id: str, revision: int | None = None) -> StoredAgent | None:
        """One revision, or the newest."""
        ...

    async def newest_agents(self) -> Sequence[StoredAgent]:
        """The newest revision of every agent of every tenant, by tenant and id."""
        ...

    async def take_over_unfinished(self) -> Sequence[StoredRun]:
        """At boot, by the only process: every run that is not settled, its epoch raised by one, durably."""
        ...

    async def take_over(self, run_id: str) -> StoredRun | None:
        """Raise the epoch of one run by one, durably, and return it; None when it is settled or unknown.

        Its execution can append nothing from then on. For a run of this process that failed.
        """
        ...

    async def ping(self) -> None:
        """Raises StoreUnavailable unless a write would work."""
        ...

    async def aclose(self) -> None:
        """Finish what was handed in, bounded, and close."""
        ...
