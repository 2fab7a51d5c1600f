"""Children that are started while gRPC serves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import turnwired
import asyncio, sys
import grpc
import uvloop

async def child():
    process = await asyncio.create_subprocess_exec(sys.executable, "-I", "-S", "-c", "")
    return await asyncio.wait_for(process.wait(), 20)

async def main():
    codes = []
    for _ in range(10):
        early = asyncio.create_task(child())
        server = grpc.aio.server()
        server.add_insecure_port("127.0.0.1:0")
        await server.start()
        codes += [await early, await child()]
        await server.stop(0)
    print(sorted(set(codes)))

uvloop.run(main())
"""


@pytest.mark.requirement("TOOLX-34")
@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.parametrize("own", [None, "0"])
def test_children_start_while_grpc_serves_and_none_of_its_handlers_runs(own: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_ENABLE_FORK_SUPPORT"}
    environment |= {"PYTHONPATH": str(ROOT / "service")} | ({"GRPC_ENABLE_FORK_SUPPORT": own} if own else {})
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=50, check=False, env=environment
    )
    assert (done.returncode, done.stdout) == (0, "[0]\n"), done.stderr
    assert "fork_posix" not in done.stderr


@pytest.mark.requirement("TOOLX-34")
def test_what_an_operator_set_is_left_alone() -> None:
    script = "import turnwired, os; print(os.environ['GRPC_ENABLE_FORK_SUPPORT'])"
    environment = os.environ | {"GRPC_ENABLE_FORK_SUPPORT": "1", "PYTHONPATH": str(ROOT / "service")}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=50, check=True, env=environment
    )
    assert done.stdout.strip() == "1"
