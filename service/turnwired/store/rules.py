"""The rules of the log that every store keeps, as pure functions: what an append that did not simply succeed means.

It knows no database. Stores decide the plain case themselves, in whatever way is fast, and ask here for the rest.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass

from turnwired.domain.errors import Conflict, Fenced, FieldViolation, InvalidRequest, StoreError
from turnwired.domain.failure import Reason
from turnwired.store.port import LogRow, Settlement

MOST_SPENT = 2**63 - 1
"""Where a total of spending stays, rather than turn into a number that no database holds exactly."""

_MOST_NS = 2**63 - 1
"""The largest number that a database can be asked about: what is above it was never given out."""


@dataclass(frozen=True, slots=True)
class LogState:
    """What a store knows of the run that a row is for. ``stored`` is the row that has its number, if there is one."""

    epoch: int
    settled: bool
    last_row_no: int
    last_sequence: int
    stored: LogRow | None


def check_row(row: LogRow) -> None:
    """Raises StoreError when the row cannot be a row of any log: it holds at least one event, from number 1."""
    if row.row_no < 1 or row.epoch < 1 or not 1 <= row.first_sequence <= row.last_sequence:
        raise StoreError(
            f"row {row.row_no} of run {row.run_id} (epoch {row.epoch}, sequences {row.first_sequence} to "
            f"{row.last_sequence}) is not a row of a log"
        )


def follows(row: LogRow, log: LogState) -> bool:
    """Whether the row is the next one of the log, from its owner."""
    return (
        not log.settled
        and row.epoch == log.epoch
        and row.row_no == log.last_row_no + 1
        and row.first_sequence == log.last_sequence + 1
    )


def explain(row: LogRow, log: LogState | None, *, settles: bool) -> StoreError | None:
    """Why a row that does not follow was not appended. None: it is in the log already, and so is acknowledged."""
    if log is None:
        return StoreError(f"there is no run {row.run_id} to append to")
    if log.stored == row:
        if settles and not log.settled:
            return StoreError(f"row {row.row_no} of run {row.run_id} is stored without its settlement")
        return None
    if log.stored is not None or row.epoch != log.epoch:
        return Fenced(
            f"row {row.row_no} of run {row.run_id} comes from epoch {row.epoch}, but its log has another owner "
            f"or content (epoch {log.epoch}, {log.last_row_no} rows)"
        )
    if log.settled:
        return Fenced(f"run {row.run_id} is settled: nothing follows row {log.last_row_no}")
    return StoreError(
        f"row {row.row_no} of run {row.run_id} with first sequence {row.first_sequence} does not follow row "
        f"{log.last_row_no} with last sequence {log.last_sequence}"
    )


def session_busy(session_id: str, active_run_id: str) -> Conflict:
    """The session has an active run."""
    return Conflict(
        Reason.SESSION_BUSY,
        f"session {session_id} has an active run, {active_run_id}: wait for it, or cancel it",
        {"session_id": session_id, "active_run_id": active_run_id},
    )


def request_id_reused(request_id: str, run_id: str) -> Conflict:
    """The request id was used for another request."""
    return Conflict(
        Reason.REQUEST_ID_REUSED,
        f"request_id {request_id} was used for another request: take a new one",
        {"request_id": request_id, "run_id": run_id},
    )


def encode_page_token(create_time_ns: int, run_id: str) -> str:
    """Token of the page that starts after this run."""
    return base64.urlsafe_b64encode(f"{create_time_ns}:{run_id}".encode()).decode().rstrip("=")


def encode_approval_token(create_time_ns: int, run_id: str, approval_id: str) -> str:
    """Token of the page that starts after this approval."""
    return encode_page_token(create_time_ns, f"{run_id}/{approval_id}")


def decode_approval_token(token: str) -> tuple[int, str, str]:
    """Time, run and id of the last approval of the page before. Raises InvalidRequest."""
    time_ns, key = decode_page_token(token, "ListApprovals")
    run_id, slash, approval_id = key.partition("/")
    if not slash:
        raise _bad_token("ListApprovals")
    return time_ns, run_id, approval_id


def encode_position(position: int) -> str:
    """Token of the page that starts after this message."""
    return encode_page_token(position, "m")


def decode_position(token: str) -> int:
    """Position of the last message of the page before. Raises InvalidRequest."""
    return decode_page_token(token, "ListMessages")[0]


def decode_page_token(token: str, method: str = "ListRuns") -> tuple[int, str]:
    """Time in nanoseconds and id of the last item of the page before. Raises InvalidRequest."""
    try:
        text = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True).decode()
        time_ns, colon, run_id = text.partition(":")
        if not (colon and run_id and time_ns.isascii() and time_ns.isdecimal() and len(time_ns) < 20):
            raise ValueError(text)
        if (time := int(time_ns)) > _MOST_NS:
            raise ValueError(text)
        return time, run_id
    except (ValueError, binascii.Error) as error:
        raise _bad_token(method) from error


def _bad_token(method: str) -> InvalidRequest:
    violation = FieldViolation("page_token", f"is not a token that {method} gave out")
    return InvalidRequest([violation], Reason.PAGE_TOKEN_INVALID)


def sums_of(settlements: Iterable[Settlement]) -> list[tuple[str, str, str, str, int]]:
    """What settlements add, one row for each total: a statement over rows changes each row of a table once."""
    sums: dict[tuple[str, str, str, str], int] = {}
    for settlement in settlements:
        for spent in settlement.spent:
            key = spent.tenant, spent.scope.value, spent.name, spent.unit
            sums[key] = min(MOST_SPENT, sums.get(key, 0) + spent.amount)
    return [(*key, amount) for key, amount in sums.items()]
