"""The benchmark's tools: one that does nothing, one that takes 50 ms. The service loads them as a user's tools."""

from __future__ import annotations

import asyncio


async def noop(x: int, y: str) -> str:
    """Do nothing and say ok."""
    return "ok"


async def sleep50(x: int, y: str) -> str:
    """Sleep 50 ms and say ok."""
    await asyncio.sleep(0.05)
    return "ok"
