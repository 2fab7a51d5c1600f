"""An HTTP client in which one fault fails one request: what the SDK's transport sends its messages with.

The bare SDK loses a whole connection to one refused or broken request, and with it status, Retry-After and whether
anything was sent. Here each fault becomes a JSON-RPC error in the answer to its own request, and what is known of it is
kept beside. Knows requests by the id that the writer put, as JSON, into a header that never leaves this module.
"""

from __future__ import annotations

import email.utils
import functools
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any, Final

import anyio
import anyio.abc
import httpx2
import orjson
from mcp.client.auth import OAuthFlowError

from turnwired.domain.errors import ConfigError
from turnwired.tools.mcp.link import Lost
from turnwired.tools.mcp.wire import TOO_LARGE
from turnwired.tools.result import redact

TAG: Final = "turnwire-request"
RequestId = str | int
FIRST: Final = "first"  # the notification that ends a handshake: nothing may overtake it
BESIDE: Final = "beside"  # another message that has no answer
FAULT: Final = -32098  # JSON-RPC code of our own
_EXTENSION: Final = "turnwire"
_SESSION: Final = "mcp-session-id"
_CONNECT_SECONDS: Final = 10.0
_WRITE_SECONDS: Final = 60.0
_UNANSWERED_SECONDS: Final = 2.0  # for notifications, answers of ours and DELETE: nobody waits for them
_MAX_BESIDE: Final = 64
_MAX_CONNECTIONS: Final = 100
_MAX_ERROR_BYTES: Final = 64 * 1024
_MAX_RETRY_AFTER: Final = 3600.0
_OWN_WORDS: Final = (-32601, -32602)  # codes of a server that knows the session well

HeaderSource = Callable[[], Mapping[str, str]]
"""The configured headers, read anew for each request: keys in files change. Raises ConfigError."""


@functools.cache
def ssl_context() -> ssl.SSLContext:
    """One for all servers: making it costs 15 ms and most of the memory of a client."""
    return httpx2.create_ssl_context()


class ContainedClient(httpx2.AsyncClient):
    """The client of one link. ``faults`` says by request id what the synthesised answers stand for."""

    def __init__(
        self,
        headers: HeaderSource,
        max_body: int,
        tasks: anyio.abc.TaskGroup,
        auth: httpx2.Auth | None = None,
    ) -> None:
        super().__init__(
            auth=auth,
            verify=ssl_context(),
            # How long an answer may take is the caller's to say.
            timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS, write=_WRITE_SECONDS, pool=_CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=_MAX_CONNECTIONS, keepalive_expiry=30),
            headers={"accept-encoding": "identity"},  # nothing small unpacks into something huge
            follow_redirects=False,
        )
        self.faults: dict[RequestId, Lost] = {}
        self.on_stale: Callable[[], None] | None = None
        self._headers_now = headers
        self._max_body = max_body
        self._tasks = tasks
        self._beside = 0
        self._given_up: dict[RequestId, anyio.CancelScope] = {}

    def give_up(self, request_id: RequestId) -> None:
        """Nobody waits for this request any more: free its connection."""
        scope = self._given_up.get(request_id)
        if scope is not None:
            scope.cancel()

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send one request of the transport. Raises nothing for a POST but what cancels it."""
        tag = request.headers.pop(TAG, None) or request.extensions.get(_EXTENSION)
        request.extensions[_EXTENSION] = tag  # a redirected request inherits these
        if request.method == "GET":
            self._add_headers(request)
            return await super().send(request, **options)
        if tag is None or tag in (FIRST, BESIDE):
            return await self._unanswered(request, tag, options)
        request_id: RequestId = orjson.loads(tag)
        response: httpx2.Response | None = None
        with anyio.CancelScope() as scope:
            self._given_up[request_id] = scope
            try:
                self._add_headers(request)
                response = await super().send(request, **options)
                response = await self._taken(response, request_id)
            except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OAuthFlowError, ConfigError) as error:
                response = self._failed(request, request_id, lost_by(error))
            finally:
                self._given_up.pop(request_id, None)
        if response is None:
            return self._failed(request, request_id, Lost(sent=True, why="was given up"))
        return response

    def _add_headers(self, request: httpx2.Request) -> None:
        for name, value in self._headers_now().items():
            request.headers[name] = value

    async def _unanswered(
        self, request: httpx2.Request, tag: str | None, options: Mapping[str, Any]
    ) -> httpx2.Response:
        """A message without an answer. Only the one that ends a handshake holds up those behind it."""
        if tag == BESIDE:
            if self._beside < _MAX_BESIDE:
                self._beside += 1
                self._tasks.start_soon(self._send_beside, request, options)
        else:
            await self._send_bounded(request, options)
        return httpx2.Response(202, request=request)

    async def _send_beside(self, request: httpx2.Request, options: Mapping[str, Any]) -> None:
        try:
            await self._send_bounded(request, options)
        finally:
            self._beside -= 1

    async def _send_bounded(self, request: httpx2.Request, options: Mapping[str, Any]) -> None:
        with anyio.move_on_after(_UNANSWERED_SECONDS):
            try:
                self._add_headers(request)
                response = await super().send(request, **options)
                await response.aclose()
            except (httpx2.HTTPError, httpx2.StreamError, OAuthFlowError, ConfigError):
                return  # the next request that has an answer meets the same fault, and says so

    async def _taken(self, response: httpx2.Response, request_id: RequestId) -> httpx2.Response:
        """The answer, read here if it is short-lived, and checked."""
        status, kind = response.status_code, response.headers.get("content-type", "").lower()
        if status < 300 and kind.startswith("text/event-stream"):
            response.stream = _Events(response.stream, self._given_up, request_id)
            return response
        if 200 < status < 400:
            return response  # 202 and redirects, of which the transport knows what to make
        limit = self._max_body if status < 300 else _MAX_ERROR_BYTES
        body = await _bounded(response, limit)
        if status >= 400:
            lost = _lost_by_status(response, body or b"", with_session=_SESSION in response.request.headers)
            if lost is not None:
                if lost.stale and self.on_stale is not None:
                    self.on_stale()
                return self._failed(response.request, request_id, lost)
        if body is None:
            return _error(response.request, request_id, TOO_LARGE, "the answer is longer than max_message_bytes")
        if status < 300 and kind.startswith("application/json"):
            body = _answer_to(body, request_id)
            if body is None:
                lost = Lost(sent=True, why="answered with what is no JSON-RPC message")
                return self._failed(response.request, request_id, lost)
        headers = [
            item
            for item in response.headers.multi_items()
            if item[0] not in ("content-length", "content-encoding", "transfer-encoding")
        ]
        return httpx2.Response(status, headers=headers, content=body, request=response.request)

    def _failed(self, request: httpx2.Request, request_id: RequestId, lost: Lost) -> httpx2.Response:
        if isinstance(request_id, int):  # a subscription asks for nothing behind its end
            self.faults[request_id] = lost
        return _error(request, request_id, FAULT, lost.why)


class _Events(httpx2.AsyncByteStream):
    """A stream of events whose reader can be told that nobody waits any more."""

    def __init__(self, stream: Any, given_up: dict[RequestId, anyio.CancelScope], request_id: RequestId) -> None:
        self._stream = stream
        self._given_up = given_up
        self._request_id = request_id

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts: AsyncGenerator[bytes, None] = aiter(self._stream)
        while True:
            part: bytes | None = None
            with anyio.CancelScope() as scope:
                self._given_up[self._request_id] = scope
                try:
                    part = await anext(parts, None)
                finally:
                    self._given_up.pop(self._request_id, None)
            if part is None:
                return
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _bounded(response: httpx2.Response, limit: int) -> bytes | None:
    """The body, or None when it is longer. The connection is then closed, not read to its end."""
    parts: list[bytes] = []
    size = 0
    try:
        async for part in response.aiter_bytes():
            size += len(part)
            if size > limit:
                return None
            parts.append(part)
    finally:
        await response.aclose()
    return b"".join(parts)


def _answer_to(body: bytes, request_id: RequestId) -> bytes | None:
    """The body as the answer to this request, whatever id it has; None when it is no answer."""
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError:
        try:
            message = orjson.loads(body.decode("utf-8", "replace"))
        except orjson.JSONDecodeError:
            return None
        body = b""
    if not isinstance(message, dict) or not ("result" in message or "error" in message):
        return None
    if not body or message.get("id") != request_id:
        return orjson.dumps({**message, "jsonrpc": "2.0", "id": request_id})
    return body


def _error(request: httpx2.Request, request_id: RequestId, code: int, message: str) -> httpx2.Response:
    answer = {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}
    headers = {"content-type": "application/json"}
    return httpx2.Response(200, headers=headers, content=orjson.dumps(answer), request=request)


def _lost_by_status(response: httpx2.Response, body: bytes, *, with_session: bool) -> Lost | None:
    """What a status of failure means for the request; None when the body says it in JSON-RPC."""
    status = response.status_code
    code = _error_code(body)
    if with_session and code not in _OWN_WORDS and _forgets(status, body):
        return Lost(sent=False, why="does not know the session any more", stale=True, status=status)
    if status in (401, 403):
        return Lost(sent=False, why=f"refused our credentials with HTTP status {status}", status=status)
    after = _retry_after(response.headers.get("retry-after", ""))
    if status == 429:
        return Lost(sent=False, why="takes no more requests now (HTTP status 429)", status=status, retry_after=after)
    if status == 503:
        return Lost(sent=False, why="is unavailable (HTTP status 503)", status=status, retry_after=after)
    if code is not None:
        return None
    return Lost(sent=status >= 500, why=f"answered with HTTP status {status}", status=status)


def _forgets(status: int, body: bytes) -> bool:
    return status in (404, 410) or (status == 400 and b"session" in body.lower())


def _error_code(body: bytes) -> int | None:
    try:
        code = orjson.loads(body)["error"]["code"]
    except (orjson.JSONDecodeError, KeyError, TypeError, IndexError):
        return None
    return code if isinstance(code, int) else None


def _retry_after(value: str) -> float | None:
    """Seconds from a Retry-After header (RFC 9110, 10.2.3), an hour at most."""
    value = value.strip()
    try:
        if value.isdigit():
            seconds = float(value)
        else:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, OverflowError):
        return None
    return min(max(0.0, seconds), _MAX_RETRY_AFTER)


def lost_by(error: Exception) -> Lost:
    """What a fault of the client means for its request. Never in the words of an error that may quote a header."""
    match error:
        case httpx2.PoolTimeout():
            return Lost(sent=False, why=f"has {_MAX_CONNECTIONS} requests of ours in flight")
        case httpx2.ConnectTimeout():
            return Lost(sent=False, why=f"could not be reached within {_CONNECT_SECONDS:g} s", unreachable=True)
        case httpx2.ConnectError() | httpx2.ProxyError():
            return Lost(sent=False, why=f"cannot be reached ({redact(str(error), 200)})", unreachable=True)
        case httpx2.UnsupportedProtocol() | httpx2.LocalProtocolError() | httpx2.InvalidURL():
            return Lost(sent=False, why=f"cannot be asked ({type(error).__name__}: check its address and headers)")
        case OAuthFlowError():
            words = f"gave us no token ({type(error).__name__}: check its authorization server and our credentials)"
            return Lost(sent=False, why=words, status=401)
        case ConfigError():
            return Lost(sent=False, why=f"cannot be asked: {error}", status=401)
        case _:
            return Lost(sent=True, why=f"broke off the connection ({type(error).__name__})")
