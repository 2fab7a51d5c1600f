"""The process that measures: reads commands from its standard input and answers each with a sample, both as JSON.

Arguments: ``httpx URL`` or ``aiohttp URL`` (the target is in this process), or ``grpc`` (each command names the
address and the process id of its server).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from typing import Any

import uvloop

from bench.measures import MEASURES, Measured, Sample
from bench.turn import Target


def target_of(kind: str, place: str) -> Target:
    """A target, with only what it needs imported: a floor must not carry the weight of another."""
    match kind:
        case "httpx":
            from bench.floor_httpx import HttpxFloor

            return HttpxFloor(place)
        case "aiohttp":
            from bench.floor_aiohttp import AiohttpFloor

            return AiohttpFloor(place)
        case "grpc":
            from bench.caller import GrpcTarget

            return GrpcTarget(place)
        case _:
            raise ValueError(f"no target is called {kind!r}")


class Worker:
    """Keeps targets between commands."""

    def __init__(self, kind: str, place: str) -> None:
        self._kind = kind
        self._place = place
        # Imports are part of getting ready.
        self._targets: dict[str, Target] = {place: target_of(kind, place)} if place else {}

    async def measure(self, command: dict[str, Any]) -> Sample:
        """Run the measure that a command names."""
        place = command.get("address") or self._place
        if place not in self._targets:
            self._targets[place] = target_of(self._kind, place)
        measured = Measured(self._targets[place], command.get("pid") or os.getpid())
        limit: float = command["limit"]
        return await asyncio.wait_for(MEASURES[command["measure"]](measured, **command["sizes"]), limit)

    async def forget(self, place: str) -> None:
        """Close the connections to a server that ends."""
        if place in self._targets:
            await self._targets.pop(place).aclose()


async def _main(kind: str, place: str = "") -> None:
    worker = Worker(kind, place)
    _say({"ready": True})
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        if "forget" in command:
            await worker.forget(command["forget"])
            _say({"sample": {}})
            continue
        try:
            _say({"sample": await worker.measure(command)})
        except Exception as error:  # noqa: BLE001 - the boundary of a command: its failure is the answer
            traceback.print_exc()
            _say({"error": _describe(error)})
    await worker.forget(place)


def _describe(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"[:500]


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    uvloop.run(_main(*sys.argv[1:]))
