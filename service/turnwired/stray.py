"""Cancellations that nobody asked for. Knows asyncio and nothing of runs."""

from __future__ import annotations

import asyncio

ANY_FAULT = (Exception, asyncio.CancelledError)
"""What the boundary of a task catches; ``require_stray`` lets a cancellation through that the task was asked for."""


def require_stray(error: BaseException) -> None:
    """Raise ``error`` again where it is the cancellation that this task was asked for; return for any other error.

    Code that we call may raise a CancelledError of its own: a future that somebody else cancelled, a client library
    that gives up. Nobody waits for such a task to end, so at the boundary of a task it is a fault like any other; let
    through, it would end the task in silence and leave its run without an end.
    """
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling()):
        raise error
