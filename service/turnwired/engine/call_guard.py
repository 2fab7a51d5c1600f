"""The engine's own watch over the time of one model call, for adapters that do not keep to their limits.

Adapters hold ``timeout.iteration`` themselves and say more about it; this ends a call that goes on all the same. It may
not know what an adapter is, nor what becomes of the call.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Failure, FailurePhase, Reason

MARGIN_SECONDS: Final = 1.0
"""How much longer than its limit a call may take before the engine ends it: an adapter's own words go first."""


@contextmanager
def watched(seconds: float | None) -> Iterator[anyio.CancelScope]:
    """A call that may take ``seconds``; None: for ever. One that goes on is ended; raises ProviderError then."""
    deadline = math.inf if seconds is None else anyio.current_time() + seconds + MARGIN_SECONDS
    with anyio.CancelScope(deadline=deadline) as scope:
        yield scope
    if scope.cancelled_caught:
        longest = f"{seconds or 0:g} s (timeout.iteration)"
        words = f"The model call took longer than its limit of {longest}: try again, or raise it."
        raise ProviderError(Failure(FailurePhase.MODEL, Reason.PROVIDER_TIMEOUT, words, retryable=True))


async def not_counted(scope: anyio.CancelScope, waiting: Awaitable[object]) -> None:
    """Wait for something that is not the adapter's affair: its time is not the call's."""
    left, scope.deadline = scope.deadline - anyio.current_time(), math.inf
    await waiting
    scope.deadline = anyio.current_time() + max(left, 0.0)
