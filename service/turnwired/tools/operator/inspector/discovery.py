"""Asks the HTTP side of an inspector which session it has. Bounded; of what it says only the session's id is used."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import httpx2

_MAX_BYTES: Final = 256 * 1024
_SECONDS: Final = 5.0
_PATH: Final = re.compile(r"^/[A-Za-z0-9-]{1,64}$")
_MAX_SHOWN: Final = 500


class NoInspector(Exception):
    """There is no inspector of Node at the address."""


@dataclass(frozen=True, slots=True)
class Found:
    """A session that can be opened at the address that was asked, by this path."""

    path: str
    title: str
    url: str


async def discover(host: str, port: int) -> Found:
    """The session of the process. Raises NoInspector."""
    where = f"[{host}]" if ":" in host else host
    body = bytearray()
    try:
        async with (
            httpx2.AsyncClient(trust_env=False, timeout=_SECONDS) as client,
            client.stream("GET", f"http://{where}:{port}/json/list", follow_redirects=False) as response,
        ):
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > _MAX_BYTES:
                    raise NoInspector
        listed = json.loads(body)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError):
        raise NoInspector from None
    for item in listed if isinstance(listed, list) else []:
        if isinstance(item, dict):
            path = urlsplit(str(item.get("webSocketDebuggerUrl", ""))).path
            if _PATH.match(path):  # the address stays the one of the configuration, whatever this says
                return Found(path, str(item.get("title", ""))[:_MAX_SHOWN], str(item.get("url", ""))[:_MAX_SHOWN])
    raise NoInspector
