"""The HTTP server: one ASGI app of what the configuration asks for, on a socket of its own, started and stopped.

It owns one task, in which everything that is served lives. It may not know what the endpoints do.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import uvicorn
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from turnwired.callers import Callers
from turnwired.config.address import ListenAddress
from turnwired.config.http import HttpConfig
from turnwired.domain.errors import ConfigError
from turnwired.domain.faults import where_raised
from turnwired.http.guard import Guard
from turnwired.local_rpcs import LocalRpcs

if TYPE_CHECKING:
    from turnwired.http.mcp_endpoint import McpEndpoint, Tools

_LOG = logging.getLogger(__name__)

MCP_PATH: Final = "/mcp"
CLOSE_SECONDS: Final = 5.0
"""How long the end of the server may take beyond the grace that calls have."""
HEAD_SECONDS: Final = 10.0
"""How long a connection may be open without a request, or with one whose headers do not come to their end."""
PREFLIGHT_SECONDS: Final = 3600
"""How long a browser may remember that a page may call."""
KEEPALIVE: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}
"""Seconds of silence, seconds between questions, questions; milliseconds in which what was sent has to arrive."""
BACKLOG: Final = 512
_UNDER_WAY: Final = object()


class _Unsignalled(uvicorn.Server):
    """uvicorn without its handlers of signals: when to stop is for the process to say."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Timely(H11Protocol):
    """uvicorn's connection, closed when no request comes: one that is begun and not sent would keep its place."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self.loop.call_later(HEAD_SECONDS, self._look, None)

    def _look(self, answered: object) -> None:
        """Close it if nothing is under way, and was not the last time either. ``answered``: the last request then."""
        if self.transport.is_closing():
            return
        cycle = cast("RequestResponseCycle | None", self.cycle)  # none before the first request, whatever its type says
        under_way = cycle is not None and not cycle.response_complete
        if not under_way and cycle is answered:
            self.transport.close()
            return
        self.loop.call_later(HEAD_SECONDS, self._look, _UNDER_WAY if under_way else cycle)


class HttpServer:
    """A server for the app. ``start`` it, then ``stop`` it; both once. ``rpcs`` are for ``connect``."""

    def __init__(self, config: HttpConfig, callers: Callers, tools: Tools, rpcs: LocalRpcs | None = None) -> None:
        self._config = config
        self._mcp = _mcp_endpoint(config, tools) if config.mcp else None
        app = _app(config, callers, self._mcp, rpcs)
        self._server = _Unsignalled(
            uvicorn.Config(
                app,
                http=_Timely,
                lifespan="off",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=config.max_connections + 1,  # which is where it begins to refuse
            )
        )
        self._task: asyncio.Task[None] | None = None
        self.mcp_url = ""
        """Where MCP clients find it, known once it is started; empty if they find nothing."""
        self.connect_url = ""
        """The base URL for clients that speak Connect or gRPC-Web, likewise."""

    async def start(self) -> None:
        """Listen. Raises ConfigError when the address cannot be had."""
        place = self._config.address
        try:
            bound = _bound(place)
        except OSError as error:
            why = (error.strerror or "no such address").lower()
            raise ConfigError(f"http.listen: cannot listen on {self._config.listen}: {why}; choose another") from None
        host = f"[{place.host}]" if ":" in place.host else place.host
        address = f"unix:{place.unix_path}:" if place.unix_path else f"http://{host}:{bound.getsockname()[1]}"
        self.mcp_url = f"{address}{MCP_PATH}" if self._config.mcp else ""
        self.connect_url = address if self._config.connect else ""
        self._task = asyncio.create_task(self._run(bound))

    async def _run(self, bound: socket.socket) -> None:
        with bound:
            living: AbstractAsyncContextManager[None] = nullcontext() if self._mcp is None else self._mcp.running()
            async with living:
                await self._server.serve(sockets=[bound])
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()  # its reader takes nothing, and would keep it and what it was to read

    async def stop(self, grace: float) -> None:
        """Take no new calls, let those under way end for ``grace`` seconds, then cut them."""
        task = self._task
        if task is None:
            return
        self._server.config.timeout_graceful_shutdown = max(1, round(grace))
        self._server.should_exit = True
        await asyncio.wait([task], timeout=grace + CLOSE_SECONDS)
        task.cancel()
        await asyncio.wait([task], timeout=CLOSE_SECONDS)
        if task.done() and not task.cancelled() and (failure := task.exception()) is not None:
            _LOG.error("the HTTP server failed: %s", where_raised(failure))


def _mcp_endpoint(config: HttpConfig, tools: Tools) -> McpEndpoint:
    from turnwired.http.mcp_endpoint import McpEndpoint  # its SDK takes a second to import

    return McpEndpoint(tools, config.max_request_bytes)


def _app(config: HttpConfig, callers: Callers, mcp: McpEndpoint | None, rpcs: LocalRpcs | None) -> ASGIApp:
    """What the configuration asks for, behind the guard."""
    # No GET: a stream of what the server says by itself would be empty, and hold up its end.
    routes = [] if mcp is None else [Route(MCP_PATH, mcp, methods=["POST"])]
    if not config.connect:
        return Guard(Starlette(routes=routes), callers, config.hosts, config.origins)
    from turnwired.http.connect_endpoint import ASKED_HEADERS, TOLD_HEADERS, ConnectEndpoint

    assert rpcs is not None, "what is to be served is there"
    connect = ConnectEndpoint(rpcs, config.max_request_bytes)
    # Methods are its own to refuse, and say which it takes.
    routes += [Route(path, connect, methods=None) for path in sorted(connect.paths)]
    guard = Guard(Starlette(routes=routes), callers, config.hosts, config.origins, knows_callers=connect.paths)
    # Outside of the guard: what asks whether a page may call has no token, and a page has to be able to read a refusal.
    return CORSMiddleware(
        guard,
        allow_origins=config.origins,
        allow_methods=("GET", "POST"),
        allow_headers=ASKED_HEADERS,
        expose_headers=TOLD_HEADERS,
        max_age=PREFLIGHT_SECONDS,
    )


def _bound(place: ListenAddress) -> socket.socket:
    """A listening socket: who connects from now on is served as soon as there is a task for it. Raises OSError."""
    if place.unix_path:
        path = Path(place.unix_path)
        if path.is_socket():
            path.unlink()  # of a server that was killed; one that lives would have its own path
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.bind(place.unix_path)
            made.listen(BACKLOG)
        except OSError:
            made.close()
            raise
        return made
    found = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
    family, kind, protocol, _, where = found[0]
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _notice_the_dead(made)
        made.bind(where)
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    return made


def _notice_the_dead(listening: socket.socket) -> None:
    """Ask silent peers for a sign of life, as the gRPC server does: a machine that lost its power closes nothing.

    What a listening socket is told holds for those that it accepts. A peer that takes nothing of what was sent for
    that long counts as gone too; it may attach to its run again.
    """
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):  # not on every platform
            listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
