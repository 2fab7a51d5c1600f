"""Addresses as the configuration writes them: of the server itself, and of an app that it calls. Pure data."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

_LISTEN = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^:\s\[\]]+)):(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where the server listens: ``host`` and ``port``, or a Unix socket at ``unix_path``. Port 0 takes a free one."""

    host: str = ""
    port: int = 0
    unix_path: str = ""

    @property
    def is_local(self) -> bool:
        """True when nobody outside this machine can connect."""
        if self.unix_path or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_listen(text: str) -> ListenAddress:
    """Read ``host:port``, ``[v6]:port`` or ``unix:path``. Raises ValueError."""
    if text.startswith("unix:") and len(text) > len("unix:"):
        return ListenAddress(unix_path=text.removeprefix("unix:"))
    match = _LISTEN.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise ValueError('takes "host:port", "[v6 address]:port" or "unix:path"')
    return ListenAddress(match["v6"] or match["host"], int(match["port"]))
