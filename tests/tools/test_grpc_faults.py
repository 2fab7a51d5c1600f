"""Calls of gRPC services that are not there, go away, or are no such services."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import pytest
from tools.grpc_kit import (
    FOREVER,
    SERVICE,
    Server,
    answering,
    call_of,
    data_of,
    failure_of,
    shop_server,
    toolset_of,
    up,
)
from tools.kit import listening, mute

from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Reason
from turnwired.domain.message import ToolResultStatus
from turnwired.domain.run import Caller
from turnwired.domain.tool import ToolSelection
from turnwired.tools.grpc.config import GrpcService
from turnwired.tools.grpc.toolset import GrpcToolset
from turnwired.tools.registry import Registry, Source

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("GRPC-18")
async def test_a_call_that_could_not_be_sent_was_not_executed_and_is_over_in_seconds() -> None:
    server = answering()
    await server.start()
    async with toolset_of(server.address) as toolset:
        await server.stop()
        assert await toolset._connection.peer.losses.more_than(0, 10), "it still has its server"
        registry = Registry([Source(toolset)])
        view = await registry.view(ToolSelection(), Caller())
        since = time.monotonic()
        result = await view.execute("create_product", call_of("create_product", {"name": "x"}, timeout=30), None)
    assert time.monotonic() - since < 20, "not the 30 s of the call"
    assert result.status is ToolResultStatus.NOT_EXECUTED
    assert result.failure is not None
    assert result.failure.reason is Reason.TOOL_SOURCE_UNAVAILABLE
    assert result.failure.retryable
    assert "the call was not sent" in result.failure.message


@asynccontextmanager
async def dying(method: str) -> AsyncIterator[tuple[Server, list[str]]]:
    """A server that cuts every connection during the first call of a method, and is up again at once."""
    server = answering()
    calls: list[str] = []
    restarts: list[asyncio.Task[None]] = []

    async def restart() -> None:
        await server.stop()
        await server.start(server.port)

    async def die(request: Any, context: Any) -> Any:
        calls.append(request.name)
        if len(calls) == 1:
            restarts.append(asyncio.create_task(restart()))
            await asyncio.sleep(FOREVER)
        return {"name": request.name}

    server.add(f"{SERVICE}/{method}", die)
    await server.start()
    try:
        yield server, calls
    finally:
        await asyncio.gather(*restarts)
        await server.stop()


@pytest.mark.requirement("GRPC-19")
@pytest.mark.parametrize("known", [True, False], ids=["its words are known", "its words are new"])
async def test_a_connection_that_is_reset_during_a_call_is_told_from_an_answer(
    known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = answering()
    begun = asyncio.Event()

    async def hang(request: Any, context: Any) -> Any:
        begun.set()
        await asyncio.sleep(FOREVER)

    server.add(f"{SERVICE}/CreateProduct", hang)
    if not known:
        monkeypatch.setattr("turnwired.tools.grpc.calls._WORDS_OF_CONNECTIONS", ())
        monkeypatch.setattr("turnwired.tools.grpc.calls._LOSS_SECONDS", 8)
    pipes: list[asyncio.StreamWriter] = []

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", server.port)
        except OSError:  # the channel comes back after the server is gone
            writer.transport.abort()
            return
        pipes.extend((writer, back))
        pumps = [asyncio.create_task(pump(reader, back)), asyncio.create_task(pump(there, writer))]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for end in (writer, back):
            end.transport.abort()
        await asyncio.wait(pumps)

    async with up(server), listening(pass_on) as address, toolset_of(address) as toolset:
        call = asyncio.create_task(failure_of(toolset, "create_product", {"name": "x"}))
        async with asyncio.timeout(10):
            await begun.wait()
            for end in pipes:
                end.transport.abort()
            assert (await call).reason is Reason.TOOL_OUTCOME_UNKNOWN


@pytest.mark.requirement("GRPC-19")
async def test_a_call_that_was_lost_has_an_unknown_outcome_and_is_not_made_again() -> None:
    async with dying("CreateProduct") as (server, calls), toolset_of(server.address) as toolset:
        failure = await failure_of(toolset, "create_product", {"name": "x"})
        assert failure.reason is Reason.TOOL_OUTCOME_UNKNOWN
        assert failure.message == (
            "gRPC service 'shop': the connection was lost during the call; it may have been executed"
        )
        assert data_of(await toolset.call(call_of("create_product", {"name": "y"})))["name"] == "y"
        assert calls == ["x", "y"]


@pytest.mark.requirement("GRPC-19")
async def test_a_read_that_was_lost_is_made_once_more() -> None:
    async with dying("GetProduct") as (server, calls), toolset_of(server.address) as toolset:
        assert data_of(await toolset.call(call_of("get_product", {"name": "x"})))["name"] == "x"
        assert calls == ["x", "x"]


@pytest.mark.requirement("GRPC-19")
async def test_a_repeatable_call_that_was_lost_and_cannot_be_made_again_has_an_unknown_outcome() -> None:
    server = shop_server()
    begun = asyncio.Event()

    async def hang(request: Any, context: Any) -> Any:
        begun.set()
        await asyncio.sleep(FOREVER)

    server.add(f"{SERVICE}/ReplaceLabels", hang)
    async with up(server), toolset_of(server.address) as toolset:
        call = asyncio.create_task(failure_of(toolset, "replace_labels"))
        async with asyncio.timeout(10):
            await begun.wait()
            await server.stop()
            assert (await call).reason is Reason.TOOL_OUTCOME_UNKNOWN


@pytest.mark.requirement("GRPC-19")
async def test_a_server_that_repeats_grpcs_own_words_is_not_believed_that_nothing_was_sent() -> None:
    server = shop_server()
    calls: list[str] = []

    async def abort(request: Any, context: Any) -> Any:
        calls.append(request.name)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses; last error: refused")

    server.add(f"{SERVICE}/CreateProduct", abort)
    async with up(server), toolset_of(server.address) as toolset:
        output = await toolset.call(call_of("create_product", {"name": "x"}))
    assert output.failure is not None
    assert output.failure.retryable
    assert "may have taken effect" in output.failure.message
    assert calls == ["x"]


@pytest.mark.requirement("GRPC-19")
async def test_closing_the_source_ends_its_calls_with_an_unknown_outcome() -> None:
    server = shop_server()
    begun = asyncio.Event()

    async def hang(request: Any, context: Any) -> Any:
        begun.set()
        await asyncio.sleep(FOREVER)

    server.add(f"{SERVICE}/CreateProduct", hang)
    async with up(server), toolset_of(server.address) as toolset:
        call = asyncio.create_task(failure_of(toolset, "create_product"))
        async with asyncio.timeout(5):
            await begun.wait()
            await toolset.aclose()
            assert (await call).reason is Reason.TOOL_OUTCOME_UNKNOWN
        assert (await failure_of(toolset, "create_product")).reason is Reason.TOOL_SOURCE_UNAVAILABLE


async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Pass on what comes, until either end is gone."""
    with suppress(OSError, RuntimeError):
        while data := await source.read(65536):
            sink.write(data)


async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Cut the connection as soon as something comes."""
    await reader.read(1)
    writer.transport.abort()


async def http1(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Speak HTTP/1.1."""
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    writer.close()


@pytest.mark.requirement("GRPC-25")
@pytest.mark.parametrize("kind", [mute, reset, http1, None], ids=["mute", "reset", "http1", "nobody"])
async def test_what_is_no_grpc_server_fails_alone_in_bounded_time(kind: Any) -> None:
    server = answering()
    async with up(server), listening(kind or mute) as address:
        broken = GrpcToolset(
            "broken",
            GrpcService(address=address if kind else "127.0.0.1:1", discovery_timeout=1.0),
        )
        good = GrpcToolset("good", GrpcService(address=server.address))
        registry = Registry([Source(broken, "broken"), Source(good, "good")])
        await registry.start()
        since = time.monotonic()
        view = await registry.view(ToolSelection(), Caller())
        assert time.monotonic() - since < 5
        assert "good__get_product" in [tool.ref.routed_name for tool in view.tools]
        told = [failure for failure in view.failures if failure.origin == "broken"]
        assert [failure.reason for failure in told] == [Reason.TOOL_SOURCE_UNAVAILABLE]
        await registry.aclose()


@pytest.mark.requirement("GRPC-25")
async def test_a_required_service_that_cannot_be_used_stops_a_run() -> None:
    toolset = GrpcToolset("shop", GrpcService(address="127.0.0.1:1"))
    registry = Registry([Source(toolset, required=True)])
    await registry.start()
    with pytest.raises(ToolError, match="gRPC service 'shop': UNAVAILABLE"):
        await registry.view(ToolSelection(), Caller())
    await registry.aclose()
