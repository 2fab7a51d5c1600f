"""One server, connected when needed: owner task, backoff, recovery. Knows links, not what they run over.

The owner task alone opens and leaves the link; everybody else only awaits calls on it. Faults end here: a caller sees a
ToolError with a failure, and other servers see nothing.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import random
from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from turnwired.domain.errors import ToolError, TurnwireError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.faults import where_raised
from turnwired.tools.mcp.link import Link, Listing, Opener
from turnwired.tools.result import redact

_LOG = logging.getLogger(__name__)

_FIRST_DELAY: Final = 0.25
_MAX_DELAY: Final = 30.0
_HEALTHY_AFTER: Final = 10.0
"""Seconds up, or one answered call, after which a server that ends is not backed off from."""


class Connection:
    """Keeps at most one link to a server. Lives in one event loop; ``aclose`` ends it for good."""

    def __init__(self, server_id: str, opener: Opener, connect_timeout: float, close_timeout: float) -> None:
        self.server_id = server_id
        self.failure: Failure | None = None
        self.listing: Listing | None = None
        self._opener = opener
        self._connect_timeout = connect_timeout
        self._close_timeout = close_timeout
        self._owner: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._tried = asyncio.Event()
        self._stop = asyncio.Event()
        self._scope: anyio.CancelScope | None = None
        self._link: Link | None = None
        self._waiters: list[asyncio.Future[Link]] = []
        self._failures = 0
        self._next_try = 0.0
        self._proven = False
        self._connecting = False

    def begin(self) -> None:
        """Connect in the background, unless connected, connecting or backing off."""
        if self._stop.is_set():
            return
        if self._owner is None:
            # A context of its own: the caller's span must not become the parent of all that the owner does.
            self._owner = asyncio.get_running_loop().create_task(
                self._own(), name=f"mcp-{self.server_id}", context=contextvars.Context()
            )
        if not self._connecting and not self._alive() and self._wait_left() <= 0:
            self._wanted.set()

    async def first_try(self) -> None:
        """Return when the first attempt has ended, well or not. Bounded by the connect timeout."""
        self.begin()
        await self._tried.wait()

    async def ready(self) -> Link:
        """The link, connecting first where there is none. Raises ToolError, at once while backing off."""
        if self._link is not None and self._alive():
            return self._link
        left = self._wait_left()
        if self._stop.is_set() or left > 0:
            raise ToolError(self._unavailable(self._last_words(), retry_after=left if left > 0 else None))
        self.begin()
        waiter: asyncio.Future[Link] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            return await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def proved(self) -> None:
        """A call was answered: the server works."""
        self._proven = True
        self._failures = 0

    async def aclose(self) -> None:
        """End the link and what it started. Returns within about four times the close timeout."""
        self._stop.set()
        self._wanted.set()
        if self._scope is not None and self._link is None:
            self._scope.cancel()
        owner = self._owner
        if owner is None:
            self._tried.set()
            return
        done, _ = await asyncio.wait({owner}, timeout=4 * self._close_timeout + 1)
        if not done:
            owner.cancel()
            await asyncio.wait({owner}, timeout=self._close_timeout)

    async def _own(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if self._stop.is_set():
                break
            self._connecting = True
            try:
                await self._serve()
            except Exception as error:  # noqa: BLE001  task boundary: nobody awaits the owner
                self._failed(error)
            self._connecting = False
            self._link = None
            self._tried.set()
            if self._stop.is_set():
                break
            if not self._wanted.is_set() or self._wait_left() > 0:
                self._wanted.clear()
                self._answer(None)
        self._answer(None)
        self._tried.set()

    async def _serve(self) -> None:
        await self._opener.prepare()
        if self._stop.is_set():
            return
        link: Link | None = None
        with anyio.CancelScope() as scope:
            self._scope = scope
            scope.deadline = anyio.current_time() + self._connect_timeout
            try:
                async with self._opener.open() as opened:
                    await self._discover(opened)
                    scope.deadline = math.inf
                    link = opened
                    await self._up(link)
                    scope.deadline = anyio.current_time() + 4 * self._close_timeout
            finally:
                self._scope = None
        if self._stop.is_set():
            return
        if link is None:
            self._failed(TimeoutError(f"gave no answer within {self._connect_timeout:g} s"))
        elif self.failure is not None:
            self.failure = self._unavailable(_ended_words(link))  # by now its exit code is known

    async def relist(self, within: float) -> Listing | None:
        """Ask the server for its tools again, over the link that is up; None when it does not say in that time."""
        link = self._link
        if link is None:
            return None
        with anyio.move_on_after(within):
            try:
                await self._discover(link)
            except ToolError:
                return None
            return self.listing
        return None

    async def _discover(self, link: Link) -> None:
        """List the tools. A server that lists the same as before keeps the same listing object."""
        listing = await link.list_tools()
        if self.listing != listing:
            self.listing = listing

    async def _up(self, link: Link) -> None:
        """Offer the link until it ends or is to be ended."""
        since = anyio.current_time()
        self.failure = None
        self._proven = False
        self._connecting = False
        self._link = link
        self._answer(link)
        self._tried.set()
        async with anyio.create_task_group() as group:

            async def until(wait: Callable[[], Awaitable[object]]) -> None:
                await wait()
                group.cancel_scope.cancel()

            group.start_soon(until, link.wait_closed)
            group.start_soon(until, self._stop.wait)
        self._link = None
        if self._stop.is_set():
            return
        self.failure = self._unavailable(_ended_words(link))
        if self._proven or anyio.current_time() - since >= _HEALTHY_AFTER:
            self._failures = 0
            return
        self._failures += 1
        if self._failures > 1:  # one crash is met with a fresh start at once, a row of them is not
            self._back_off()

    def _alive(self) -> bool:
        return self._link is not None and not self._link.end_reason

    def _answer(self, link: Link | None) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if waiter.done():
                continue
            if link is not None:
                waiter.set_result(link)
            else:
                waiter.set_exception(ToolError(self._unavailable(self._last_words())))

    def _failed(self, error: BaseException) -> None:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        match error:
            case ToolError():
                self.failure = error.failure
            case TurnwireError() | TimeoutError() | OSError():
                self.failure = self._unavailable(redact(str(error), 400))
            case _:
                self.failure = self._unavailable(f"{type(error).__name__}: {redact(str(error), 300)}")
        _LOG.warning("%s", self.failure.message)
        if _LOG.isEnabledFor(logging.DEBUG):
            _LOG.debug("%s", where_raised(error))
        self._failures += 1
        self._back_off()

    def _back_off(self) -> None:
        delay = min(_MAX_DELAY, _FIRST_DELAY * 2**self._failures) * random.uniform(0.5, 1)  # noqa: S311  jitter
        self._next_try = asyncio.get_running_loop().time() + delay

    def _wait_left(self) -> float:
        return self._next_try - asyncio.get_running_loop().time()

    def _last_words(self) -> str:
        if self._stop.is_set():
            return "is being stopped"
        return self.failure.message if self.failure is not None else "ended while it was connected"

    def _unavailable(self, words: str, retry_after: float | None = None) -> Failure:
        prefix = f"MCP server {self.server_id!r}"
        return Failure(
            phase=FailurePhase.ROUTING,
            reason=Reason.MCP_UNAVAILABLE,
            message=words if words.startswith(prefix) else f"{prefix}: {words}",
            retryable=True,
            retry_after=retry_after,
            origin=self.server_id,
        )


def _ended_words(link: Link) -> str:
    return f"{link.end_reason or 'went away'}; it is started again when it is needed"
