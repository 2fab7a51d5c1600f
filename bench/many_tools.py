"""What a turn costs in a deployment of many tools: whole turns in one process without a network, from ``run_turn`` to
the settled result, a scripted model answering at once. Discovery and the first composition come before.

``python -m bench.many_tools full`` prints JSON rows; ``make bench`` shows them among the parts.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Sequence

from turnwired import Runtime
from turnwired.domain.failure import Failure
from turnwired.domain.message import Part, Text
from turnwired.domain.tool import Tool, ToolRef, ToolSource
from turnwired.testing.provider import ScriptedProvider, answer, calls
from turnwired.tools.port import ToolInvocation, ToolOutput

SIZES = {"tiny": (40, 3), "quick": (2000, 50), "full": (2000, 200)}
"""Tools, and turns of each kind."""
Row = dict[str, float | str]


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


async def turns(count: int, number: int, find_above: int, *, finds: bool = False) -> tuple[float, float]:
    """Milliseconds of the first turn and of a usual one, the median."""
    answers = [calls(("find_tools", '{"query":"invoice 7"}')), answer("Hi.")] if finds else [answer("Hi.")]
    config = {"agents": {"default": {}}, "tools": {"find_above": find_above}}
    provider = ScriptedProvider([])
    times: list[float] = []
    async with Runtime(config, toolsets=[Many(count)], providers={"scripted": provider}, environ={}) as runtime:
        await runtime.list_tools()
        for _ in range(number):
            provider.script += answers
            began = time.perf_counter()
            assert (await runtime.run_turn("Hello")).answered
            times.append((time.perf_counter() - began) * 1000)
    return times[0], statistics.median(times)


async def measure(size: str) -> list[Row]:
    """A row for each way to show the tools."""
    count, number = SIZES[size]
    kinds = (
        ("one tool", 1, 100, False),
        (f"{count:,} tools, found", count, count // 20, False),
        (f"{count:,} tools, found, with a search in the turn", count, count // 20, True),
        (f"{count:,} tools, all shown", count, 0, False),
    )
    rows: list[Row] = []
    for name, tools, find_above, finds in kinds:
        first, usual = await turns(tools, number, find_above, finds=finds)
        rows.append({"name": f"turn, {name}", "value": usual, "unit": "ms", "note": f"the first {first:.2f} ms"})
    return rows


def main(size: str, directory: str = "") -> None:
    """Print the rows. ``directory`` is not needed."""
    del directory
    sys.stdout.write(json.dumps(asyncio.run(measure(size))) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
