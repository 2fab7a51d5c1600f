"""How it is learned what a gRPC service has: reflection, descriptor sets, other releases, nonsense, thousands."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from grpc_reflection.v1alpha.reflection_pb2 import (
    FileDescriptorResponse,
    ServerReflectionRequest,
    ServerReflectionResponse,
)
from tools.grpc_kit import (
    FOREVER,
    SERVICE,
    V1,
    V1ALPHA,
    Reflection,
    Server,
    answering,
    call_of,
    changed,
    compiled,
    data_of,
    failure_of,
    names,
    shop,
    shop_server,
    toolset_of,
    until,
    up,
    words_of_output,
)

from turnwired.domain.failure import Reason
from turnwired.domain.run import Caller
from turnwired.domain.tool import ToolSelection
from turnwired.tools.grpc import connection
from turnwired.tools.grpc.descriptors import link
from turnwired.tools.grpc.reflection import describe
from turnwired.tools.registry import Registry, Source

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("GRPC-8")
@pytest.mark.parametrize("versions", [(V1,), (V1ALPHA,), (V1, V1ALPHA)])
async def test_reflection_is_asked_in_v1_or_else_in_v1alpha(versions: tuple[str, ...]) -> None:
    server = answering()
    server.versions = versions
    async with up(server), toolset_of(server.address) as toolset:
        assert "get_product" in await names(toolset)
        assert toolset.failure is None


@pytest.mark.requirement("GRPC-8", "GRPC-7")
async def test_imported_files_are_asked_for_and_comments_are_kept() -> None:
    text = """syntax = "proto3"; package a; message M {}
    service S {
      // Does it.
      rpc Do(M) returns (M);
    }"""
    (first,) = compiled(text).file
    needed = FileDescriptorProto(name="b.proto", package="b", syntax="proto3", dependency=["c.proto"])
    needed.message_type.add(name="B").field.add(name="c", number=1, label=1, type=11, type_name=".c.C")
    last = FileDescriptorProto(name="c.proto", package="c", syntax="proto3")
    last.message_type.add(name="C")
    first.dependency.append("b.proto")
    first.message_type[0].field.add(name="b", number=1, label=1, type=11, type_name=".b.B")
    server = Server(Reflection([first, needed, last], ["a.S"]))
    async with up(server), toolset_of(server.address) as toolset:
        (tool,) = await toolset.tools()
    assert tool.description == "Does it."
    assert '"b":{"type":"object","properties":{"c":' in tool.input_schema_json
    assert server.reflection is not None
    assert server.reflection.asked == ["*", "a.S", "b.proto", "c.proto"]


@pytest.mark.requirement("GRPC-8")
async def test_a_service_that_came_with_anothers_file_is_not_asked_for_again() -> None:
    server = answering(SERVICE, "shop.v1.StockService")
    async with up(server), toolset_of(server.address) as toolset:
        assert "stock_service_get_product" in await names(toolset)
    assert server.reflection is not None
    assert server.reflection.asked == ["*", SERVICE, "google/api/field_behavior.proto"]


@pytest.mark.requirement("GRPC-8", "GRPC-29")
@pytest.mark.parametrize(
    ("services", "asked"),
    [([], ["shop.v1.ProductService"]), (["shop.v1.Stock*"], ["shop.v1.StockService"]), (["none.*"], [])],
)
async def test_only_services_that_are_wanted_are_asked_for(services: list[str], asked: list[str]) -> None:
    server = answering(SERVICE, V1, "grpc.health.v1.Health", *(["shop.v1.StockService"] if services else []))
    async with up(server), toolset_of(server.address, services=services) as toolset:
        assert bool(await names(toolset)) is bool(asked)
        assert bool(toolset.left_out) is (asked != ["shop.v1.StockService"])
    assert server.reflection is not None
    assert [name for name in server.reflection.asked if "/" not in name] == ["*", *asked]


@pytest.mark.requirement("GRPC-8", "GRPC-25")
async def test_a_server_without_reflection_says_so() -> None:
    server = answering()
    server.reflection = None
    async with up(server), toolset_of(server.address) as toolset:
        assert await names(toolset) == []
        assert toolset.failure is not None
        assert toolset.failure.message == (
            "gRPC service 'shop': it offers no server reflection; switch it on there or set descriptor_set"
        )


@pytest.mark.requirement("GRPC-9")
async def test_a_descriptor_set_stands_in_for_reflection_and_needs_no_server(tmp_path: Path) -> None:
    file = tmp_path / "shop.binpb"
    file.write_bytes(shop().SerializeToString())
    server = answering()
    server.reflection = None
    await server.start()
    async with toolset_of(server.address, descriptor_set=str(file), services=[SERVICE]) as toolset:
        await server.stop()
        assert "get_product" in await names(toolset)
        assert "product_service_get_product" not in await names(toolset)
        assert toolset.failure is None
        failure = await failure_of(toolset, "create_product", {"name": "x"})
        assert failure.reason is Reason.TOOL_SOURCE_UNAVAILABLE
        async with up(Server(handlers=server.handlers)) as other:
            await other.stop()
            await other.start(server.port)
            assert data_of(await toolset.call(call_of("create_product", {"name": "x"})))["name"] == "x"


@pytest.mark.requirement("GRPC-9")
@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "cannot be read: no such file or directory"), (b"\xff\xff", "is no FileDescriptorSet")],
)
async def test_a_descriptor_set_that_is_none_is_told(tmp_path: Path, content: bytes | None, words: str) -> None:
    file = tmp_path / "set.binpb"
    if content is not None:
        file.write_bytes(content)
    async with toolset_of("127.0.0.1:1", descriptor_set=str(file)) as toolset:
        assert toolset.failure is not None
        assert toolset.failure.message == f"gRPC service 'shop': descriptor_set {file} {words}"


@pytest.mark.requirement("GRPC-10")
async def test_a_service_that_the_server_lists_and_does_not_describe_is_left_out_alone() -> None:
    server = answering()
    assert server.reflection is not None
    server.reflection.gone = ["ghost.v1.Ghost"]
    async with up(server), toolset_of(server.address) as toolset:
        assert "get_product" in await names(toolset)
        assert toolset.failure is None
        assert toolset.left_out[0].message == (
            "'ghost.v1.Ghost' of 'shop' is left out: the server lists it and does not describe it"
        )
        assert toolset.left_out[0].reason is Reason.TOOL_QUARANTINED


def nothing(_: ServerReflectionRequest) -> ServerReflectionResponse | None:
    """An answer to no question."""
    return ServerReflectionResponse()


def garbage(request: ServerReflectionRequest) -> ServerReflectionResponse | None:
    """Files that are none."""
    if request.list_services:
        return None
    bad = [b"\xff\xff", b"\x0a\x02\xff\xfe", b""]
    return ServerReflectionResponse(file_descriptor_response=FileDescriptorResponse(file_descriptor_proto=bad))


def huge(request: ServerReflectionRequest) -> ServerReflectionResponse | None:
    """More than anybody wants to read."""
    if request.list_services:
        return None
    data = [FileDescriptorProto(name="x" * (5 << 20)).SerializeToString()]
    return ServerReflectionResponse(file_descriptor_response=FileDescriptorResponse(file_descriptor_proto=data))


def endless(request: ServerReflectionRequest) -> ServerReflectionResponse | None:
    """Each file needs another."""
    if request.list_services:
        return None
    number = int(request.file_by_filename or 0)
    data = [FileDescriptorProto(name=str(number), dependency=[str(number + 1)]).SerializeToString()]
    return ServerReflectionResponse(file_descriptor_response=FileDescriptorResponse(file_descriptor_proto=data))


@pytest.mark.requirement("GRPC-25")
@pytest.mark.parametrize("broken", [nothing, garbage, huge, endless])
async def test_a_server_that_says_nonsense_of_itself_is_told_of_and_bounded(broken: Any) -> None:
    server = answering()
    assert server.reflection is not None
    server.reflection.broken = broken
    async with up(server), toolset_of(server.address, discovery_timeout=2.0) as toolset:
        assert await names(toolset) == []
        assert toolset.failure is not None or toolset.left_out


@pytest.mark.requirement("GRPC-25")
async def test_a_reflection_that_hangs_is_given_up_and_says_so() -> None:
    server = answering()

    async def hang(requests: Any, context: Any) -> AsyncIterator[bytes]:
        await asyncio.sleep(FOREVER)
        yield b""

    assert server.reflection is not None
    server.reflection.handle = hang  # type: ignore[method-assign]  # a server that is another
    async with up(server), toolset_of(server.address, discovery_timeout=0.3) as toolset:
        assert toolset.failure is not None
        assert toolset.failure.message == "gRPC service 'shop': did not say what it has within 0.3 s"


@pytest.mark.requirement("GRPC-26")
async def test_a_service_that_comes_back_as_another_release_has_that_releases_tools() -> None:
    server = answering()
    await server.start()
    async with toolset_of(server.address) as toolset:
        before = await names(toolset)
        await server.stop()
        newer = answering(SERVICE, "shop.v1.StockService")
        await newer.start(server.port)
        await until(lambda: newer.reflection is not None and "*" in newer.reflection.asked)
        await until(lambda: toolset.failure is None)
        await changed(toolset, before)
        assert "stock_service_get_product" in await names(toolset)
        await newer.stop()


@pytest.mark.requirement("GRPC-26")
async def test_a_service_that_was_down_at_the_start_is_found_when_it_is_up() -> None:
    server = answering()
    await server.start()
    await server.stop()
    async with toolset_of(server.address) as toolset:
        assert toolset.failure is not None
        assert await names(toolset) == []
        await server.start(server.port)
        await until(lambda: toolset.failure is None, 20)
        assert "get_product" in await names(toolset)
        await server.stop()


@pytest.mark.requirement("GRPC-26")
async def test_a_question_that_grpc_itself_breaks_off_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    server = answering()
    asked: list[str] = []

    async def broken_off(*arguments: Any) -> Any:
        asked.append("once")
        if len(asked) == 1:
            raise asyncio.CancelledError
        return await describe(*arguments)

    monkeypatch.setattr(connection, "describe", broken_off)
    async with up(server), toolset_of(server.address) as toolset:
        await until(lambda: toolset.failure is None)
        assert "get_product" in await names(toolset)
    assert len(asked) == 2


@pytest.mark.requirement("GRPC-26", "GRPC-27")
async def test_descriptors_that_are_old_are_read_anew_and_what_is_the_same_stays_the_same_list() -> None:
    server = answering()
    assert server.reflection is not None
    async with up(server), toolset_of(server.address, refresh_interval=0.05) as toolset:
        first = await toolset.tools()
        asked = len(server.reflection.asked)
        await asyncio.sleep(0.06)
        assert await toolset.tools() is first
        await until(lambda: server.reflection is not None and len(server.reflection.asked) >= 2 * asked)
        assert await toolset.tools() is first
        server.reflection.services = [SERVICE, "shop.v1.StockService"]
        await changed(toolset, await names(toolset))
        assert "get_http_route" in await names(toolset)


@pytest.mark.requirement("GRPC-26")
async def test_a_method_that_the_server_no_longer_has_is_asked_about() -> None:
    server = shop_server()
    assert server.reflection is not None
    async with up(server), toolset_of(server.address) as toolset:
        before = len(server.reflection.asked)
        output = await toolset.call(call_of("create_product"))
        assert output.failure is not None
        assert output.failure.reason is Reason.TOOL_NOT_FOUND
        await until(lambda: server.reflection is not None and len(server.reflection.asked) > before)


@pytest.mark.requirement("GRPC-28")
async def test_thousands_of_methods_are_listed_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    methods = "\n".join(f"rpc Do{n}(M{n % 50}) returns (M{n % 50});" for n in range(3000))
    messages = "\n".join(f"message M{n} {{ string a = 1; int64 b = 2; M{(n + 1) % 50} c = 3; }}" for n in range(50))
    files = compiled(f'syntax = "proto3"; package big; {messages} service S {{ {methods} }}')
    server = Server(Reflection(list(files.file), ["big.S"]))
    threads: list[int] = []

    def link_here(files: Any) -> Any:
        threads.append(threading.get_ident())
        return link(files)

    monkeypatch.setattr(connection, "link", link_here)
    async with up(server), toolset_of(server.address) as toolset:
        assert len(await toolset.tools()) == 3000
        registry = Registry([Source(toolset, "big")])
        view = await registry.view(ToolSelection(), Caller())
        assert len(view.tools) == 3000
        assert not view.failures
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.requirement("GRPC-29")
async def test_a_service_that_nobody_wrote_tools_for_is_called_through_the_real_reflection() -> None:
    servicer = health.aio.HealthServicer()
    server = grpc.aio.server()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    reflection.enable_server_reflection((health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    await servicer.set("shop", health_pb2.HealthCheckResponse.NOT_SERVING)
    try:
        async with toolset_of(f"127.0.0.1:{port}", services=["grpc.*"], stream_timeout=0.3) as toolset:
            assert {"check", "watch"} <= set(await names(toolset))
            assert data_of(await toolset.call(call_of("check", {"service": "shop"}))) == {"status": "NOT_SERVING"}
            missing = await toolset.call(call_of("check", {"service": "none"}))
            assert words_of_output(missing).startswith("NOT_FOUND")
            watched = data_of(await toolset.call(call_of("watch", {"service": "shop"})))
            assert watched["messages"] == [{"status": "NOT_SERVING"}]
            assert not watched["complete"]
            told = [failure.message for failure in toolset.left_out]
            assert any("ServerReflectionInfo" in words and "stream of requests" in words for words in told)
    finally:
        await server.stop(None)


@pytest.mark.requirement("GRPC-29")
async def test_channelz_is_called_through_its_own_descriptors() -> None:
    text = """syntax = "proto3"; package grpc.channelz.v1;
    service Channelz { rpc GetServers(GetServersRequest) returns (GetServersResponse); }
    message GetServersRequest { int64 start_server_id = 1; int64 max_results = 2; }
    message GetServersResponse { repeated Server server = 1; bool end = 2; }
    message Server { ServerRef ref = 1; } message ServerRef { int64 server_id = 5; string name = 6; }"""
    files: FileDescriptorSet = compiled(text, "channelz.proto")
    server = Server(Reflection(list(files.file), ["grpc.channelz.v1.Channelz"]))

    async def servers(data: bytes, context: Any) -> bytes:
        return b"\x0a\x06\x0a\x04\x28\x07\x32\x00\x10\x01"

    server.handlers["grpc.channelz.v1.Channelz/GetServers"] = grpc.unary_unary_rpc_method_handler(servers)
    async with up(server), toolset_of(server.address, services=["grpc.channelz.v1.Channelz"]) as toolset:
        answer = data_of(await toolset.call(call_of("get_servers", {"maxResults": "5"})))
    assert answer["end"] is True
    assert answer["server"][0]["ref"]["serverId"] == "7"
