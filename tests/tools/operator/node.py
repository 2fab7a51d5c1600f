"""A real Node process with an inspector, which is no child of the tests: the tools refuse those."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

PROGRAM = """\
let count = 0;
const order = { id: 4711, items: ["tea", "cup"] };
order.self = order;

function spin(ms) {
  const end = Date.now() + ms;
  while (Date.now() < end) Math.sqrt(count);
}

function tick(step) {
  const label = "tick " + count;
  count += step;
  return label;
}

function work() {
  tick(1);
  spin(2);
  setTimeout(work, 3);
}

work();
"""
TICK = 12
"""The line of the program where ``count`` is raised."""


@dataclass(frozen=True)
class Node:
    """A process under inspection."""

    pid: int
    address: str

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True


@asynccontextmanager
async def node(directory: Path, program: str = PROGRAM, *, child: bool = False) -> AsyncIterator[Node]:
    """A process that runs the program, ended afterwards. ``child``: it is one of the tests'."""
    if shutil.which("node") is None:
        pytest.skip("there is no Node here")
    if not child and not sys.platform.startswith("linux"):
        pytest.skip("how a process is given away differs from system to system")
    script, log = directory / "program.js", directory / "node.log"
    script.write_text(program)
    log.touch()
    command = f'exec node --inspect=127.0.0.1:0 "{script}" 2>"{log}" </dev/null >/dev/null'
    line = command if child else f"({command}) & echo $!"
    shell = await asyncio.create_subprocess_exec("sh", "-c", line, stdout=asyncio.subprocess.PIPE)
    assert shell.stdout is not None
    pid = shell.pid if child else int(await shell.stdout.readline())
    if not child:
        await shell.wait()  # its parent is gone: it belongs to nobody of ours any more
    try:
        yield Node(pid, await _address(log))
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if child:
            await shell.wait()


async def _address(log: Path) -> str:
    with anyio.fail_after(30):
        while True:
            found = re.search(r"ws://(127\.0\.0\.1:\d+)/", await anyio.Path(log).read_text())
            if found:
                return found[1]
            await anyio.lowlevel.checkpoint()
