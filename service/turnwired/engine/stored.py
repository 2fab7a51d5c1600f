"""Messages of a run as the store keeps them for its session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from turnwired.codec.message import encode_message
from turnwired.domain.message import Message
from turnwired.store.port import StoredMessage


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
