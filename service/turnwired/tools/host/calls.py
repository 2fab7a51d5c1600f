"""One call of an app's tool: progress handed on, one result, and what it means that there is none.

Knows frames, not tools. Run it in a task of its own: gRPC answers a cancellation with another of its own.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import anyio
import grpc.aio

from turnwired.codec.tool_host import CALL_TOOL, decode_frame
from turnwired.domain.errors import CodecError
from turnwired.domain.tool_host import HostedProgress, HostedResult
from turnwired.tools.grpc.calls import Answer, Lost, TooLong, ended
from turnwired.tools.grpc.line import Line
from turnwired.tools.grpc.peer import Metadata
from turnwired.tools.port import ProgressReporter

_END_SECONDS: Final = 0.5
"""How long an app may take to end the stream behind the result, before that is cancelled."""


@dataclass(frozen=True, slots=True)
class NoResult:
    """What came was no result, or nothing came: ``why``, as what follows the name of the tool."""

    why: str


@dataclass(frozen=True, slots=True)
class HostCall:
    """A call that is ready to be sent. ``timeout`` in seconds; ``most``: bytes of one frame."""

    line: Line
    request: bytes
    metadata: Metadata
    timeout: float | None
    most: int
    on_progress: ProgressReporter | None

    async def result(self) -> HostedResult | NoResult | Answer:
        """Send it, and read to the result."""
        before = self.line.losses.count
        method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self.line.channel.unary_stream(CALL_TOOL)
        call = method(self.request, timeout=self.timeout, metadata=self.metadata)
        try:
            found = await self._read(call)
            if isinstance(found, HostedResult):
                await _end(call)
            return found
        except grpc.aio.AioRpcError as error:
            return await ended(self.line, before, error, ())
        except asyncio.CancelledError:
            return Lost()  # the channel was closed, or nobody hears this
        finally:
            call.cancel()

    async def _read(self, call: grpc.aio.UnaryStreamCall[bytes, bytes]) -> HostedResult | NoResult | TooLong:
        while isinstance(message := await call.read(), bytes):
            if len(message) > self.most:
                return TooLong()
            try:
                frame = decode_frame(message)
            except CodecError as error:
                return NoResult(f"gave what is no result: {error}")
            if isinstance(frame, HostedResult):
                return frame
            if isinstance(frame, HostedProgress) and self.on_progress is not None:
                self.on_progress(frame.done, frame.total, frame.message)
        return NoResult("ended without a result")


async def _end(call: grpc.aio.UnaryStreamCall[bytes, bytes]) -> None:
    """Let the app end in peace: what it says now changes nothing."""
    with anyio.move_on_after(_END_SECONDS), suppress(grpc.aio.AioRpcError):
        await call.read()
