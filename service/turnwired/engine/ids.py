"""Identifiers that the service makes: time-ordered, unguessable, at most 64 characters of ``[A-Za-z0-9._-]``."""

from __future__ import annotations

import secrets
import time


def _stamped(prefix: str) -> str:
    # 48 bits of milliseconds, then 80 random bits: ids of one process sort by creation, and cannot be guessed.
    return f"{prefix}_{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


def new_run_id() -> str:
    """``run_`` and 32 hex digits."""
    return _stamped("run")


def new_message_id() -> str:
    """``msg_`` and 32 hex digits."""
    return _stamped("msg")
