"""HTTP to providers: one pooled client, raw bytes both ways, typed failures. Knows no wire and keeps no credential.

Why aiohttp and not the client of an SDK: docs/design/0002-provider-transport.md.
"""

from __future__ import annotations

import asyncio
import io
import ssl
import time
import urllib.request
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Reason
from turnwired.domain.generation import ModelItem, ResponseIdentified
from turnwired.providers.errors import CallContext, WireError, failure_of, protocol_error, provider_failure
from turnwired.providers.liveness import Limit, Liveness
from turnwired.providers.port import CallLimits
from turnwired.providers.wire import WireParser

MAX_CONNECTIONS = 1000
CONNECT_SECONDS = 10.0
MAX_ANSWER_BYTES = 128 * 1024 * 1024
"""Of one answer, unpacked: a provider that never stops must not fill the memory before a time limit ends it."""
MAX_ERROR_BYTES = 64 * 1024
ERROR_BODY_SECONDS = 10.0
_DRAIN_SECONDS = 0.2
_TURN_BYTES = 256 * 1024
_ONE_WRITE_BYTES = 1024 * 1024  # aiohttp warns beyond it; in pieces a larger body does not hold up the loop


@dataclass(slots=True)
class _Sending:
    """What aiohttp tells of a request that is being sent."""

    reused: bool = False


@dataclass(frozen=True, slots=True)
class Exchange:
    """One call: what to send, and what is needed to read and judge the answer. Headers and body are never shown."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    limits: CallLimits
    context: CallContext
    parser: Callable[[int], WireParser]


class HttpTransport:
    """Sends requests over pooled connections. Safe for any number of concurrent calls on one event loop."""

    def __init__(self, *, max_connections: int = MAX_CONNECTIONS, connect_seconds: float = CONNECT_SECONDS) -> None:
        """``max_connections``: over all hosts; further calls wait for one within their own limits."""
        self._max_connections = max_connections
        self._connect_seconds = connect_seconds
        self._pooled: aiohttp.ClientSession | None = None
        self._fresh: aiohttp.ClientSession | None = None
        self._closed = False
        self._proxies: dict[tuple[str, str], str | None] = {}

    async def stream(self, exchange: Exchange) -> AsyncGenerator[Sequence[ModelItem], None]:
        """Send the request and yield the items of each read. Raises ProviderError."""
        response: aiohttp.ClientResponse | None = None

        def expire() -> None:
            if response is not None:
                response.close()

        liveness = Liveness(exchange.limits, expire)
        try:
            response = await self._open(exchange, liveness)
            parser = exchange.parser(response.status)
            if response.status < 200 or response.status >= 300:
                raise await _http_failure(response, parser, exchange)
            reader = _Reader(response.content, parser, liveness, exchange)
            while (items := await reader.next()) is not None:
                if items:
                    yield items
            _raise_for(parser, response, exchange.context)
        finally:
            liveness.stop()
            if response is not None:
                # After the end of the body the connection is back in the pool already; before, this closes it at once.
                response.close()

    async def aclose(self) -> None:
        """Close all connections; calls in flight fail."""
        self._closed = True
        for session in (self._pooled, self._fresh):
            if session is not None:
                await session.close()

    async def _open(self, exchange: Exchange, liveness: Liveness) -> aiohttp.ClientResponse:
        """Connect, send and wait for the response's headers."""
        context = exchange.context
        try:
            async with asyncio.timeout_at(liveness.due):
                return await self._send(exchange)
        except TimeoutError as error:
            if isinstance(error, aiohttp.ServerTimeoutError):
                raise provider_failure(
                    Reason.PROVIDER_NETWORK,
                    f"No connection to {context.address} within {self._connect_seconds:g} s: check the base URL, the "
                    "network and the proxy.",
                    retryable=True,
                    origin=context.provider,
                ) from None
            raise _timed_out(liveness.limit, exchange) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _connection_failure(error, context) from None

    async def _send(self, exchange: Exchange) -> aiohttp.ClientResponse:
        """Send over a pooled connection; when that was dead already, once more over a fresh one.

        Servers close idle connections, and llama.cpp's closes each one after a stream although it promises to keep it.
        That no answer ever began tells that the request did not arrive; this is no retry of a call.
        """
        sending = _Sending()
        try:
            return await self._post(self._session(), exchange, sending)
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            if not sending.reused:
                raise
        return await self._post(self._session(fresh=True), exchange, sending)

    async def _post(
        self, session: aiohttp.ClientSession, exchange: Exchange, sending: _Sending
    ) -> aiohttp.ClientResponse:
        return await session.post(
            exchange.url,
            data=exchange.body if len(exchange.body) <= _ONE_WRITE_BYTES else io.BytesIO(exchange.body),
            headers=exchange.headers,
            allow_redirects=False,
            proxy=self._proxy(exchange.url),
            trace_request_ctx=sending,
        )

    def _session(self, *, fresh: bool = False) -> aiohttp.ClientSession:
        """The session with the pool, or the one that opens a connection for each request."""
        if self._closed:
            raise provider_failure(Reason.SHUTTING_DOWN, "The server is shutting down: call again later.")
        session = self._fresh if fresh else self._pooled
        if session is None:
            session = self._new_session(force_close=fresh)
            if fresh:
                self._fresh = session
            else:
                self._pooled = session
        return session

    def _new_session(self, *, force_close: bool) -> aiohttp.ClientSession:
        trace = aiohttp.TraceConfig()
        trace.on_connection_reuseconn.append(_on_reuse)
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._max_connections, ttl_dns_cache=60, force_close=force_close),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._connect_seconds),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("User-Agent", "Accept-Encoding", "Accept", "Content-Type"),
            trace_configs=[trace],
        )

    def _proxy(self, url: str) -> str | None:
        """The proxy that the environment names for this host. Asked once: reading it costs more than a request."""
        parts = urlsplit(url)
        key = (parts.scheme, parts.hostname or "")
        if key not in self._proxies:
            bypass = not key[1] or urllib.request.proxy_bypass(key[1])
            self._proxies[key] = None if bypass else urllib.request.getproxies().get(key[0])
        return self._proxies[key]


async def _on_reuse(_session: aiohttp.ClientSession, context: Any, _params: object) -> None:
    context.trace_request_ctx.reused = True


class _Reader:
    """Reads a body for a parser and keeps the limits up to date."""

    __slots__ = ("_content", "_done", "_exchange", "_liveness", "_parser", "_size", "_thinking")

    def __init__(
        self, content: aiohttp.StreamReader, parser: WireParser, liveness: Liveness, exchange: Exchange
    ) -> None:
        self._content = content
        self._parser = parser
        self._liveness = liveness
        self._exchange = exchange
        self._thinking = False
        self._done = False
        self._size = 0

    async def next(self) -> list[ModelItem] | None:
        """The items of the next read, which may be none; None at the end."""
        parser = self._parser
        if self._done:
            return None
        if parser.ended:
            self._done = True
            await _drain(self._content)
            return None
        data = await self._read()
        if not data:
            self._done = True
            return parser.finish()
        await self._count(len(data))
        items = parser.feed(data)
        thought, self._thinking = self._thinking, parser.thinking
        if parser.finish_seen:
            self._liveness.finishing()
        elif self._thinking:
            if parser.content or not thought:
                self._liveness.thinking()
        elif parser.content:
            self._liveness.content()
        elif any(type(item) is ResponseIdentified for item in items):
            self._liveness.thinking()
        return items

    async def _count(self, size: int) -> None:
        """Bound the answer, and let others run: a body that is there already is read without waiting for anything."""
        before, self._size = self._size, self._size + size
        if self._size > MAX_ANSWER_BYTES:
            raise protocol_error(
                f"{self._exchange.context.provider} sent an answer of more than {MAX_ANSWER_BYTES} bytes.",
                self._exchange.context.provider,
            )
        if before // _TURN_BYTES != self._size // _TURN_BYTES:
            await asyncio.sleep(0)

    async def _read(self) -> bytes:
        self._liveness.reading()
        try:
            return await self._content.readany()
        except (aiohttp.ClientError, OSError) as error:
            if self._parser.finish_seen:  # all was said; what was still to come is usage at most
                return b""
            if self._liveness.reached:
                raise _timed_out(self._liveness.limit, self._exchange) from None
            raise _broken_off(error, self._exchange.context) from None
        finally:
            self._liveness.read()


async def _drain(content: aiohttp.StreamReader) -> None:
    """Read the end of a body that has nothing more to say, so that the connection can be used again."""
    if not content.is_eof():
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                await content.readany()
        except (TimeoutError, aiohttp.ClientError, OSError):
            return  # the connection is closed instead


def _raise_for(parser: WireParser, response: aiohttp.ClientResponse, context: CallContext) -> None:
    if parser.broken is not None:
        raise ProviderError(replace(parser.broken, origin=context.provider))
    if parser.error is not None:
        raise ProviderError(failure_of(parser.error, _headers(response), context, time.time()))


async def _http_failure(response: aiohttp.ClientResponse, parser: WireParser, exchange: Exchange) -> ProviderError:
    """The failure that a status other than success means. Reads no more of the body than it needs."""
    context = exchange.context
    if response.status < 400:
        return provider_failure(
            Reason.PROVIDER_REJECTED,
            f"{context.provider} answers with a redirect (status {response.status}), which is not followed: put the "
            "final address into the base URL.",
            origin=context.provider,
            code=str(response.status),
        )
    read = 0
    try:
        async with asyncio.timeout(ERROR_BODY_SECONDS):
            while read < MAX_ERROR_BYTES and (data := await response.content.readany()):
                read += len(data)
                parser.feed(data[:MAX_ERROR_BYTES])
    except (TimeoutError, aiohttp.ClientError, OSError):
        pass  # the status alone has to do
    parser.finish()
    error = parser.error or WireError(response.status)
    return ProviderError(failure_of(error, _headers(response), context, time.time()))


def _headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


def _timed_out(limit: Limit, exchange: Exchange) -> ProviderError:
    limits, provider = exchange.limits, exchange.context.provider
    match limit:
        case Limit.TOTAL:
            text = f"The call to {provider} took longer than its limit of {limits.total:g} s"
        case Limit.FIRST_EVENT:
            text = f"{provider} sent nothing for {limits.first_event:g} s after the request"
        case Limit.THINKING_IDLE:
            text = f"{provider} thought silently for {limits.thinking_idle:g} s"
        case Limit.IDLE | Limit.FINISH_GRACE:
            text = f"{provider} stopped sending for {limits.idle or 0:g} s in the middle of its answer"
    return provider_failure(
        Reason.PROVIDER_TIMEOUT, f"{text}: try again, or raise the limit.", retryable=True, origin=provider, code=limit
    )


def _connection_failure(error: Exception, context: CallContext) -> ProviderError:
    """Why there is no response. The text of the error is not repeated: it may hold the URL with credentials."""
    address, origin = context.address, context.provider
    match error:
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return provider_failure(
                Reason.PROVIDER_NOT_CONFIGURED,
                f"The base URL of {origin} is no valid http or https URL.",
                origin=origin,
            )
        case aiohttp.ClientConnectorDNSError():
            text, retryable = f"The name in {address} cannot be resolved: check the base URL and the network.", True
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError() | ssl.SSLError():
            text = (
                f"No trusted TLS connection to {address}: check that the server speaks TLS there and that its "
                "certificate authority is known here (SSL_CERT_FILE)."
            )
            retryable = False
        case aiohttp.ClientProxyConnectionError():
            text, retryable = f"The proxy for {address} cannot be reached: check the proxy settings.", True
        case aiohttp.ClientConnectorError():
            text, retryable = (
                f"{address} does not accept connections: check that the server runs and the base URL.",
                True,
            )
        case aiohttp.ClientResponseError():
            return protocol_error(f"{address} does not answer in HTTP: check the base URL.", origin)
        case ValueError():
            return provider_failure(
                Reason.PROVIDER_NOT_CONFIGURED,
                f"The request to {origin} cannot be sent: check its key, headers and base URL for line breaks.",
                origin=origin,
            )
        case _:
            text, retryable = f"The connection to {address} broke before an answer came: try again.", True
    return provider_failure(Reason.PROVIDER_NETWORK, text, retryable=retryable, origin=origin)


def _broken_off(error: Exception, context: CallContext) -> ProviderError:
    return provider_failure(
        Reason.PROVIDER_NETWORK,
        f"The connection to {context.address} broke in the middle of the answer ({type(error).__name__}): try again.",
        retryable=True,
        origin=context.provider,
    )
