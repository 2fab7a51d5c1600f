"""Tools that the service under test loads by name. They run in its process and meet the test at gates over HTTP."""

from __future__ import annotations

import asyncio
import os
import urllib.request
from pathlib import Path

from turnwired.tools.python import ToolContext, tool


@tool(read_only=True)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(read_only=True)
async def slow(text: str) -> str:
    """Say it again, 300 ms later."""
    await asyncio.sleep(0.3)
    return text


@tool
def pass_gate(name: str, context: ToolContext) -> str:
    """Wait until the test opens a gate. Writes down that it was executed before it does."""
    _record(context.call_id)
    with urllib.request.urlopen(f"{os.environ['GATES']}/gate/{name}", timeout=30) as response:
        text: str = response.read().decode()
    return text


@tool
async def record(word: str, context: ToolContext) -> str:
    """Write down that it was executed."""
    _record(context.call_id)
    return f"recorded {word}"


def _record(call_id: str) -> None:
    with Path(os.environ["LEDGER"]).open("a", encoding="utf-8") as ledger:
        ledger.write(call_id + "\n")
