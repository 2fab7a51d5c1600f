"""Calls of methods as tools: what is sent, what comes back, and what errors become."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status
from tools.grpc_kit import SERVICE, Server, call_of, data_of, shop_server, toolset_of, up, words_of_output

from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Failure, Reason
from turnwired.domain.message import ToolResultStatus
from turnwired.domain.run import Caller
from turnwired.domain.tool import ToolSelection
from turnwired.tools.registry import Registry, Source

pytestmark = pytest.mark.anyio

FOREVER = 60.0


def aborting(code: grpc.StatusCode, words: str = "", details: list[Any] | None = None) -> Server:
    """A server whose calls end with a status: reads, creates and updates."""
    server = shop_server()

    async def abort(request: Any, context: Any) -> Any:
        if details is not None:
            packed = []
            for detail in details:
                item = any_pb2.Any()
                item.Pack(detail)
                packed.append(item)
            status = status_pb2.Status(code=code.value[0], message=words, details=packed)
            await context.abort_with_status(rpc_status.to_status(status))
        await context.abort(code, words)

    for method in ("GetProduct", "CreateProduct"):
        server.add(f"{SERVICE}/{method}", abort)
    return server


async def failure_of(toolset: Any, invocation: Any) -> Failure:
    """The failure that a call raises."""
    with pytest.raises(ToolError) as raised:
        await toolset.call(invocation)
    return raised.value.failure


@pytest.mark.requirement("GRPC-12")
async def test_arguments_become_the_message_and_the_answer_protojson() -> None:
    server = shop_server()
    got: list[Any] = []

    async def wrap(request: Any, context: Any) -> Any:
        got.append(request)
        return request

    server.add(f"{SERVICE}/Wrap", wrap)
    sent = {
        "aBool": True,
        "aBytes": base64.b64encode(b"\x00\xff").decode(),
        "aUint64": 2**64 - 1,
        "numbers": ["-9223372036854775808", 5],
        "aTime": "2026-11-30T23:59:59Z",
        "aDuration": "1.500s",
        "aMask": "displayName,partOf.name",
        "aStruct": {"a": [1, None, "x"]},
        "aValue": None,
        "anAny": {"@type": "type.googleapis.com/shop.v1.Price", "number": 5, "text": "x"},
        "aStringValue": "",
        "byNumber": {"-4": {"depth": 1}},
        "product": {"kind": "WEIGHT", "onRequest": "ask"},
        "nothing": {},
    }
    async with up(server), toolset_of(server.address) as toolset:
        answer = data_of(await toolset.call(call_of("wrap", sent)))
    assert got[0].a_bytes == b"\x00\xff"
    assert got[0].a_mask.paths == ["display_name", "part_of.name"]
    assert got[0].a_time.seconds == 1796083199
    kept = {**sent, "aUint64": str(2**64 - 1), "numbers": ["-9223372036854775808", "5"]}
    assert {name: answer[name] for name in kept if name not in ("product", "byNumber")} == {
        name: value for name, value in kept.items() if name not in ("product", "byNumber")
    }
    assert answer["product"]["onRequest"] == "ask"
    assert "amount" not in answer["product"]
    assert (answer["aSint32"], answer["aFixed64"], answer["inners"]) == (0, "0", [])


@pytest.mark.requirement("GRPC-12")
async def test_requests_and_answers_that_are_no_objects_in_json_come_as_they_are() -> None:
    server = shop_server()

    async def shout(request: Any, context: Any) -> Any:
        return {"value": request.value.upper()}

    async def ping(request: Any, context: Any) -> Any:
        return {}

    server.add(f"{SERVICE}/Shout", shout)
    server.add(f"{SERVICE}/Ping", ping)
    async with up(server), toolset_of(server.address) as toolset:
        assert data_of(await toolset.call(call_of("shout", {"value": "wörld"}))) == "WÖRLD"
        assert data_of(await toolset.call(call_of("ping"))) == {}


@pytest.mark.requirement("GRPC-12")
async def test_an_answer_that_has_no_json_is_told_as_text_and_one_that_is_no_message_is_an_error() -> None:
    server = shop_server()

    async def unknown(request: Any, context: Any) -> Any:
        request.an_any.type_url = "type.googleapis.com/no.such.Type"
        request.an_any.value = b"\x08\x05"
        return request

    async def nonsense(request: Any, context: Any) -> Any:
        return b"\xff\xff\xff"

    server.add(f"{SERVICE}/Wrap", unknown)
    server.add(f"{SERVICE}/CreateProduct", nonsense)
    async with up(server), toolset_of(server.address) as toolset:
        output = await toolset.call(call_of("wrap", {"aBool": True}))
        assert "a_bool: true" in words_of_output(output)
        assert "no.such.Type" in words_of_output(output)
        failure = await failure_of(toolset, call_of("create_product"))
    assert failure.reason is Reason.TOOL_RESULT_INVALID
    assert failure.message == (
        "gRPC service 'shop': /shop.v1.ProductService/CreateProduct answered with what is no shop.v1.Product; "
        "it may have taken effect"
    )


@pytest.mark.requirement("GRPC-13")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"prodct": {}},
            "prodct: there is no such field; the fields of shop.v1.Everything are aBool, aBytes, aDouble, ",
        ),
        ({"product": {"partOf": {"nme": "SECRET"}}}, "product.partOf.nme: there is no such field"),
        ({"inners": [{}, {"inner": {"depth": "SECRET"}}]}, "inners[1].inner.depth: must be an integer of 32 bits"),
        ({"byNumber": {"4": {"depth": "SECRET"}}}, "byNumber[4].depth: must be an integer of 32 bits"),
        ({"byNumber": {"SECRET": {}}}, "byNumber: must be a map of an integer of 32 bits to shop.v1.Everything.Inner"),
        ({"aTime": "SECRET"}, "aTime: must be a google.protobuf.Timestamp as ProtoJSON"),
        ({"numbers": [1, "SECRET"]}, "numbers[1]: must be an integer of 64 bits"),
        ({"numbers": 5}, "numbers: must be a list"),
        ({"product": {"kind": "SECRET"}}, "product.kind: must be a name of shop.v1.Product.Kind"),
        ({"product": {"amount": 1, "onRequest": "SECRET"}}, "product: at most one of amount, onRequest may be set"),
        ({"product": ["SECRET"]}, "product: must be an object"),
        ({"anAny": {"@type": "x/SECRET"}}, "anAny: must be a google.protobuf.Any as ProtoJSON"),
    ],
)
async def test_arguments_that_are_no_message_are_refused_with_a_path_and_without_values(
    arguments: dict[str, object], words: str
) -> None:
    server = shop_server()

    async def wrap(request: Any, context: Any) -> Any:
        return request

    server.add(f"{SERVICE}/Wrap", wrap)
    async with up(server), toolset_of(server.address) as toolset:
        failure = await failure_of(toolset, call_of("wrap", arguments))
    assert failure.reason is Reason.TOOL_ARGUMENTS_INVALID
    assert f"The arguments are not taken: {words}" in failure.message
    assert failure.message.endswith("The call was not sent.")
    assert "SECRET" not in failure.message.replace("byNumber[SECRET]", "")
    assert server.seen == []


@pytest.mark.requirement("GRPC-13")
async def test_arguments_that_are_nested_too_deeply_or_are_very_many_are_refused_in_bounded_time() -> None:
    server = shop_server()
    deep: dict[str, object] = {}
    for _ in range(5000):
        deep = {"inner": deep}
    numbers: list[object] = [*range(100_000), "SECRET"]
    async with up(server), toolset_of(server.address) as toolset:
        failure = await failure_of(toolset, call_of("wrap", {"inners": [deep]}))
        assert "they are nested too deeply" in failure.message
        failure = await failure_of(toolset, call_of("wrap", {"numbers": numbers}))
        assert "numbers: has an element that is not an integer of 64 bits" in failure.message


@pytest.mark.requirement("GRPC-14", "IDENT-19")
async def test_a_call_says_who_calls_which_call_it_is_and_which_trace(tmp_path: Path) -> None:
    server = shop_server()

    async def get(request: Any, context: Any) -> Any:
        return {}

    server.add(f"{SERVICE}/GetProduct", get)
    token = tmp_path / "token"
    token.write_text("one\n")
    caller = Caller("Zoë & Co\n", " anna%40", frozenset(("night, shift", "accounts")))
    headers = {"traceparent": "00-1-2-01", "baggage": "secret"}
    invocation = call_of("get_product", {"name": "x"}, caller=caller, headers=headers)
    async with up(server), toolset_of(server.address, token_file=str(token)) as toolset:
        await toolset.call(invocation)
        token.write_text("two")
        await toolset.call(replace(invocation, run_id="run_2"))
    first, second = server.seen
    assert first["x-turnwire-tenant"] == "Zo%C3%AB%20&%20Co%0A"
    assert first["x-turnwire-principal"] == "%20anna%2540"
    assert first["x-turnwire-roles"] == "accounts,night%2C%20shift"
    assert first["idempotency-key"] == "run_1/call_1"
    assert second["idempotency-key"] == "run_2/call_1"
    assert first["traceparent"] == "00-1-2-01"
    assert "baggage" not in first
    assert (first["authorization"], second["authorization"]) == ("Bearer one", "Bearer two")
    assert server.reflection is not None
    assert server.reflection.tokens == ["Bearer one"]


@pytest.mark.requirement("GRPC-14")
async def test_a_token_that_is_gone_is_a_call_that_was_not_sent(tmp_path: Path) -> None:
    server = shop_server()
    token = tmp_path / "token"
    token.write_text("one")
    async with up(server), toolset_of(server.address, token_file=str(token)) as toolset:
        token.unlink()
        failure = await failure_of(toolset, call_of("get_product", {"name": "x"}))
    assert failure.reason is Reason.TOOL_SOURCE_UNAVAILABLE
    assert failure.message == f"gRPC service 'shop': token file {token} cannot be read; the call was not sent"


@pytest.mark.requirement("GRPC-15")
async def test_a_call_has_the_deadline_of_its_invocation_and_says_that_it_passed() -> None:
    server = shop_server()
    left: list[float] = []
    told = asyncio.Event()

    async def hang(request: Any, context: Any) -> Any:
        left.append(context.time_remaining())
        try:
            await asyncio.sleep(FOREVER)
        finally:
            told.set()

    server.add(f"{SERVICE}/CreateProduct", hang)
    async with up(server), toolset_of(server.address) as toolset:
        output = await toolset.call(call_of("create_product", timeout=0.4))
        assert output.failure is not None
        assert output.failure.reason is Reason.TOOL_TIMEOUT
        assert output.failure.message.endswith("DEADLINE_EXCEEDED; it may have taken effect")
        async with asyncio.timeout(5):
            await told.wait()
        registry = Registry([Source(toolset)])
        view = await registry.view(ToolSelection(), Caller())
        result = await view.execute("create_product", call_of("create_product", timeout=0.4), None)
    assert 0 < left[0] < 0.5
    assert result.status is ToolResultStatus.ERROR
    assert result.failure is not None
    assert result.failure.reason is Reason.TOOL_TIMEOUT


@pytest.mark.requirement("GRPC-15")
async def test_cancelling_a_call_reaches_the_service() -> None:
    server = shop_server()
    begun, told = asyncio.Event(), asyncio.Event()

    async def hang(request: Any, context: Any) -> Any:
        begun.set()
        try:
            await asyncio.sleep(FOREVER)
        finally:
            told.set()

    server.add(f"{SERVICE}/CreateProduct", hang)
    async with up(server), toolset_of(server.address) as toolset:
        call = asyncio.create_task(toolset.call(call_of("create_product", timeout=None)))
        async with asyncio.timeout(5):
            await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        async with asyncio.timeout(5):
            await told.wait()


@pytest.mark.requirement("GRPC-16")
@pytest.mark.parametrize(
    ("code", "reason", "retryable", "open_"),
    [
        (grpc.StatusCode.NOT_FOUND, Reason.TOOL_FAILED, False, False),
        (grpc.StatusCode.PERMISSION_DENIED, Reason.TOOL_FAILED, False, False),
        (grpc.StatusCode.UNIMPLEMENTED, Reason.TOOL_NOT_FOUND, False, False),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, Reason.TOOL_FAILED, True, False),
        (grpc.StatusCode.ABORTED, Reason.TOOL_FAILED, True, False),
        (grpc.StatusCode.UNAVAILABLE, Reason.TOOL_SOURCE_UNAVAILABLE, True, True),
        (grpc.StatusCode.INTERNAL, Reason.TOOL_FAILED, False, True),
        (grpc.StatusCode.UNKNOWN, Reason.TOOL_FAILED, False, True),
        (grpc.StatusCode.CANCELLED, Reason.TOOL_FAILED, False, True),
        (grpc.StatusCode.DEADLINE_EXCEEDED, Reason.TOOL_TIMEOUT, False, True),
    ],
)
async def test_a_status_is_a_failure_with_its_code_and_says_whether_something_may_have_happened(
    code: grpc.StatusCode, reason: Reason, retryable: bool, open_: bool
) -> None:
    server = aborting(code, "no such product 17; Bearer abcdefghijkl")
    async with up(server), toolset_of(server.address) as toolset:
        output = await toolset.call(call_of("create_product"))
        read = await toolset.call(call_of("get_product", {"name": "x"}))
    assert output.is_error
    assert output.failure is not None
    assert output.failure.reason is reason
    assert "17" not in output.failure.message
    assert ("may have taken effect" in output.failure.message) is open_
    assert words_of_output(output).startswith(f"{code.name}: no such product 17; Bearer [redacted]")
    assert ("It may have taken effect." in words_of_output(output)) is open_
    assert "taken effect" not in words_of_output(read)


@pytest.mark.requirement("GRPC-16")
async def test_the_token_of_a_call_is_in_no_words_about_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "hunter2hunter2")
    server = aborting(grpc.StatusCode.UNAUTHENTICATED, "who is hunter2hunter2?")
    async with up(server), toolset_of(server.address, token_env="SHOP_TOKEN") as toolset:
        output = await toolset.call(call_of("create_product"))
    assert words_of_output(output) == "UNAUTHENTICATED: who is [redacted]?"
    assert "hunter2" not in repr(output)


@pytest.mark.requirement("GRPC-16")
async def test_a_name_that_is_not_there_is_not_found() -> None:
    server = shop_server()
    async with up(server), toolset_of(server.address) as toolset:
        failure = await failure_of(toolset, call_of("nothing"))
    assert failure.reason is Reason.TOOL_NOT_FOUND


@pytest.mark.requirement("GRPC-17")
async def test_violations_reasons_and_delays_of_a_status_are_told() -> None:
    bad = error_details_pb2.BadRequest(
        field_violations=[error_details_pb2.BadRequest.FieldViolation(field="product.name", description="is taken")]
    )
    info = error_details_pb2.ErrorInfo(reason="NAME_TAKEN", domain="shop.example", metadata={"by": "products/1"})
    retry = error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=2, nanos=500_000_000))
    server = aborting(grpc.StatusCode.INVALID_ARGUMENT, "bad name", [bad, info, retry])
    async with up(server), toolset_of(server.address) as toolset:
        output = await toolset.call(call_of("create_product"))
    assert words_of_output(output).splitlines() == [
        "INVALID_ARGUMENT: bad name",
        "product.name: is taken",
        "NAME_TAKEN (shop.example): by=products/1",
    ]
    assert output.failure is not None
    assert output.failure.retry_after == 2.5
    assert output.failure.metadata == {"error_info_reason": "NAME_TAKEN"}


@pytest.mark.requirement("GRPC-17")
async def test_details_that_cannot_be_read_are_passed_over() -> None:
    server = shop_server()

    async def abort(request: Any, context: Any) -> Any:
        context.set_trailing_metadata((("grpc-status-details-bin", b"\xff\xff"),))
        await context.abort(grpc.StatusCode.NOT_FOUND, "not here")

    server.add(f"{SERVICE}/CreateProduct", abort)
    async with up(server), toolset_of(server.address) as toolset:
        assert words_of_output(await toolset.call(call_of("create_product"))) == "NOT_FOUND: not here"


def watching() -> Server:
    """A server whose stream sends so many messages of a size, and then ends, fails or hangs."""
    server = shop_server()

    async def watch(request: Any, context: Any) -> AsyncIterator[dict[str, object]]:
        for number in range(request.count):
            yield {"number": number, "text": "x" * request.size}
        if request.then == "fail":
            await context.abort(grpc.StatusCode.INTERNAL, "broke")
        if request.then == "hang":
            await asyncio.sleep(FOREVER)

    server.add_stream(f"{SERVICE}/WatchPrices", watch)
    return server


@pytest.mark.requirement("GRPC-20")
@pytest.mark.parametrize(
    ("arguments", "count", "cut"),
    [
        ({"count": 0}, 0, None),
        ({"count": 5}, 5, None),
        ({"count": 6}, 5, "5 messages are the most"),
        ({"count": 5000}, 5, "5 messages are the most"),
        ({"count": 3, "size": 2000}, 2, "5000 bytes are the most"),
        ({"count": 2, "then": "hang"}, 2, "0.5 s are the most"),
        ({"count": 0, "then": "hang"}, 0, "0.5 s are the most"),
    ],
)
async def test_a_stream_is_collected_up_to_its_limits(
    arguments: dict[str, object], count: int, cut: str | None
) -> None:
    server = watching()
    settings: dict[str, object] = {"max_streamed": 5, "max_message_bytes": 5000, "stream_timeout": 0.5}
    async with up(server), toolset_of(server.address, **settings) as toolset:
        output = await toolset.call(call_of("watch_prices", arguments))
    answer = data_of(output)
    assert not output.is_error
    assert [message["number"] for message in answer["messages"]] == list(range(count))
    assert answer["complete"] is (cut is None)
    assert answer.get("cut") == cut


@pytest.mark.requirement("GRPC-20")
async def test_a_stream_that_does_not_end_gives_what_came_before_the_deadline_of_its_call() -> None:
    server = watching()
    async with up(server), toolset_of(server.address, stream_timeout=60) as toolset:
        output = await toolset.call(call_of("watch_prices", {"count": 2, "then": "hang"}, timeout=1.0))
    assert len(data_of(output)["messages"]) == 2
    assert not data_of(output)["complete"]


@pytest.mark.requirement("GRPC-21")
async def test_what_a_stream_gave_before_it_failed_is_shown_with_the_failure() -> None:
    server = watching()
    async with up(server), toolset_of(server.address) as toolset:
        output = await toolset.call(call_of("watch_prices", {"count": 2, "then": "fail"}))
    assert output.is_error
    assert output.failure is not None
    assert output.failure.origin_code == "INTERNAL"
    words = words_of_output(output)
    assert words.startswith("INTERNAL: broke")
    assert '"number":1' in words
    assert '"complete":false' in words


@pytest.mark.requirement("GRPC-22")
async def test_a_message_that_is_too_long_is_an_error_of_its_call_alone() -> None:
    server = shop_server()
    server.options = [("grpc.max_receive_message_length", 32 << 20)]

    async def create(request: Any, context: Any) -> Any:
        return {"display_name": "x" * (20 << 20)} if request.name == "large" else {"name": "small"}

    server.add(f"{SERVICE}/CreateProduct", create)
    async with up(server), toolset_of(server.address) as toolset:
        slow = asyncio.create_task(toolset.call(call_of("create_product", {"name": "small"})))
        answer = await failure_of(toolset, call_of("create_product", {"name": "large"}))
        request = await failure_of(toolset, call_of("create_product", {"displayName": "x" * (5 << 20)}))
        assert data_of(await slow)["name"] == "small"
        assert data_of(await toolset.call(call_of("create_product", {"name": "small"})))["name"] == "small"
    assert answer.reason is Reason.TOOL_FAILED
    assert "is longer than max_message_bytes, 4194304; it may have taken effect" in answer.message
    assert request.reason is Reason.TOOL_ARGUMENTS_INVALID
    assert len(server.seen) == 3


@pytest.mark.requirement("GRPC-22")
async def test_an_answer_that_is_short_on_the_wire_and_long_in_memory_is_too_long() -> None:
    server = shop_server()
    server.compression = grpc.Compression.Gzip

    async def create(request: Any, context: Any) -> Any:
        return {"display_name": "x" * (50 << 20)}

    server.add(f"{SERVICE}/CreateProduct", create)
    async with up(server), toolset_of(server.address) as toolset:
        failure = await failure_of(toolset, call_of("create_product", timeout=FOREVER))
    assert failure.reason is Reason.TOOL_FAILED
    assert "is longer than max_message_bytes, 4194304; it may have taken effect" in failure.message


@pytest.mark.requirement("GRPC-22")
async def test_a_large_answer_is_made_json_beside_the_event_loop() -> None:
    server = shop_server()

    async def create(request: Any, context: Any) -> Any:
        return {"labels": {f"label-{number}": "x" * 200 for number in range(10_000)}}

    server.add(f"{SERVICE}/CreateProduct", create)
    async with up(server), toolset_of(server.address) as toolset:
        output = await toolset.call(call_of("create_product"))
    assert len(json.loads(output.structured_json or "{}")["labels"]) == 10_000
