"""Owns the child process that serves a model: starts it when first needed, sees its death, ends it. Knows no wire."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import anyio

from turnwired.domain.failure import Reason
from turnwired.providers.errors import provider_failure
from turnwired.providers.local.server import READY

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 3.0
_KEPT_LINES: Final = 5
_READ_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the child listens, such as ``http://127.0.0.1:35739``, and the key that it asks for."""

    url: str
    key: str


class ModelServer:
    """One child process at a time, shared by all calls. Used on one event loop."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        origin: str,
        start_seconds: float = START_SECONDS,
        stop_seconds: float = STOP_SECONDS,
    ) -> None:
        """``command``: a program that keeps to the protocol of ``server.py``. ``origin``: how failures name it."""
        self._command = tuple(command)
        self._origin = origin
        self._start_seconds = start_seconds
        self._stop_seconds = stop_seconds
        self._starting: asyncio.Task[_Child] | None = None
        self._closed = False

    async def endpoint(self) -> Endpoint:
        """Return where the child listens, started if it is not running. Raises ProviderError when it does not come up.

        All who wait for a start wait for the same one, and none of them can cancel it for the others.
        """
        if self._closed:
            raise provider_failure(Reason.PROVIDER_UNAVAILABLE, "The embedded model was stopped.", origin=self._origin)
        if self._starting is not None and self._starting.done() and not _is_up(self._starting):
            self._starting = None
        if self._starting is None:
            self._starting = asyncio.create_task(self._start(), name="start of the embedded model")
        return (await asyncio.shield(self._starting)).endpoint

    async def aclose(self) -> None:
        """End the child: politely, then not. Bounded by twice the stop time."""
        self._closed = True
        starting, self._starting = self._starting, None
        if starting is None:
            return
        starting.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([starting])
            if not starting.cancelled() and starting.exception() is None:
                await starting.result().stop(self._stop_seconds)

    async def _start(self) -> _Child:
        key = secrets.token_urlsafe(24)
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise self._failure(f"its process could not be started ({error.strerror})") from error
        child = _Child(process, key)
        try:
            async with asyncio.timeout(self._start_seconds):
                url = await child.ready()
        except TimeoutError:
            await child.stop(self._stop_seconds)
            raise self._failure(f"it was not ready within {self._start_seconds:g} s") from None
        except asyncio.CancelledError:
            await child.stop(self._stop_seconds)
            raise
        if not url:
            await child.stop(self._stop_seconds)
            raise self._failure(f"its process ended with status {process.returncode}{child.last_words()}")
        child.endpoint = Endpoint(url, key)
        return child

    def _failure(self, why: str) -> Exception:
        message = f"The embedded model could not be started: {why}."
        return provider_failure(Reason.PROVIDER_UNAVAILABLE, message, origin=self._origin)


class _Child:
    """A running process with its pipes. What it prints is read always and kept only in its last lines."""

    def __init__(self, process: asyncio.subprocess.Process, key: str) -> None:
        self.endpoint = Endpoint("", key)
        self._process = process
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._readers = [asyncio.create_task(self._drain(process.stderr), name="stderr of the embedded model")]

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    def last_words(self) -> str:
        """The end of what it printed, as a clause for an error."""
        return f": {self._lines[-1]}" if self._lines else ""

    async def ready(self) -> str:
        """Give it its key and wait for its address; "" when it ends instead."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{self.endpoint.key}\n".encode())
        with suppress(ConnectionError):  # it ended already: the end of its output says so below
            await self._process.stdin.drain()
        while line := await self._process.stdout.readline():
            if line.startswith(READY.encode()):
                self._readers.append(
                    asyncio.create_task(self._drain(self._process.stdout), name="stdout of the embedded model")
                )
                return line.decode().removeprefix(READY).strip()
        await self._process.wait()
        await asyncio.wait(self._readers, timeout=1.0)  # its last words are in the pipe still
        return ""

    async def stop(self, seconds: float) -> None:
        """End it and release its pipes, also when the caller is being cancelled."""
        with anyio.CancelScope(shield=True):
            if self._process.stdin is not None:
                self._process.stdin.close()
            for end in (self._process.terminate, self._process.kill):
                if not self.is_running:
                    break
                with suppress(ProcessLookupError):  # it ended between the look and the signal
                    end()
                with anyio.move_on_after(seconds):
                    await self._process.wait()
            for reader in self._readers:
                reader.cancel()
            await asyncio.wait(self._readers)

    async def _drain(self, stream: asyncio.StreamReader | None) -> None:
        assert stream is not None
        rest = b""
        while data := await stream.read(_READ_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            rest = rest[-_READ_BYTES:]
            self._lines.extend(text for line in lines if (text := line.decode(errors="replace").strip()[:300]))
        if text := rest.decode(errors="replace").strip()[:300]:
            self._lines.append(text)


def _is_up(starting: asyncio.Task[_Child]) -> bool:
    return not starting.cancelled() and starting.exception() is None and starting.result().is_running
