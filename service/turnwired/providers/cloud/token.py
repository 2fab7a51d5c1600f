"""Bearer tokens of a cloud: fetched on a worker thread, kept until shortly before they expire, fetched once for all.

Knows no cloud: a ``TokenSource`` asks one. Tokens are never shown, logged or stored.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Reason
from turnwired.providers.credentials import Authorization, Outgoing
from turnwired.providers.errors import provider_failure

SIGN_IN_SECONDS = 30.0
"""Longest that a call waits for a sign-in."""
REQUEST_SECONDS = 10.0
"""Longest that one request of a sign-in may take."""
MARGIN_SECONDS = 300.0
MARGIN_SHARE = 0.1
"""A token is replaced that long before it expires, or this share of its life, whichever is shorter."""
PAUSE_SECONDS = 30.0
"""After a failed replacement the token, while it is valid, is used for so long before the next try."""
RENEWAL_SECONDS = 10.0
"""A token that a renewal brought is not fetched anew before that: runs that were rejected together fetch one."""
MAX_THREADS = 8
"""Sign-ins at the same time, over all providers: one that hangs does not take the threads of others."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Token:
    """A token and when it expires, in Unix seconds. ``headers`` go with it, such as the project that pays."""

    value: str = field(repr=False)
    expires: float
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class TokenSource(Protocol):
    """Asks one cloud for tokens."""

    @property
    def hint(self) -> str:
        """Where a person puts what is needed, as a phrase."""
        ...

    @property
    def lack(self) -> str:
        """What is missing and what to do, after the provider's name; empty when there is something to sign in with."""
        ...

    def fetch(self) -> Token:
        """A new token, whatever was given before. Blocks, on a thread of its own. Raises ProviderError."""
        ...


class TokenCredentials:
    """Sends a source's token as ``Authorization: Bearer``. Belongs to one event loop."""

    def __init__(self, source: TokenSource, provider: str, clock: Callable[[], float] = time.time) -> None:
        """``provider`` is named in failures; ``clock`` gives Unix seconds."""
        self._source = source
        self._provider = provider
        self._clock = clock
        self._token: Token | None = None
        self._due = 0.0
        self._renewing = False
        self._renewed = float("-inf")
        self._fetching = asyncio.Lock()

    @property
    def hint(self) -> str:
        """Where a person puts what is needed."""
        return self._source.hint

    @property
    def lack(self) -> str:
        """What is missing."""
        return self._source.lack

    def ready(self) -> bool:
        """Whether there is something to sign in with, as far as that is known without asking the cloud."""
        return not self._source.lack

    async def authorize(self, outgoing: Outgoing) -> Authorization:  # noqa: ARG002 - the port's
        """The token's header."""
        token = self._fresh() or await self._fetched()
        return Authorization({"Authorization": f"Bearer {token.value}", **token.headers}, token.value)

    async def renew(self) -> None:
        """Forget the token, so that the next request fetches another, unless a renewal has brought it just now."""
        if self._clock() - self._renewed >= RENEWAL_SECONDS:
            self._token = None
            self._renewing = True

    async def aclose(self) -> None:
        """Forget the token."""
        self._token = None

    def _fresh(self) -> Token | None:
        return self._token if self._token is not None and self._clock() < self._due else None

    async def _fetched(self) -> Token:
        async with self._fetching:
            if (token := self._fresh()) is not None:
                return token  # somebody else has fetched it meanwhile
            kept = self._token
            try:
                token = await on_thread(self._source.fetch, self._provider)
            except ProviderError:
                if kept is None or self._clock() >= kept.expires - PAUSE_SECONDS:
                    raise
                self._due = self._clock() + PAUSE_SECONDS
                return kept
            now = self._clock()
            self._due = token.expires - min(MARGIN_SECONDS, MARGIN_SHARE * max(token.expires - now, 0.0))
            self._token = token
            if self._renewing:
                self._renewing, self._renewed = False, now
            return token


async def on_thread(work: Callable[[], T], provider: str) -> T:
    """The result of blocking work. Raises ProviderError when it takes too long; its thread then ends by itself."""
    try:
        async with asyncio.timeout(SIGN_IN_SECONDS):
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=_limiter())
    except TimeoutError:
        raise provider_failure(
            Reason.PROVIDER_TIMEOUT,
            f"Signing in for provider {provider} took longer than {SIGN_IN_SECONDS:g} s: check network and proxy.",
            retryable=True,
            origin=provider,
        ) from None


_LIMITER: anyio.lowlevel.RunVar[anyio.CapacityLimiter] = anyio.lowlevel.RunVar("sign_in_limiter")


def _limiter() -> anyio.CapacityLimiter:
    """The limiter of this event loop."""
    try:
        return _LIMITER.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(MAX_THREADS)
        _LIMITER.set(limiter)
        return limiter
