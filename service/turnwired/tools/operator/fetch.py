"""``http_fetch``: a GET that goes where the configuration lets it and nowhere else, whatever names and redirects say.

Names are resolved once for each hop, all records are judged, and the connection is made to a judged address. No proxy,
no cookie, no credential; nothing of the environment is read.
"""

from __future__ import annotations

import functools
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final

import anyio
import anyio.to_thread
import httpx2
from pydantic import Field

from turnwired.domain.message import Blob, Text
from turnwired.tools.operator.addresses import Address
from turnwired.tools.operator.bodies import Body, NotRead, read_body
from turnwired.tools.operator.config import FetchConfig
from turnwired.tools.operator.failures import failed
from turnwired.tools.operator.files import content
from turnwired.tools.operator.targets import TOOL, Target, check_addresses, target_of
from turnwired.tools.port import ToolOutput
from turnwired.tools.python import tool
from turnwired.tools.threads import CallState, WorkerPool

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""From a name and a port to addresses as text. Raises OSError when there are none."""

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_CONNECT_SECONDS: Final = 4.0
_MAX_ADDRESSES: Final = 4
"""Of one host that are tried; all are judged."""
_MAX_RECORDS: Final = 64
_RESOLVING_THREADS: Final = 4
_SHOWN_HEADERS: Final = ("content-type", "content-length", "last-modified", "etag", "retry-after", "location")
_MAX_HEADER: Final = 500


@dataclass(slots=True)
class SystemResolver:
    """The names that this machine knows, asked in threads of its own: a slow name server holds up nobody else."""

    pool: WorkerPool = field(default_factory=lambda: WorkerPool(_RESOLVING_THREADS))

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """All addresses of a name."""
        ask = functools.partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await self.pool.run(ask, CallState())
        assert isinstance(found, list)
        return [str(entry[4][0]) for entry in found]


@dataclass(slots=True)
class Fetching:
    """The tool over a configuration. ``resolve``: who is asked for the addresses of names."""

    config: FetchConfig
    resolve: Resolver = field(default_factory=SystemResolver)
    _trusted: ssl.SSLContext | None = None

    @property
    def functions(self) -> Sequence[Callable[..., object]]:
        """The tool."""
        return (self.http_fetch,)

    @tool(read_only=True, idempotent=True, open_world=True)
    async def http_fetch(self, url: Annotated[str, Field(min_length=1, max_length=4096)]) -> ToolOutput:
        """Fetch a page or a file over HTTP (GET): status, a few headers, and the body as text or as bytes.

        Args:
            url: The address, with http:// or https://.
        """
        target = target_of(url, self.config)
        with anyio.move_on_after(self.config.max_seconds):
            return await self._follow(target)
        raise failed(TOOL, f"no answer within {self.config.max_seconds:g} s", "timeout")

    async def _follow(self, target: Target) -> ToolOutput:
        for _ in range(self.config.max_redirects + 1):
            addresses = await self._addresses(target)
            status, headers, body = await self._get(target, addresses)
            if status not in _REDIRECTS or "location" not in headers:
                return _output(status, headers, body)
            following = target_of(headers["location"], self.config, target.url)
            if following.host != target.host and not self.config.follow_to_other_hosts:
                await self._addresses(following)  # where it may not be asked, that is what the model has to know
                return _elsewhere(status, following)
            target = following
        raise failed(TOOL, f"more than {self.config.max_redirects} redirects", "too_many_redirects")

    async def _addresses(self, target: Target) -> Sequence[Address]:
        if target.literal is not None:
            return [target.literal]
        try:
            found = await self.resolve(target.host, target.port)
            addresses = list(dict.fromkeys(ipaddress.ip_address(each) for each in found[:_MAX_RECORDS]))
        except (OSError, ValueError, UnicodeError):
            raise failed(TOOL, "the host's name cannot be resolved", "name_not_resolved") from None
        if not addresses:
            raise failed(TOOL, "the host's name has no address", "name_not_resolved")
        check_addresses(target, addresses, self.config)
        return addresses

    async def _get(self, target: Target, addresses: Sequence[Address]) -> tuple[int, dict[str, str], Body]:
        """Ask the first address that takes a connection. Raises ToolError."""
        for address in addresses[:_MAX_ADDRESSES]:
            try:
                return await self._ask(target, address)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
            except NotRead as error:
                raise failed(TOOL, str(error), "not_read") from None
            except (httpx2.HTTPError, httpx2.InvalidURL, ssl.SSLError, OSError) as error:
                raise failed(TOOL, f"the exchange failed: {type(error).__name__}", "network") from None
        raise failed(TOOL, "no connection could be made", "no_connection")

    async def _ask(self, target: Target, address: Address) -> tuple[int, dict[str, str], Body]:
        # Connecting to the address itself leaves nothing to be resolved a second time; the name goes into the Host
        # header, and into the handshake and the check of the certificate.
        pinned = target.url.copy_with(host=str(address))
        headers = {
            "host": target.url.netloc.decode("ascii"),
            "user-agent": self.config.user_agent,
            "accept": "*/*",
            "accept-encoding": "gzip",
        }
        extensions = {} if target.literal is not None else {"sni_hostname": target.host}
        limits = httpx2.Limits(max_connections=1, max_keepalive_connections=0)
        timeout = httpx2.Timeout(self.config.max_seconds, connect=min(_CONNECT_SECONDS, self.config.max_seconds))
        async with (
            httpx2.AsyncClient(verify=await self._context(), trust_env=False, timeout=timeout, limits=limits) as client,
            client.stream("GET", pinned, headers=headers, extensions=extensions, follow_redirects=False) as response,
        ):
            shown = {name: value for name, value in response.headers.items() if name in _SHOWN_HEADERS}
            if response.status_code in _REDIRECTS:
                return response.status_code, shown, Body(None, b"", cut=False)
            body = await read_body(response, self.config.max_bytes)
            return response.status_code, shown, body

    async def _context(self) -> ssl.SSLContext:
        if self._trusted is None:
            file = None if self.config.ca_file is None else str(self.config.ca_file)
            try:
                make = functools.partial(ssl.create_default_context, cafile=file)
                self._trusted = await anyio.to_thread.run_sync(make)
            except OSError:
                raise failed(TOOL, "the certificates of the configuration cannot be read", "no_certificates") from None
        return self._trusted


def _elsewhere(status: int, target: Target) -> ToolOutput:
    words = f"HTTP {status}\nThe page is elsewhere: {target.url}\nCall {TOOL} with that URL to read it."
    return content(Text(words))


def _output(status: int, headers: dict[str, str], body: Body) -> ToolOutput:
    shown = [f"{name}: {headers[name][:_MAX_HEADER]}" for name in _SHOWN_HEADERS if name in headers]
    head = "\n".join((f"HTTP {status}", *shown))
    if body.text is not None:
        cut = f"\n[cut after {len(body.data)} bytes]" if body.cut else ""
        return content(Text(head), Text(body.text + cut)) if body.text else content(Text(head))
    if body.cut:
        return content(Text(f"{head}\n[the body is no text and larger than is read: {len(body.data)} bytes]"))
    return content(Text(head), Blob(body.media_type, body.data))
