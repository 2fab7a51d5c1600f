"""Opens links: starts a server's process, or asks at its address. Loads the SDK when the first link is opened.

Knows the configuration; the modules that import the SDK do not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Final

import anyio

from turnwired.domain.run import Caller
from turnwired.loading import load
from turnwired.telemetry.port import McpTelemetry
from turnwired.tools.mcp.config import HttpServer, McpServer, StdioServer
from turnwired.tools.mcp.link import Link, Opener
from turnwired.tools.mcp.process import ChildProcess

if TYPE_CHECKING:
    import httpx2

_MAX_DISCOVER_TIMEOUT: Final = 10.0


def opener_of(
    server_id: str,
    config: McpServer,
    telemetry: McpTelemetry,
    caller: Caller | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> Opener:
    """What opens links to this server, with the credentials of ``caller``, if any; ``environ`` as the toolset's."""
    match config:
        case HttpServer():
            return HttpOpener(server_id, config, telemetry, caller, environ)
        case StdioServer():
            return StdioOpener(server_id, config, telemetry, environ)
        case _:
            raise TypeError(f"no server of a known kind: {type(config).__name__}")


def _discover_timeout(config: McpServer) -> float:
    """Half of the time for servers that know the probe, half for the handshake with those that ignore it."""
    return min(_MAX_DISCOVER_TIMEOUT, config.connect_timeout / 2)


class StdioOpener:
    """Starts the server's process and opens a link over its pipes."""

    transport = "pipe"

    def __init__(
        self,
        server_id: str,
        config: StdioServer,
        telemetry: McpTelemetry,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._environ = environ
        self._server_id = server_id
        self._config = config
        self._telemetry = telemetry

    async def prepare(self) -> None:
        """Load the SDK, in a thread: it takes about a second the first time."""
        await load("turnwired.tools.mcp.stdio")

    def open(self) -> AbstractAsyncContextManager[Link]:
        """Connect. Raises ConfigError, OSError or ToolError."""
        return self._open()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Link]:
        from turnwired.tools.mcp import stdio  # loaded by prepare

        config = self._config
        process = await ChildProcess.start(
            f"MCP server {self._server_id!r}",
            config.command,
            config.args,
            config.environment(self._environ),
            config.cwd,
            config.max_message_bytes,
            lambda text: config.hide(text, ours=self._environ),
        )
        try:
            within = _discover_timeout(config)
            async with stdio.open_link(self._server_id, process, self._telemetry, within) as link:
                yield link
        finally:
            with anyio.CancelScope(shield=True):
                await process.aclose(config.close_timeout / 2)


class HttpOpener:
    """Opens links to the server at an address."""

    transport = "tcp"

    def __init__(
        self,
        server_id: str,
        config: HttpServer,
        telemetry: McpTelemetry,
        caller: Caller | None = None,
        environ: Mapping[str, str] | None = None,
        auth: httpx2.Auth | None = None,
    ) -> None:
        """``auth``: what authorises requests in place of the configuration's ``oauth``."""
        self._environ = environ
        self._server_id = server_id
        self._config = config
        self._telemetry = telemetry
        self._caller = caller
        self._auth = auth

    async def prepare(self) -> None:
        """Load the SDK and the certificates, in a thread."""
        await load("turnwired.tools.mcp.http", "turnwired.tools.mcp.authorization")
        await anyio.to_thread.run_sync(_read_certificates)

    def open(self) -> AbstractAsyncContextManager[Link]:
        """Connect. Raises ConfigError or ToolError."""
        return self._open()

    def headers(self) -> Mapping[str, str]:
        """The configured headers now. Raises ConfigError."""
        return self._config.request_headers(self._caller, self._environ)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Link]:
        from turnwired.tools.mcp import authorization, http  # loaded by prepare

        config = self._config
        url = config.address(self._environ)
        self.headers()  # what is missing is said before anything is sent
        if config.oauth is not None and self._auth is None:  # kept, and its tokens with it
            self._auth = authorization.authorization_of(url, config.oauth)
        async with http.open_http_link(
            self._server_id,
            url,
            self.headers,
            self._telemetry,
            discover_timeout=_discover_timeout(config),
            max_message_bytes=config.max_message_bytes,
            auth=self._auth,
        ) as link:
            yield link


def _read_certificates() -> None:
    from turnwired.tools.mcp.contained import ssl_context

    ssl_context()
