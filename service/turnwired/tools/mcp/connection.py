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
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import anyio

from turnwired.domain.errors import ToolError, TurnwireError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.faults import where_raised
from turnwired.telemetry.port import McpTelemetry
from turnwired.tools.hiding import Hide
from turnwired.tools.mcp.link import Link, Listing, Lost, Opener
from turnwired.tools.mcp.standing import History, Timing
from turnwired.tools.result import redact

_LOG = logging.getLogger(__name__)

_FIRST_DELAY: Final = 0.25
_MAX_DELAY: Final = 30.0
_HEALTHY_AFTER: Final = 10.0
"""Seconds up, or one answered call, after which a server that ends is not backed off from."""
_MAX_RETRY_AFTER: Final = 300.0
_DRAIN_SECONDS: Final = 30.0
"""How long requests of a link that takes no more of them may go on beside the next link."""
_RELIST_PAUSE: Final = 1.0
"""At least so long between two readings of a list that is said to change."""
_SIGN_OF_LIFE_SECONDS: Final = 10.0


class Connection:
    """Keeps at most one link in use. Lives in one event loop; ``aclose`` ends it for good.

    ``lists``: the tools are listed on each connecting. A link that the server has forgotten is replaced at once, while
    what is in flight on it goes on for a bounded time.
    """

    def __init__(
        self,
        server_id: str,
        opener: Opener,
        timing: Timing,
        telemetry: McpTelemetry,
        *,
        history: History | None = None,
        lists: bool = True,
        hide: Hide = str,
    ) -> None:
        """``hide`` takes credentials out of the server's words."""
        self._hide = hide
        self.server_id = server_id
        self.failure: Failure | None = None
        self.listing: Listing | None = None
        self.listed_at = 0.0
        self.began_at: float | None = None
        self.in_use = 0
        self.used_at = 0.0
        self.history = history or History()
        self._opener = opener
        self._telemetry = telemetry
        self._lists = lists
        self._connect_timeout = timing.connect
        self._close_timeout = timing.close
        self._keepalive = timing.keepalive
        self._attempts: set[asyncio.Task[None]] = set()
        self._relisting: asyncio.Task[object] | None = None
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
            self.began_at = asyncio.get_running_loop().time()
            # A context of its own: the caller's span must not become the parent of all that the owner does.
            self._owner = asyncio.get_running_loop().create_task(
                self._own(), name=f"mcp-{self.server_id}", context=contextvars.Context()
            )
        if not self._connecting and not self._alive() and self._wait_left() <= 0:
            self._wanted.set()

    async def first_try(self, within: float) -> None:
        """Return when the first attempt has ended, well or not, or so many seconds after it began."""
        self.begin()
        assert self.began_at is not None or self._stop.is_set(), "begin has begun"
        left = (self.began_at or 0.0) + within - asyncio.get_running_loop().time()
        if left <= 0:
            return
        with anyio.move_on_after(left):
            await self._tried.wait()

    @property
    def trying(self) -> bool:
        """Whether the first attempt goes on."""
        return self.began_at is not None and not self._tried.is_set()

    @property
    def connecting(self) -> bool:
        """Whether an attempt goes on."""
        return self._connecting or self._wanted.is_set()

    @property
    def protocol_version(self) -> str:
        """The version agreed on; empty while there is no link."""
        return self._link.protocol_version if self._link is not None and self._alive() else ""

    @property
    def backing_off(self) -> float:
        """Seconds until it is tried again; 0 when it is tried whenever it is needed."""
        return max(0.0, self._wait_left())

    async def ready(self) -> Link:
        """The link, connecting first where there is none. Raises ToolError, at once while backing off."""
        left = self._wait_left()
        if self._link is not None and self._alive() and left <= 0:
            return self._link
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

    def troubled(self, lost: Lost) -> None:
        """A request could not be made, or was told to come later: leave the server alone until then."""
        if lost.retry_after is not None:
            self._next_try = asyncio.get_running_loop().time() + min(lost.retry_after, _MAX_RETRY_AFTER)
        elif lost.unreachable:
            self._failures += 1
            self._back_off()
        self.history.last_failure = self._unavailable(lost.why)

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
        try:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                if self._stop.is_set():
                    break
                self._connecting = True
                released = asyncio.Event()
                attempt = asyncio.create_task(self._attempt(released), name=f"mcp-link-{self.server_id}")
                self._attempts.add(attempt)
                attempt.add_done_callback(self._attempts.discard)
                await released.wait()
                self._connecting = False
                self._tried.set()
                if self._stop.is_set():
                    break
                if not self._wanted.is_set() or self._wait_left() > 0:
                    self._wanted.clear()
                    self._answer(None)
            self._answer(None)
            self._tried.set()
            if self._attempts:
                await asyncio.wait(self._attempts)
        finally:
            for attempt in self._attempts:
                attempt.cancel()

    async def _attempt(self, released: asyncio.Event) -> None:
        """One link, from connecting to its end. ``released``: the next one may be made."""
        try:
            await self._serve(released)
        except Exception as error:  # noqa: BLE001  task boundary: nobody awaits the owner
            if not released.is_set():
                self._failed(error)
        finally:
            if not released.is_set():
                self._link = None
                released.set()

    async def _serve(self, released: asyncio.Event) -> None:
        await self._opener.prepare()
        if self._stop.is_set():
            return
        link: Link | None = None
        with anyio.CancelScope() as scope:
            self._scope = scope
            scope.deadline = anyio.current_time() + self._connect_timeout
            span = self._reconnecting()
            try:
                async with self._opener.open() as opened:
                    if self._lists:
                        await self._discover(opened)
                    span.close()
                    scope.deadline = math.inf
                    link = opened
                    await self._up(link)
                    await self._drain(link, released)
                    scope.deadline = anyio.current_time() + 4 * self._close_timeout
            finally:
                span.close()
                if not released.is_set():
                    self._scope = None
        if self._stop.is_set() or released.is_set():
            return
        if link is None:
            self._failed(TimeoutError(f"gave no answer within {self._connect_timeout:g} s"))
        elif self.failure is not None:
            self.failure = self._unavailable(_ended_words(link))  # by now its exit code is known

    def _reconnecting(self) -> ExitStack:
        """A span around the connecting that is not the first; what is asked meanwhile stands below it."""
        span = ExitStack()
        if self.history.connected:
            span.enter_context(
                self._telemetry.operation(
                    "reconnect", tool=None, protocol_version=None, transport=self._opener.transport
                )
            )
        return span

    async def _drain(self, link: Link, released: asyncio.Event) -> None:
        """Let requests end that are in flight on a link of which others are forgotten; the next link need not wait."""
        if not link.in_flight or not link.lingers or self._stop.is_set():
            return
        self._scope = None
        released.set()
        with anyio.move_on_after(_DRAIN_SECONDS):
            await self._until_either(link.drained, self._stop.wait)

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
        self.listed_at = asyncio.get_running_loop().time()
        if self.listing != listing:
            self.listing = listing

    def refresh(self, at_least: float) -> None:
        """List the tools again beside everything else, if what is known is older than its server says it holds."""
        listing = self.listing
        if listing is None or listing.fresh_for is None or self._link is None or not self._alive():
            return
        age = asyncio.get_running_loop().time() - self.listed_at
        busy = self._relisting is not None and not self._relisting.done()
        if age > max(listing.fresh_for, at_least) and not busy:
            self._relisting = asyncio.get_running_loop().create_task(
                self.relist(self._connect_timeout), context=contextvars.Context()
            )

    async def _up(self, link: Link) -> None:
        """Offer the link until it ends or is to be ended."""
        since = anyio.current_time()
        self.failure = None
        self._proven = False
        self._connecting = False
        self._link = link
        self.history.connected_at = datetime.now(UTC)
        self.history.connected += 1
        self._answer(link)
        self._tried.set()
        async with anyio.create_task_group() as group:
            group.start_soon(link.watch)
            group.start_soon(link.keep_alive, self._keepalive, _SIGN_OF_LIFE_SECONDS)
            if self._lists:
                group.start_soon(self._keep_listed, link)
            await self._until_either(link.wait_closed, self._stop.wait)
            group.cancel_scope.cancel()
        self._link = None
        if self._stop.is_set():
            return
        self.failure = self.history.last_failure = self._unavailable(_ended_words(link))
        if self._proven or anyio.current_time() - since >= _HEALTHY_AFTER:
            self._failures = 0
            return
        self._failures += 1
        if self._failures > 1:  # one crash is met with a fresh start at once, a row of them is not
            self._back_off()

    async def _until_either(self, *waits: Callable[[], Awaitable[object]]) -> None:
        async with anyio.create_task_group() as group:

            async def until(wait: Callable[[], Awaitable[object]]) -> None:
                await wait()
                group.cancel_scope.cancel()

            for wait in waits:
                group.start_soon(until, wait)

    async def _keep_listed(self, link: Link) -> None:
        """List the tools again when the server says that they have changed; a storm of that is one change a second."""
        while True:
            await link.changed()
            await self.relist(self._connect_timeout)
            await anyio.sleep(_RELIST_PAUSE)

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
                self.failure = replace(error.failure, message=self._hide(error.failure.message))
            case TurnwireError() | TimeoutError() | OSError():
                self.failure = self._unavailable(redact(str(error), 400))
            case _:
                self.failure = self._unavailable(f"{type(error).__name__}: {redact(self._hide(str(error)), 300)}")
        self.history.last_failure = self.failure
        _LOG.warning("%s", self.failure.message)
        if _LOG.isEnabledFor(logging.DEBUG):
            _LOG.debug("%s", where_raised(error))
        self._failures += 1
        self._back_off()
        if (after := self.failure.retry_after) is not None:
            told = asyncio.get_running_loop().time() + min(after, _MAX_RETRY_AFTER)
            self._next_try = max(self._next_try, told)

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
        prefix, words = f"MCP server {self.server_id!r}", self._hide(words)
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
