"""Child processes of a benchmark: each says one line when it is ready and ends when its standard input does.

``Child`` is the parent's side, the two functions the child's. A child whose parent dies sees the end of its input.
"""

from __future__ import annotations

import asyncio
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
END_SECONDS = 15.0
START_SECONDS = 90.0


class ChildFailure(Exception):
    """A child that did not say what it had to, with the end of what it wrote to standard error."""


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The caller's environment without what would change a measurement: proxies, telemetry, our own settings."""
    mine = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OTEL_", "TURNWIRE_")) and not name.lower().endswith("_proxy")
    }
    paths = [ROOT, ROOT / "service", ROOT / "clients" / "python", ROOT / "tests"]
    mine["PYTHONPATH"] = os.pathsep.join(str(path) for path in paths)
    return {**mine, **(extra or {})}


class Child:
    """A process started by the benchmark, spoken to line by line. Every wait is bounded."""

    def __init__(
        self, arguments: Sequence[str], log: Path, *, environ: Mapping[str, str] | None = None, cwd: Path = ROOT
    ) -> None:
        """``arguments`` follow the interpreter. Standard error goes to ``log``."""
        self.name = log.stem
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(  # noqa: S603 - our own programs
                [sys.executable, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=cwd,
                env=environment(environ),
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._unread = b""

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def send(self, line: bytes) -> None:
        """Write one line."""
        self._stdin.write(line + b"\n")
        self._stdin.flush()

    def receive(self, seconds: float = START_SECONDS) -> bytes:
        """The next line. Raises ChildFailure when none comes."""
        end = time.monotonic() + seconds
        while b"\n" not in self._unread:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._stdout], [], [], left)[0]:
                raise ChildFailure(f"{self.name} said nothing for {seconds:.0f} s{self._last_words()}")
            data = os.read(self._stdout.fileno(), 1 << 16)
            if not data:
                raise ChildFailure(f"{self.name} ended{self._last_words()}")
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _last_words(self) -> str:
        text = self._log.read_text(encoding="utf-8", errors="replace")[-2000:].strip()
        return f"; it wrote:\n{text}" if text else ""

    def close_input(self) -> None:
        """Let it see the end of its input."""
        self._stdin.close()

    def end(self, *, terminate: bool = False) -> None:
        """Let it end: by the end of its input, or by SIGTERM. Killed when it does not."""
        if terminate:
            self._process.terminate()
        self._stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(END_SECONDS)
        finally:
            self._stdout.close()


def announce(port: int) -> None:
    """Say the port that the child listens on."""
    sys.stdout.write(f"port {port}\n")
    sys.stdout.flush()


def port_of(child: Child) -> int:
    """The port that the child announces."""
    word, _, number = child.receive().partition(b" ")
    if word != b"port":
        raise ChildFailure(f"{child.name} said {word!r} instead of its port")
    return int(number)


async def until_stdin_ends() -> None:
    """Return at the end of standard input."""
    ended = asyncio.Event()

    class Reader(asyncio.Protocol):
        def connection_lost(self, exc: Exception | None) -> None:
            ended.set()

        def eof_received(self) -> None:
            ended.set()

    await asyncio.get_running_loop().connect_read_pipe(Reader, sys.stdin)
    await ended.wait()
