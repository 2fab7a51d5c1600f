"""``follow`` and ``afollow``: the events of a run, across cut connections, until it has ended.

They make the calls; what a frame or an end means is decided in ``cursor``.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Protocol

import grpc

from turnwire.cursor import Reader, Resume, StreamLost, Update
from turnwire.v1.turn_service_pb2 import RunTurnRequest, WatchRunRequest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator

    from turnwire.v1.turn_service_pb2 import RunTurnResponse, WatchRunResponse
    from turnwire.v1.turn_service_pb2_grpc import TurnServiceAsyncStub, TurnServiceStub

__all__ = ["Resume", "StreamLost", "Update", "afollow", "follow"]

Metadata = tuple[tuple[str, str | bytes], ...]
DEFAULT = Resume()


class _Stream(Protocol):
    """A blocking response stream: frames, and a way to stop them."""

    def __iter__(self) -> Iterator[RunTurnResponse | WatchRunResponse]: ...

    def cancel(self) -> object: ...


async def afollow(
    stub: TurnServiceAsyncStub,
    request: RunTurnRequest | WatchRunRequest,
    *,
    metadata: Metadata | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - the deadline of the RPC, which the server is told of
    resume: Resume = DEFAULT,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncGenerator[Update, None]:
    """Runs a turn or watches a run, and yields what happens until RunFinished (or RunWaiting with ON_WAIT_CLOSE).

    A cut stream is taken up again where it stopped, by WatchRun once the run is known. A turn without a request_id
    gets one, so that this is safe. ``timeout`` is in seconds over all calls; it is the deadline of the call, which
    RunTurn takes as a limit of the run. Leaving the iteration early cancels the call: use ``contextlib.aclosing`` to do
    so at once.

    Raises StreamLost after ``resume.attempts`` calls in a row that brought nothing, and grpc.aio.AioRpcError for an
    error that the server itself gave.
    """
    reader = Reader(request, resume)
    deadline = None if timeout is None else clock() + timeout
    while True:
        left = None if deadline is None else max(deadline - clock(), 0.0)
        call = _acall(stub, reader.request(), metadata, left)
        delay: float | None
        try:
            async for frame in call:
                update = reader.apply(frame)
                if update is not None:
                    yield update
                if reader.finished:
                    return
            delay = reader.cut()
        except grpc.aio.AioRpcError as error:
            delay = reader.failed(error)
        finally:
            call.cancel()
        if delay is None:
            return
        await sleep(delay)


def follow(
    stub: TurnServiceStub,
    request: RunTurnRequest | WatchRunRequest,
    *,
    metadata: Metadata | None = None,
    timeout: float | None = None,
    resume: Resume = DEFAULT,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Generator[Update, None, None]:
    """``afollow`` for blocking code. Raises StreamLost and grpc.RpcError; closing the iterator cancels the call."""
    reader = Reader(request, resume)
    deadline = None if timeout is None else clock() + timeout
    while True:
        left = None if deadline is None else max(deadline - clock(), 0.0)
        call = _call(stub, reader.request(), metadata, left)
        delay: float | None
        try:
            for frame in call:
                update = reader.apply(frame)
                if update is not None:
                    yield update
                if reader.finished:
                    return
            delay = reader.cut()
        except grpc.RpcError as error:
            delay = reader.failed(error)
        finally:
            call.cancel()
        if delay is None:
            return
        sleep(delay)


def _acall(
    stub: TurnServiceAsyncStub,
    request: RunTurnRequest | WatchRunRequest,
    metadata: Metadata | None,
    timeout: float | None,
) -> (
    grpc.aio.UnaryStreamCall[RunTurnRequest, RunTurnResponse]
    | grpc.aio.UnaryStreamCall[WatchRunRequest, WatchRunResponse]
):
    if isinstance(request, RunTurnRequest):
        return stub.RunTurn(request, metadata=metadata, timeout=timeout)
    return stub.WatchRun(request, metadata=metadata, timeout=timeout)


def _call(
    stub: TurnServiceStub,
    request: RunTurnRequest | WatchRunRequest,
    metadata: Metadata | None,
    timeout: float | None,
) -> _Stream:
    if isinstance(request, RunTurnRequest):
        return stub.RunTurn(request, metadata=metadata, timeout=timeout)
    return stub.WatchRun(request, metadata=metadata, timeout=timeout)
