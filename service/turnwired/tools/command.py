"""Runs a command for a tool, in a process group of its own that never outlives the call.

For tools that start programs: cancelling the call, by its timeout or its run, sends SIGTERM to the whole group at once
and SIGKILL after a grace. Output is bounded. It may not know tools, runs or shells: the command is a list of words.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import Final

import anyio

from turnwired.tools.mcp.config import SAFE_ENVIRONMENT

GRACE_SECONDS: Final = 1.0
"""From SIGTERM to SIGKILL. A call is waited for two seconds after its cancellation; with more it ends unheard."""
MAX_OUTPUT_BYTES: Final = 1 << 20
_CHUNK: Final = 64 << 10
_POLL: Final = 0.01


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended. ``returncode`` is negative for a signal; ``cut`` says that there was more output."""

    returncode: int
    stdout: bytes
    stderr: bytes
    cut: bool = False


async def run_command(
    command: Sequence[str],
    *,
    stdin: bytes = b"",
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    grace: float = GRACE_SECONDS,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
) -> CommandResult:
    """Run a command to its end. ``grace`` is in seconds, ``max_output_bytes`` holds for each of the two outputs.

    Without ``env`` it gets a safe base of our environment, without any keys. Raises OSError when it cannot be started.
    When cancelled, or when the command ends and leaves children behind, its process group gets SIGTERM at once and
    SIGKILL after ``grace``; only then does this return or raise.
    """
    if env is None:
        env = {name: os.environ[name] for name in SAFE_ENVIRONMENT if name in os.environ}
    # Not the loop's own way to start children: that forks, which runs handlers of libraries that need not be sound
    # beside their threads (docs/design/0011).
    process = subprocess.Popen(  # noqa: S603, ASYNC220  a millisecond
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=dict(env),
        start_new_session=True,
    )
    out, err = _Kept(max_output_bytes), _Kept(max_output_bytes)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    pipes = [
        threading.Thread(target=work, args=(pipe, *more), daemon=True)
        for work, pipe, *more in ((out.read, process.stdout), (err.read, process.stderr), (_feed, process.stdin, stdin))
    ]
    waiting = threading.Thread(target=_wait, args=(process, loop, ended), daemon=True)
    for thread in (*pipes, waiting):
        thread.start()
    try:
        await ended.wait()
        await _end(process, ended, grace)  # what it left behind may hold its pipes open for ever
        with anyio.move_on_after(grace):
            while any(thread.is_alive() for thread in pipes):  # noqa: ASYNC110
                await anyio.sleep(_POLL)
    except asyncio.CancelledError:
        _signal(process, signal.SIGTERM)  # before anything is awaited
        with anyio.CancelScope(shield=True):
            await _end(process, ended, grace)
        raise
    return CommandResult(process.returncode, bytes(out.data), bytes(err.data), out.cut or err.cut)


class _Kept:
    """The beginning of a stream; the rest is read, so that the command does not wait, and dropped."""

    def __init__(self, most: int) -> None:
        self.data = bytearray()
        self.cut = False
        self._most = most

    def read(self, stream: BufferedReader) -> None:
        """Read to the end, in a thread."""
        with stream:
            while chunk := stream.read1(_CHUNK):
                room = self._most - len(self.data)
                self.data += chunk[:room]
                self.cut = self.cut or len(chunk) > room


def _feed(stream: BufferedWriter, data: bytes) -> None:
    with suppress(BrokenPipeError), stream:
        stream.write(data)


def _wait(process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    process.wait()
    with suppress(RuntimeError):  # the loop has been closed: nobody waits
        loop.call_soon_threadsafe(ended.set)


async def _end(process: subprocess.Popen[bytes], ended: asyncio.Event, grace: float) -> None:
    """End what is left of the group: asked to, then killed. Returns when nothing of it runs any more."""
    if not _signal(process, signal.SIGTERM):
        return
    with anyio.move_on_after(grace):
        while _signal(process, 0):  # noqa: ASYNC110
            await anyio.sleep(_POLL)  # a group tells nobody when it ends
    if _signal(process, 0):
        _signal(process, _KILL)
    await ended.wait()


if sys.platform == "win32":
    _KILL = signal.SIGTERM

    def _signal(process: subprocess.Popen[bytes], number: int) -> bool:
        """Whether there was a process to be signalled. There are no groups and no gentle ways here."""
        if process.poll() is not None:
            return False
        if number:
            process.kill()
        return True

else:
    _KILL = signal.SIGKILL

    def _signal(process: subprocess.Popen[bytes], number: int) -> bool:
        """Whether there was a process in the group to be signalled."""
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            return number != 0  # only zombies are left
        return True
