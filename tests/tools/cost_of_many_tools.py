"""What a turn costs in a deployment of 2,000 tools, measured in one process; no test.

``python tests/tools/cost_of_many_tools.py`` prints medians of whole turns without a network: from ``run_turn`` to the
settled result, a scripted model answering at once. Discovery and the first composition are before.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Sequence

from turnwired import Runtime
from turnwired.domain.failure import Failure
from turnwired.domain.message import Part, Text
from turnwired.domain.tool import Tool, ToolRef, ToolSource
from turnwired.testing.provider import ScriptedProvider, answer, calls
from turnwired.tools.port import ToolInvocation, ToolOutput

COUNT = 2000
TURNS = 200


class Many:
    """A source of many tools, each with a schema of its own."""

    set_id = "many"
    failure: Failure | None = None
    left_out: Sequence[Failure] = ()

    def __init__(self, count: int) -> None:
        self._tools = tuple(_tool(number) for number in range(count))

    async def start(self) -> None:
        """Nothing."""

    async def tools(self) -> Sequence[Tool]:
        """All of them."""
        return self._tools

    async def call(self, invocation: ToolInvocation) -> ToolOutput:
        """Its name."""
        return ToolOutput((Part("", Text(invocation.native_name)),))

    async def aclose(self) -> None:
        """Nothing."""


def _tool(number: int) -> Tool:
    schema = {
        "type": "object",
        "properties": {f"field_{number}": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
        "required": [f"field_{number}"],
    }
    words = f"Handles invoices, orders and messages of kind {number} of a customer, and tells what became of them."
    return Tool(ToolRef(f"tool_{number}", f"tool_{number}", ToolSource.LOCAL), words, json.dumps(schema))


async def measure(count: int, find_above: int, *, finds: bool = False) -> tuple[float, float]:
    """Milliseconds of the first turn and of a usual one."""
    answers = [calls(("find_tools", '{"query":"invoice 7"}')), answer("Hi.")] if finds else [answer("Hi.")]
    config = {"agents": {"default": {}}, "tools": {"find_above": find_above}}
    provider = ScriptedProvider([])
    times: list[float] = []
    async with Runtime(config, toolsets=[Many(count)], providers={"scripted": provider}, environ={}) as runtime:
        await runtime.list_tools()
        for _ in range(TURNS):
            provider.script += answers
            began = time.perf_counter()
            assert (await runtime.run_turn("Hello")).answered
            times.append((time.perf_counter() - began) * 1000)
    return times[0], statistics.median(times)


async def main() -> None:
    """Print the table."""
    rows = (
        ("one tool", await measure(1, 100)),
        (f"{COUNT} tools, found", await measure(COUNT, 100)),
        (f"{COUNT} tools, found, with a search in the turn", await measure(COUNT, 100, finds=True)),
        (f"{COUNT} tools, all shown", await measure(COUNT, 0)),
    )
    for name, (first, usual) in rows:
        print(f"{name:48} first {first:7.2f} ms   median {usual:7.2f} ms")


if __name__ == "__main__":
    asyncio.run(main())
