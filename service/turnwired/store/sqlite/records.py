"""Rows of the database to values of the port, and back. It runs no statement."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.run import RunState
from turnwired.store.port import LogRow, NewRun, StoredMessage, StoredRun
from turnwired.store.sqlite.sql import Value


def run_values(new: NewRun) -> tuple[Value, ...]:
    """In the order of the columns of ``runs``."""
    return (
        new.run_id,
        new.caller.tenant,
        new.agent_id,
        RunState.RUNNING.value,
        1,
        new.create_time_ns,
        0,
        new.session_id,
        new.parent_run_id,
        json.dumps(dict(new.labels)) if new.labels else "{}",
        new.spec,
        b"",
        b"",
        None,
        new.caller.principal,
        json.dumps(sorted(new.caller.roles)) if new.caller.roles else "[]",
    )


def new_stored_run(new: NewRun) -> StoredRun:
    """The run as it is when it has just been created."""
    return StoredRun(
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


def stored_run(row: Sequence[Any]) -> StoredRun:
    """From the columns of ``runs``, then last_row_no and last_sequence."""
    (
        run_id,
        tenant,
        agent_id,
        state,
        epoch,
        create_time_ns,
        settle_time_ns,
        session_id,
        parent_run_id,
        labels,
        spec,
        summary,
        waiting,
        outcome,
        principal,
        roles,
        last_row_no,
        last_sequence,
    ) = row
    return StoredRun(
        run_id=run_id,
        tenant=tenant,
        agent_id=agent_id,
        state=RunState(state),
        epoch=epoch,
        last_row_no=last_row_no or 0,
        last_sequence=last_sequence or 0,
        create_time_ns=create_time_ns,
        settle_time_ns=settle_time_ns,
        session_id=session_id,
        parent_run_id=parent_run_id,
        labels={} if labels == "{}" else json.loads(labels),
        spec=spec,
        summary=summary,
        waiting=waiting if isinstance(waiting, bytes) else b"",  # the default of an added column is text
        outcome=None if outcome is None else OutcomeKind(outcome),
        principal=principal,
        roles=frozenset() if roles == "[]" else frozenset(json.loads(roles)),
    )


def log_values(row: LogRow) -> tuple[Value, ...]:
    """In the order of the columns of ``log_rows``."""
    return (row.run_id, row.row_no, row.epoch, row.first_sequence, row.last_sequence, row.body, row.facts)


def message_values(run_id: str, messages: Sequence[StoredMessage]) -> list[tuple[Value, ...]]:
    """What the statement that adds a run's messages to its session takes."""
    return [
        (run_id, nth, message.message_id, message.role, message.body, message.run_id, message.create_time_ns)
        for nth, message in enumerate(messages, 1)
    ]
