"""Identifiers that the service makes: time-ordered, unguessable, at most 64 characters of ``[A-Za-z0-9._-]``."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence

_RANDOM_BYTES = 10
"""After 48 bits of milliseconds: ids of one process sort by creation, and cannot be guessed."""


def _stamped(prefix: str) -> str:
    return f"{prefix}_{time.time_ns() // 1_000_000:012x}{secrets.token_hex(_RANDOM_BYTES)}"


def new_run_id() -> str:
    """``run_`` and 32 hex digits."""
    return _stamped("run")


def new_message_ids(count: int) -> Sequence[str]:
    """So many ids of ``msg_`` and 32 hex digits, made at once, for a history may have thousands of messages."""
    stamp = f"msg_{time.time_ns() // 1_000_000:012x}"
    digits = 2 * _RANDOM_BYTES
    random = secrets.token_hex(_RANDOM_BYTES * count)
    return [stamp + random[start : start + digits] for start in range(0, digits * count, digits)]
