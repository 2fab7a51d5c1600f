"""The store in memory: for tests, and for a server that is to keep nothing.

It keeps the rules of the log exactly as the others do, by the plainest means. Settled runs are forgotten, oldest first,
beyond a number, so that a server which runs for long does not grow.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from turnwired.domain.errors import StoreError, StoreUnavailable
from turnwired.domain.run import RunState
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
from turnwired.store.rules import (
    MOST_SPENT,
    LogState,
    check_row,
    decode_approval_token,
    decode_page_token,
    decode_position,
    encode_approval_token,
    encode_page_token,
    encode_position,
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
    approvals: dict[str, StoredApproval] = field(default_factory=dict[str, StoredApproval])

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
    create_time_ns: int
    update_time_ns: int
    active_run_id: str | None = None
    run_ids: list[str] = field(default_factory=list[str])
    messages: list[StoredMessage] = field(default_factory=list[StoredMessage])
    rules: dict[tuple[str, str, str], StoredRule] = field(default_factory=dict[tuple[str, str, str], StoredRule])


class MemoryStore:
    """Everything in dictionaries of one process; gone with it. Sessions are kept until then."""

    def __init__(self, *, settled_runs: int = SETTLED_RUNS) -> None:
        self._settled_runs = settled_runs
        self._runs: dict[str, _Run] = {}
        self._settled: dict[str, None] = {}
        self._keys: dict[_Key, tuple[str, bytes]] = {}
        self._sessions: dict[tuple[str, str], _Session] = {}
        self._agents: dict[tuple[str, str], dict[int, StoredAgent]] = {}
        self._deliveries: dict[str, dict[str, str]] = {}
        self._spent: dict[tuple[str, SpendingScope, str], dict[str, int]] = {}
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
            principal=new.caller.principal,
            roles=new.caller.roles,
        )
        self._runs[new.run_id] = _Run(stored, key)
        if key is not None:
            self._keys[key] = (new.run_id, new.digest)
        if new.session_id is not None:
            now = new.create_time_ns
            session = self._sessions.setdefault((new.caller.tenant, new.session_id), _Session(now, now))
            session.update_time_ns = now
            session.active_run_id = new.run_id
            session.run_ids.append(new.run_id)
            session.messages.extend(new.input)
        return stored

    async def append(self, row: LogRow, settlement: Settlement | None = None, changes: Changes | None = None) -> None:
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
        if changes is not None:
            self._change(run, changes)
        if settlement is not None:
            self._settle(run, settlement)

    def _change(self, run: _Run, changes: Changes) -> None:
        if changes.state is not None:
            run.kept = replace(run.kept, state=changes.state, waiting=changes.waiting)
        for approval in changes.approvals:
            known = run.approvals.get(approval.approval_id)
            run.approvals[approval.approval_id] = (
                approval if known is None else replace(known, state=approval.state, body=approval.body)
            )
        stored = run.kept
        if stored.session_id is not None:
            rules = self._sessions[stored.tenant, stored.session_id].rules
            for rule in changes.rules:
                rules.setdefault((rule.permission, rule.pattern, rule.action), rule)

    def _settle(self, run: _Run, settlement: Settlement) -> None:
        run.kept = stored = replace(
            run.kept,
            state=RunState.SETTLED,
            settle_time_ns=settlement.settle_time_ns,
            summary=settlement.summary,
            waiting=b"",
            outcome=settlement.outcome,
        )
        if stored.session_id is not None:
            session = self._sessions[stored.tenant, stored.session_id]
            session.active_run_id = None
            session.update_time_ns = settlement.settle_time_ns
            session.messages.extend(settlement.messages)
        for spent in settlement.spent:
            total = self._spent.setdefault((spent.tenant, spent.scope, spent.name), {})
            total[spent.unit] = min(MOST_SPENT, total.get(spent.unit, 0) + spent.amount)
        self._settled[stored.run_id] = None
        for hook in settlement.hooks:
            self._deliveries.setdefault(hook, {})[stored.run_id] = stored.tenant
        if len(self._settled) > self._settled_runs:
            oldest = next(iter(self._settled))
            del self._settled[oldest]
            key = self._runs.pop(oldest).key
            self._forget_deliveries(oldest)
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

    async def get_session(self, tenant: str, session_id: str) -> StoredSession | None:
        """See the port."""
        self._check_open()
        session = self._sessions.get((tenant, session_id))
        return None if session is None else self._stored_session(tenant, session_id, session)

    async def list_sessions(
        self, query: SessionFilter, page_size: int, page_token: str
    ) -> tuple[Sequence[StoredSession], str]:
        """See the port."""
        self._check_open()
        after = decode_page_token(page_token, "ListSessions") if page_token else None
        keys = sorted(
            ((session.update_time_ns, key[1]) for key, session in self._sessions.items() if key[0] == query.tenant),
            reverse=True,
        )
        found: list[StoredSession] = []
        for key in keys:
            if after is None or key < after:
                stored = self._stored_session(query.tenant, key[1], self._sessions[query.tenant, key[1]])
                agent_id = stored.newest.agent_id if stored.newest is not None else None
                if query.agent_id in (None, agent_id) and query.labels.items() <= stored.labels.items():
                    found.append(stored)
            if len(found) > max(1, page_size):
                break
        page = found[: max(1, page_size)]
        more = len(found) > len(page)
        return page, encode_page_token(page[-1].update_time_ns, page[-1].session_id) if more else ""

    def _stored_session(self, tenant: str, session_id: str, session: _Session) -> StoredSession:
        known = sorted((self._runs[run_id].stored for run_id in session.run_ids if run_id in self._runs), key=_age)
        return StoredSession(
            tenant,
            session_id,
            session.create_time_ns,
            session.update_time_ns,
            len(session.messages),
            session.messages[0].body if session.messages else b"",
            known[-1] if known else None,
            dict(known[0].labels) if known else {},
            tuple(run.summary for run in known if run.state is RunState.SETTLED),
        )

    async def list_messages(
        self, tenant: str, session_id: str, page_size: int, page_token: str
    ) -> tuple[Sequence[StoredMessage], str]:
        """See the port."""
        self._check_open()
        start = decode_position(page_token) if page_token else 0
        session = self._sessions.get((tenant, session_id))
        rest = [] if session is None else session.messages[start:]
        page = rest[: max(1, page_size)]
        return page, encode_position(start + len(page)) if len(rest) > len(page) else ""

    async def get_approval(self, tenant: str, run_id: str, approval_id: str) -> StoredApproval | None:
        """See the port."""
        self._check_open()
        run = self._runs.get(run_id)
        return run.approvals.get(approval_id) if run is not None and run.kept.tenant == tenant else None

    async def list_approvals(
        self, query: ApprovalFilter, page_size: int, page_token: str
    ) -> tuple[Sequence[StoredApproval], str]:
        """See the port."""
        self._check_open()
        after = decode_approval_token(page_token) if page_token else None
        everything = (approval for run in self._runs.values() for approval in run.approvals.values())
        found = sorted((approval for approval in everything if _asked_for(approval, query)), key=_place)
        if after is not None:
            found = [approval for approval in found if _place(approval) > after]
        page = found[: max(1, page_size)]
        return page, encode_approval_token(*_place(page[-1])) if len(found) > len(page) else ""

    async def session_rules(self, tenant: str, session_id: str) -> Sequence[StoredRule]:
        """See the port."""
        self._check_open()
        session = self._sessions.get((tenant, session_id))
        rules = [] if session is None else session.rules.values()
        return sorted(rules, key=lambda rule: (rule.create_time_ns, rule.permission, rule.pattern, rule.action))

    async def delete_session(self, tenant: str, session_id: str) -> None:
        """See the port."""
        self._check_open()
        session = self._sessions.get((tenant, session_id))
        if session is None:
            return
        if session.active_run_id is not None:
            raise session_busy(session_id, session.active_run_id)
        del self._sessions[tenant, session_id]
        self._spent.pop((tenant, SpendingScope.SESSION, session_id), None)
        for run_id in session.run_ids:
            run = self._runs.pop(run_id, None)
            self._settled.pop(run_id, None)
            self._forget_deliveries(run_id)
            if run is not None and run.key is not None:
                del self._keys[run.key]

    async def spent(self, tenant: str, scope: SpendingScope, name: str) -> Mapping[str, int]:
        """See the port."""
        self._check_open()
        return dict(self._spent.get((tenant, scope, name), {}))

    async def pending_deliveries(self, hook: str, limit: int) -> Sequence[tuple[str, str]]:
        """See the port."""
        self._check_open()
        return [(tenant, run_id) for run_id, tenant in self._deliveries.get(hook, {}).items()][:limit]

    async def delivered(self, hook: str, run_id: str) -> None:
        """See the port."""
        self._check_open()
        self._deliveries.get(hook, {}).pop(run_id, None)

    def _forget_deliveries(self, run_id: str) -> None:
        for left in self._deliveries.values():
            left.pop(run_id, None)

    async def put_agent(self, agent: StoredAgent) -> bool:
        """See the port."""
        self._check_open()
        revisions = self._agents.setdefault((agent.tenant, agent.agent_id), {})
        if agent.revision in revisions:
            return False
        revisions[agent.revision] = agent
        return True

    async def get_agent(self, tenant: str, agent_id: str, revision: int | None = None) -> StoredAgent | None:
        """See the port."""
        self._check_open()
        revisions = self._agents.get((tenant, agent_id), {})
        return revisions.get(max(revisions, default=0) if revision is None else revision)

    async def newest_agents(self) -> Sequence[StoredAgent]:
        """See the port."""
        self._check_open()
        return [revisions[max(revisions)] for _, revisions in sorted(self._agents.items())]

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
        and (not query.outcomes or run.outcome in query.outcomes)
        and query.parent_run_id in (None, run.parent_run_id)
        and query.labels.items() <= run.labels.items()
    )


def _place(approval: StoredApproval) -> tuple[int, str, str]:
    return approval.create_time_ns, approval.run_id, approval.approval_id


def _asked_for(approval: StoredApproval, query: ApprovalFilter) -> bool:
    return (
        approval.tenant == query.tenant
        and query.run_id in (None, approval.run_id)
        and query.session_id in (None, approval.session_id)
        and query.agent_id in (None, approval.agent_id)
        and (not query.states or approval.state in query.states)
    )
