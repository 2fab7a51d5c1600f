"""Floor: the hand-written loop in the caller's own process over httpx2, which the SDKs of providers are made on.

No gRPC and no server. httpx2 is httpx under its present name.
"""

from __future__ import annotations

import httpx2

from bench.handloop import EventSplitter, HandLoop, OnEvents
from bench.turn import OnText, Turn

_HEADERS = {"content-type": "application/json", "authorization": "Bearer x"}


class HttpxFloor:
    """httpx2 and orjson."""

    def __init__(self, base_url: str) -> None:
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
        self._client = httpx2.AsyncClient(timeout=600, limits=limits, trust_env=False)
        self._url = f"{base_url}/chat/completions"
        self._loop = HandLoop(self._post)

    async def turn(self, turn: Turn, on_text: OnText) -> None:
        """As the target says."""
        await self._loop.turn(turn, on_text)

    async def _post(self, body: bytes, on_events: OnEvents) -> None:
        splitter = EventSplitter()
        async with self._client.stream("POST", self._url, content=body, headers=_HEADERS) as response:
            response.raise_for_status()
            async for data in response.aiter_raw():
                on_events(splitter.feed(data))

    async def aclose(self) -> None:
        """As the target says."""
        await self._loop.aclose()
        await self._client.aclose()
