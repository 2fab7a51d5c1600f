"""Runs and their messages as the store takes them. It stores nothing itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from turnwired.codec.message import encode_message
from turnwired.codec.run import encode_turn
from turnwired.domain.message import Message
from turnwired.domain.run import Run, TurnSpec
from turnwired.store.port import NewRun, StoredMessage


def new_run(spec: TurnSpec, run: Run, input_: Sequence[Message]) -> NewRun:
    """A run as the store is to begin it."""
    return NewRun(
        run_id=run.run_id,
        caller=spec.caller,
        agent_id=run.agent_id,
        create_time_ns=run.create_time_ns,
        session_id=spec.session_id,
        parent_run_id=spec.parent_run_id,
        request_id=spec.request_id,
        digest=spec.digest,
        labels=spec.labels,
        input=stored_messages(spec.session_id, input_, run.create_time_ns),
        spec=encode_turn(replace(spec, input=tuple(input_))),
    )


def stored_messages(
    session_id: str | None, messages: Sequence[Message], create_time_ns: int
) -> tuple[StoredMessage, ...]:
    """Messages as the store keeps them for a session, stamped; without a session none are kept."""
    if session_id is None:
        return ()
    return tuple(_stored_message(message, create_time_ns) for message in messages)


def _stored_message(message: Message, create_time_ns: int) -> StoredMessage:
    stamped = replace(message, create_time_ns=message.create_time_ns or create_time_ns)
    return StoredMessage(
        stamped.message_id, stamped.role.value, encode_message(stamped), stamped.run_id, stamped.create_time_ns
    )
