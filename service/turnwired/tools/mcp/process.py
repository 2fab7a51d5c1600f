"""A child process that exchanges lines over its pipes, and that never outlives its owner.

Knows nothing of MCP. Output that is no message is the reader's affair; here only lengths are bounded. The child leads a
process group of its own, so that a terminal's Ctrl-C leaves it to us and its own children end with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, cast

import anyio

from turnwired.tools.hiding import Hide
from turnwired.tools.result import redact

_LOG = logging.getLogger(__name__)

STDERR_TAIL_BYTES: Final = 8192
_STDERR_LINE_BYTES: Final = 2000
ENDS_BYTES: Final = 256
_PAUSE_ABOVE: Final = 256  # lines; reading goes on below a quarter of it
_EXIT_TO_EOF: Final = (
    0.5  # seconds for what a dead child has left in its pipe; a grandchild may hold that open for ever
)
_MAX_UNREAD: Final = 1024 * 1024  # bytes that wait for a child to read them, beyond which only requests are kept
_POLL: Final = 0.01
_GROUP_POLLS: Final = 20

# Asks the kernel to kill the child when we die, closes the race with our death before that, and becomes the command.
# Python ignores SIGPIPE and would hand that down. Not a preexec_fn: that runs our interpreter between fork and exec.
_DIES_WITH_US: Final = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]): os._exit(0)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
os.execv(sys.argv[2], sys.argv[3:])
"""


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line above the limit, of which only the two ends are left."""

    head: bytes
    tail: bytes


Line = bytes | TooLong


class Pipe(Protocol):
    """What a link asks of whatever a server speaks through: lines both ways, and how it ended."""

    @property
    def name(self) -> str:
        """Whose pipe it is, for an operator."""
        ...

    @property
    def ended(self) -> asyncio.Event:
        """Set when the other side is gone."""
        ...

    @property
    def returncode(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs, or where there is no process."""
        ...

    @property
    def last_words(self) -> str:
        """The end of what it wrote to stderr."""
        ...

    async def receive(self) -> Line | None:
        """Its next line; None at the end."""
        ...

    async def send(self, line: bytes, *, wait: bool = True) -> None:
        """Send one line. Raises BrokenPipeError when it cannot have arrived."""
        ...

    async def exits(self, within: float) -> bool:
        """Whether it has ended, waiting at most so many seconds for it."""
        ...


class _Splitter:
    """Cuts chunks into lines of bounded length."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._chunks: list[bytes] = []
        self._size = 0
        self._head: bytes | None = None  # of a line that is too long already
        self._tail = b""

    def feed(self, data: bytes) -> list[Line]:
        lines: list[Line] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._add(data[start:end])
            lines.append(self._finish())
            start = end + 1
        self._add(data[start:])
        return lines

    def _add(self, piece: bytes) -> None:
        if not piece:
            return
        self._size += len(piece)
        if self._head is None and self._size <= self._limit:
            self._chunks.append(piece)
            return
        if self._head is None:
            joined = b"".join(self._chunks)
            self._head, self._tail = joined[:ENDS_BYTES], joined[-ENDS_BYTES:]
            self._chunks.clear()
        self._head += piece[: ENDS_BYTES - len(self._head)]
        self._tail = (self._tail + piece)[-ENDS_BYTES:]

    def _finish(self) -> Line:
        line = b"".join(self._chunks) if self._head is None else TooLong(self._head, self._tail)
        self._chunks.clear()
        self._size, self._head, self._tail = 0, None, b""
        return line


def _path_of(command: str, search: str | None, cwd: str | None) -> str:
    if cwd is not None and not Path(cwd).is_dir():
        raise FileNotFoundError(f"there is no directory {cwd!r}")
    # A path with a directory is seen from the child's directory, as a shell would see it.
    sought = str(Path(cwd, command)) if cwd is not None and Path(command).name != command else command
    found = shutil.which(sought, path=search)
    if found is None:
        raise FileNotFoundError(f"there is no command {command!r}")
    return str(Path(found).absolute())


class ChildProcess(asyncio.SubprocessProtocol):
    """A running child. Made by ``start``; whoever made it closes it."""

    def __init__(self, name: str, max_line_bytes: int, hide: Hide = str) -> None:
        self.name = name
        self._hide = hide
        self.ended = asyncio.Event()
        self._splitter = _Splitter(max_line_bytes)
        self._lines: deque[Line] = deque()
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._exited = asyncio.Event()
        self._paused = False
        self._stderr = bytearray()
        self._stderr_splitter = _Splitter(_STDERR_LINE_BYTES)
        self._stdin_lost = False
        self._transport: asyncio.SubprocessTransport | None = None

    @classmethod
    async def start(
        cls,
        name: str,
        command: str,
        args: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None,
        max_line_bytes: int,
        hide: Hide = str,
    ) -> ChildProcess:
        """Start the command. Raises OSError, with FileNotFoundError for a command that ``PATH`` of ``env`` has not.

        ``hide`` takes credentials out of what it writes to stderr.
        On Linux the child is killed when the thread that calls this ends: call it from the thread that lives longest.
        """
        path = _path_of(command, env.get("PATH"), cwd)
        line = [path, *args]
        if sys.platform == "linux":
            line = [sys.executable, "-I", "-S", "-c", _DIES_WITH_US, str(os.getpid()), path, command, *args]
        loop = asyncio.get_running_loop()
        _, protocol = await loop.subprocess_exec(
            lambda: cls(name, max_line_bytes, hide), *line, env=dict(env), cwd=cwd, start_new_session=True
        )
        return protocol

    # --- callbacks of the event loop ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Part of asyncio's protocol."""
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Part of asyncio's protocol."""
        if fd == 2:
            self._stderr += data
            del self._stderr[:-STDERR_TAIL_BYTES]
            self._log_stderr(data)
            return
        self._lines.extend(self._splitter.feed(data))
        if self._lines:
            self._readable.set()
        if not self._paused and len(self._lines) > _PAUSE_ABOVE:
            self._paused = True
            self._stdout().pause_reading()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's signature
        """Part of asyncio's protocol."""
        if fd == 1:
            self._end()
        elif fd == 2:
            self._log_stderr(b"\n")  # a last line without an end
        elif fd == 0:
            self._stdin_lost = True
            self._writable.set()

    def pause_writing(self) -> None:
        """Part of asyncio's protocol."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Part of asyncio's protocol."""
        self._writable.set()

    def process_exited(self) -> None:
        """Part of asyncio's protocol."""
        self._exited.set()
        asyncio.get_running_loop().call_later(_EXIT_TO_EOF, self._end)

    # --- for the owner -----------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """Of the child, which is also the id of its process group."""
        return self._started().get_pid()

    @property
    def returncode(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._started().get_returncode()

    @property
    def last_words(self) -> str:
        """The last line that it wrote to stderr, for an operator, without what looks like a credential."""
        lines = self._stderr.decode("utf-8", "replace").strip().splitlines()
        # Redacted before it is cut: half a credential does not look like one.
        return redact(self._hide(lines[-1].strip()), STDERR_TAIL_BYTES)[-300:] if lines else ""

    async def receive(self) -> Line | None:
        """The next line without its end, or None after the last one."""
        while not self._lines:
            if self.ended.is_set():
                return None
            self._readable.clear()
            await self._readable.wait()
        line = self._lines.popleft()
        if self._paused and len(self._lines) < _PAUSE_ABOVE // 4:
            self._paused = False
            self._stdout().resume_reading()
        return line

    async def send(self, line: bytes, *, wait: bool = True) -> None:
        """Write one line. Raises BrokenPipeError when it can never be read; waits while the pipe is full.

        Without ``wait`` a line to a child that reads nothing is dropped: it may ask without end, and is not answered.
        """
        if wait and not self._writable.is_set():
            await self._writable.wait()
        stdin = cast("asyncio.WriteTransport | None", self._started().get_pipe_transport(0))
        if self._stdin_lost or self.ended.is_set() or stdin is None or stdin.is_closing():
            raise BrokenPipeError(f"{self.name} does not read any more")
        if wait or stdin.get_write_buffer_size() < _MAX_UNREAD:
            stdin.write(line + b"\n")

    async def aclose(self, grace: float) -> None:
        """End it: close its stdin, then SIGTERM, then SIGKILL, each with ``grace`` seconds; then its process group."""
        transport = self._started()
        stdin = transport.get_pipe_transport(0)
        if stdin is not None:
            stdin.close()
        if not await self.exits(grace):
            self._signal_group(signal.SIGTERM)
            if not await self.exits(grace):
                self._signal_group(signal.SIGKILL)
                if not await self.exits(grace):
                    _LOG.warning("process %d of %s cannot be killed", self.pid, self.name)
        await self._end_group()
        self._end()
        with contextlib.suppress(PermissionError, ProcessLookupError):
            transport.close()

    async def exits(self, within: float) -> bool:
        """Whether the child has ended, waiting at most ``within`` seconds for it."""
        with anyio.move_on_after(within):
            await self._exited.wait()
        return self._exited.is_set()

    async def _end_group(self) -> None:
        """What the child started and left behind: asked once, then killed."""
        if not self._signal_group(signal.SIGTERM):
            return
        for _ in range(_GROUP_POLLS):
            await anyio.sleep(_POLL)  # a group tells nobody when it ends
            if not self._signal_group(0):
                return
        self._signal_group(signal.SIGKILL)

    def _signal_group(self, number: int) -> bool:
        """Whether there was a process in the group to be signalled."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            return number != 0  # only zombies are left, or a process that has become somebody else's
        return True

    def _log_stderr(self, data: bytes) -> None:
        """Whole lines, since a credential may come in two reads; of a long one its beginning."""
        if not _LOG.isEnabledFor(logging.DEBUG):
            return
        for line in self._stderr_splitter.feed(data):
            text = line if isinstance(line, bytes) else line.head + b"..."
            if text:
                _LOG.debug("%s stderr: %s", self.name, redact(self._hide(text.decode("utf-8", "replace").rstrip())))

    def _end(self) -> None:
        self.ended.set()
        self._readable.set()
        self._writable.set()

    def _started(self) -> asyncio.SubprocessTransport:
        assert self._transport is not None, "connection_made comes before start returns"
        return self._transport

    def _stdout(self) -> asyncio.ReadTransport:
        return cast("asyncio.ReadTransport", self._started().get_pipe_transport(1))
