"""Floor: the hand-written loop in the caller's own process over aiohttp, whose parser is C. No gRPC and no server."""

from __future__ import annotations

import aiohttp

from bench.handloop import EventSplitter, HandLoop, OnEvents
from bench.turn import OnText, Turn

_HEADERS = {"content-type": "application/json", "authorization": "Bearer x"}


class AiohttpFloor:
    """aiohttp and orjson."""

    def __init__(self, base_url: str) -> None:
        timeout = aiohttp.ClientTimeout(total=600)
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout)
        self._url = f"{base_url}/chat/completions"
        self._loop = HandLoop(self._post)

    async def turn(self, turn: Turn, on_text: OnText) -> None:
        """As the target says."""
        await self._loop.turn(turn, on_text)

    async def _post(self, body: bytes, on_events: OnEvents) -> None:
        splitter = EventSplitter()
        async with self._session.post(self._url, data=body, headers=_HEADERS) as response:
            response.raise_for_status()
            async for data in response.content.iter_any():
                on_events(splitter.feed(data))

    async def aclose(self) -> None:
        """As the target says."""
        await self._loop.aclose()
        await self._session.close()
