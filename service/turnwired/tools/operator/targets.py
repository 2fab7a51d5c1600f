"""URLs of ``http_fetch``: which may be asked for, by what they say and by what their hosts resolve to. Pure.

One parser reads a URL, and what it read is what is connected to: two that differ would be a way around.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import httpx2

from turnwired.domain.errors import ToolError
from turnwired.tools.operator.addresses import Address, is_never_reached, is_public
from turnwired.tools.operator.config import FetchConfig, host_and_port
from turnwired.tools.operator.failures import blocked

MAX_URL: Final = 4096
TOOL: Final = "http_fetch"
_PORTS: Final = {"http": 80, "https": 443}
_NAME: Final = re.compile(r"^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*$")
_NUMBER: Final = re.compile(r"^(?:[0-9]+|0x[0-9a-f]*)$")
"""The last part of what ``inet_aton`` takes for an address, in decimal, octal or hexadecimal (WHATWG URL, 3.5)."""


@dataclass(frozen=True, slots=True)
class Target:
    """A URL that may be asked for, as far as its text tells. ``literal``: its host is an address."""

    url: httpx2.URL
    host: str
    port: int
    by_name: bool
    literal: Address | None = None

    @property
    def pattern(self) -> str:
        """What permission rules are held against: the host, with its port where that is not the scheme's."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.url.scheme] else f"{host}:{self.port}"


def target_of(text: str, config: FetchConfig, base: httpx2.URL | None = None) -> Target:
    """The target that a URL, or a redirect from ``base``, means. Raises ToolError for what may not be asked for."""
    if len(text) > MAX_URL or "\\" in text or any(char.isspace() or not char.isprintable() for char in text):
        raise _blocked("blocked_url", f"a URL has no spaces, no backslashes and at most {MAX_URL} characters")
    try:
        url = httpx2.URL(text) if base is None else base.join(text)
        port = url.port
    except (httpx2.InvalidURL, ValueError):
        raise _blocked("blocked_url", "this is no URL; hosts are names or addresses in their usual form") from None
    if url.scheme not in _PORTS:
        raise _blocked("blocked_scheme", "only http and https are fetched")
    if url.userinfo:
        raise _blocked("blocked_userinfo", "a URL with a user or a password is not fetched")
    host, literal = _host(url)
    port = _PORTS[url.scheme] if port is None else port
    target = Target(url.copy_with(fragment=None), host, port, _is_private(host, port, config), literal)
    _check(target, config)
    return target


def _host(url: httpx2.URL) -> tuple[str, Address | None]:
    host = url.raw_host.decode("ascii").lower().removesuffix(".")
    try:
        literal = ipaddress.ip_address(host)
    except ValueError:
        literal = None
    if literal is not None:
        return str(literal), literal
    if not _NAME.match(host) or len(host) > 253 or _NUMBER.match(host.rpartition(".")[2]):
        raise _blocked("blocked_address", "the host is neither a name nor an address in its usual form")
    return host, None


def _check(target: Target, config: FetchConfig) -> None:
    if not 0 < target.port < 65536:
        raise _blocked("blocked_port", "there is no such port")
    if _listed(target.host, config.deny_hosts):
        raise _blocked("blocked_host", "the configuration denies this host")
    if config.allow_hosts and not target.by_name and not _listed(target.host, config.allow_hosts):
        raise _blocked("blocked_host", "the configuration does not allow this host")
    if target.literal is not None:
        check_addresses(target, [target.literal], config)
    if not target.by_name and target.port not in config.ports:
        listed = ", ".join(map(str, config.ports))
        raise _blocked("blocked_port", f"only these ports are asked: {listed}")


def check_addresses(target: Target, addresses: Sequence[Address], config: FetchConfig) -> None:
    """Judge all that a host resolves to: one that is not public is enough. Raises ToolError."""
    for address in addresses:
        if _listed(str(address), config.deny_hosts):
            raise _blocked("blocked_host", "the configuration denies an address of this host")
        if target.by_name:
            allowed = address == target.literal or not is_never_reached(address)
        else:
            allowed = is_public(address)
        if not allowed:
            raise _blocked("blocked_address", "the host leads to an address that is not public")


def _listed(host: str, patterns: Sequence[str]) -> bool:
    return any(
        host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern.removesuffix(".")
        for pattern in patterns
    )


def _is_private(host: str, port: int, config: FetchConfig) -> bool:
    for entry in config.private_hosts:
        named, at = host_and_port(entry)
        if _same(named, host) and at in {None, port}:
            return True
    return False


def _same(named: str, host: str) -> bool:
    try:
        return str(ipaddress.ip_address(named)) == host
    except ValueError:
        return named.removesuffix(".") == host


def _blocked(code: str, words: str) -> ToolError:
    return blocked(TOOL, code, words)
