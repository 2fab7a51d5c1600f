"""Values to store, with only what a test cares about spelled out."""

from __future__ import annotations

from collections.abc import Mapping

from turnwired.domain.approval import ApprovalState
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.run import Caller, RunState
from turnwired.store.port import (
    Changes,
    LogRow,
    NewRun,
    Settlement,
    Store,
    StoredApproval,
    StoredMessage,
    StoredRule,
    StoredRun,
)


def message(message_id: str, body: bytes = b"text", *, run_id: str | None = None) -> StoredMessage:
    """A message of the user."""
    return StoredMessage(message_id, "USER", body, run_id, 7)


def new_run(
    run_id: str,
    *,
    session_id: str | None = None,
    tenant: str = "default",
    principal: str = "anonymous",
    request_id: str = "",
    digest: bytes = b"",
    time_ns: int = 1,
    labels: Mapping[str, str] | None = None,
    agent_id: str = "agent",
    parent_run_id: str | None = None,
    input_: tuple[StoredMessage, ...] = (),
) -> NewRun:
    """A run to create."""
    return NewRun(
        run_id,
        Caller(tenant, principal),
        agent_id,
        time_ns,
        session_id=session_id,
        parent_run_id=parent_run_id,
        request_id=request_id,
        digest=digest,
        labels=labels or {},
        input=input_,
        spec=b"spec of " + run_id.encode("utf-8", "surrogatepass"),
    )


def row(run_id: str, row_no: int, *, epoch: int = 1, events: int = 2, body: bytes | None = None) -> LogRow:
    """The nth row of a log whose rows hold ``events`` events each."""
    first = (row_no - 1) * events + 1
    return LogRow(run_id, row_no, epoch, first, first + events - 1, body or f"row {row_no}".encode(), b"facts")


def settlement(
    *messages: StoredMessage, time_ns: int = 9, hooks: tuple[str, ...] = (), outcome: OutcomeKind = OutcomeKind.ANSWERED
) -> Settlement:
    """An end."""
    return Settlement(time_ns, b"summary", messages, hooks, outcome=outcome)


def approval(
    run: StoredRun, approval_id: str = "a1", *, state: ApprovalState = ApprovalState.PENDING, time_ns: int = 5
) -> StoredApproval:
    """A question of a run."""
    body = f"{approval_id} {state}".encode()
    return StoredApproval(approval_id, run.tenant, run.run_id, run.agent_id, state, time_ns, body, run.session_id)


def changes(run: StoredRun, made: str) -> Changes:
    """What a row may change, by a word for it."""
    answered = approval(run, state=ApprovalState.RESOLVED)
    match made:
        case "waits":
            return Changes(RunState.WAITING, b"for what")
        case "asks":
            return Changes(RunState.WAITING, b"a1", (approval(run), approval(run, "a2", time_ns=6)))
        case "answers":
            return Changes(RunState.RUNNING, approvals=(answered,))
        case _:
            rules = (StoredRule("tool", "mail", "ALLOW", 7), StoredRule("tool", "pay", "ALLOW", 7))
            return Changes(RunState.RUNNING, approvals=(answered,), rules=rules)


async def make_run(store: Store, run_id: str, *, rows: int = 0, settle: bool = False) -> None:
    """A run of no session with so many rows, the last of which settles it if asked for."""
    await store.create_run(new_run(run_id))
    for row_no in range(1, rows + 1):
        await store.append(row(run_id, row_no), settlement() if settle and row_no == rows else None)
