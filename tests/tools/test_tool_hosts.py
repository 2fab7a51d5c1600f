"""Tools of apps: what they list, what their calls give, and what is told of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import grpc
import pytest
from tools.host_kit import (
    App,
    Context,
    Page,
    call_of,
    names,
    progress,
    result,
    text,
    tool,
    toolset_of,
    until,
    up,
)

from turnwire.v1 import tool_host_service_pb2 as pb2
from turnwire.v1.message_pb2 import Blob, OpaqueBlock, Part, Reasoning, ResourceLink
from turnwired.domain import message
from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Failure, Reason
from turnwired.domain.message import ToolResultStatus
from turnwired.domain.run import Caller
from turnwired.domain.tool import ToolSelection, ToolSource
from turnwired.tools.host.toolset import HostToolset
from turnwired.tools.registry import Registry, Source

pytestmark = pytest.mark.anyio
FOREVER = 60.0
Frames = AsyncIterator[pb2.CallToolResponse]


async def failure_of(toolset: HostToolset, name: str = "echo") -> Failure:
    """The failure that a call raises."""
    with pytest.raises(ToolError) as raised:
        await toolset.call(call_of(name))
    return raised.value.failure


@pytest.mark.requirement("HOST-1")
async def test_the_tools_of_an_app_are_listed_as_it_describes_them() -> None:
    app = App([tool("create_order", idempotent=True, destructive=False), pb2.HostedTool(name="bare")])
    async with up(app), toolset_of(app) as toolset:
        registry = Registry([Source(toolset, namespace="shop")])
        view = await registry.view(ToolSelection(), Caller())
        bare, create = view.tools
    assert create.ref.routed_name == "shop__create_order"
    assert (create.ref.source, create.ref.server_id) == (ToolSource.HOST, "shop")
    assert create.description == "Does create_order."
    assert create.annotations.idempotent is True
    assert create.annotations.destructive is False
    assert create.annotations.read_only is None
    assert bare.input_schema_json == '{"type":"object"}'
    assert toolset.failure is None


@pytest.mark.requirement("HOST-2")
async def test_progress_is_told_in_order_and_parts_keep_their_types() -> None:
    async def work(request: pb2.CallToolRequest, context: Context) -> Frames:
        yield progress(1, 2, "half")
        yield progress(2)
        yield result(
            Part(text="words"),
            Part(data_json='{"n":1}'),
            Part(blob=Blob(media_type="image/png", data=b"\x89PNG")),
            Part(blob=Blob(media_type="audio/wav", data=b"RIFF")),
            Part(resource_link=ResourceLink(uri="https://example.com/a", name="a", media_type="text/plain")),
            Part(opaque=OpaqueBlock(kind="mcp/ui", value_json='{"type":"resource"}')),
            structured='{"n":1}',
        )

    app = App(call=work)
    told: list[tuple[float, float | None, str]] = []
    async with up(app), toolset_of(app) as toolset:
        output = await toolset.call(call_of(on_progress=lambda *report: told.append(report)))
    assert told == [(1.0, 2.0, "half"), (2.0, None, "")]
    assert [part.content for part in output.content] == [
        message.Text("words"),
        message.Data('{"n":1}'),
        message.Blob("image/png", b"\x89PNG"),
        message.Blob("audio/wav", b"RIFF"),
        message.ResourceLink("https://example.com/a", "a", "text/plain"),
        message.OpaqueBlock("mcp/ui", '{"type":"resource"}'),
    ]
    assert output.structured_json == '{"n":1}'


@pytest.mark.requirement("HOST-2", "HOST-13")
async def test_progress_that_makes_no_sense_or_is_endless_is_cut_to_what_does() -> None:
    async def work(request: pb2.CallToolRequest, context: Context) -> Frames:
        yield progress(float("nan"), 1, "what")
        yield progress(1, float("inf"), "x\0" + "y" * 5000)
        yield text("done")

    told: list[tuple[float, float | None, str]] = []
    app = App(call=work)
    async with up(app), toolset_of(app) as toolset:
        view = await Registry([Source(toolset)]).view(ToolSelection(), Caller())
        await view.execute("echo", call_of(on_progress=lambda *report: told.append(report)), None)
    assert told == [(1.0, None, "x\ufffd" + "y" * 998)]


@pytest.mark.requirement("HOST-2")
async def test_a_call_ends_with_its_result_even_if_the_app_goes_on() -> None:
    async def work(request: pb2.CallToolRequest, context: Context) -> Frames:
        yield text("done")
        await asyncio.sleep(FOREVER)

    app = App(call=work)
    async with up(app), toolset_of(app) as toolset:
        async with asyncio.timeout(5):
            output = await toolset.call(call_of())
            await app.cancelled.wait()
    assert output.content[0].content == message.Text("done")


@pytest.mark.requirement("HOST-3")
async def test_a_tool_that_failed_and_a_status_are_results_that_the_model_reads() -> None:
    async def work(request: pb2.CallToolRequest, context: Context) -> Frames:
        if request.name == "echo":
            yield text("The shop is closed.", is_error=True)
        else:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "token=abcdefgh is not for this shop")

    app = App(call=work)
    async with up(app), toolset_of(app) as toolset:
        view = await Registry([Source(toolset)]).view(ToolSelection(), Caller())
        said = await view.execute("echo", call_of(), None)
        refused = await view.execute("look", call_of("look"), None)
    assert said.status is ToolResultStatus.ERROR
    assert said.content[1].content == message.Text("The shop is closed.")
    assert refused.status is ToolResultStatus.ERROR
    assert refused.failure is not None
    assert refused.failure.message.startswith("tool host 'shop': /turnwire.v1.ToolHostService/CallTool ended with")
    assert refused.failure.origin_code == "FAILED_PRECONDITION"
    assert "abcdefgh" not in str(refused)
    assert "is not for this shop" in str(refused.content)


@pytest.mark.requirement("HOST-4")
@pytest.mark.parametrize(
    ("frames", "why"),
    [
        ([], "ended without a result"),
        ([progress(1)], "ended without a result"),
        ([result(Part(data_json="{"))], "content[0].data_json: is not JSON"),
        ([result(Part(reasoning=Reasoning(text="hm")))], "content[0]: is of a kind that a result does not have"),
        ([result(Part())], "content[0]: must have content"),
        ([result(structured="NaN")], "structured_json: is not JSON"),
    ],
)
async def test_a_call_without_a_proper_result_says_what_came_and_that_it_may_have_taken_effect(
    frames: list[pb2.CallToolResponse], why: str
) -> None:
    async def work(request: pb2.CallToolRequest, context: Context) -> Frames:
        for frame in frames:
            yield frame

    app = App(call=work)
    async with up(app), toolset_of(app) as toolset:
        failure = await failure_of(toolset)
        assert failure.reason is Reason.TOOL_RESULT_INVALID
        assert why in failure.message
        assert failure.message.endswith("it may have taken effect")
        assert not (await failure_of(toolset, "look")).message.endswith("it may have taken effect")


@pytest.mark.requirement("HOST-5")
async def test_a_call_says_who_it_is_for_and_which_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "secret")
    app = App()
    async with up(app), toolset_of(app, token_env="SHOP_TOKEN") as toolset:
        await toolset.call(call_of(arguments={"name": "Ada"}, timeout=8))
    (call,), (metadata,), (deadline,) = app.calls, app.metadata, app.deadlines
    assert call.name == "echo"
    assert call.arguments_json == '{"name":"Ada"}'
    assert call.idempotency_key == metadata["idempotency-key"] == "run_1/call_1"
    assert (call.run_id, call.call_id, call.session_id, call.attempt) == ("run_1", "call_1", "session_1", 1)
    assert (call.caller.tenant, call.caller.principal) == ("acme", "ada")
    assert (metadata["x-turnwire-tenant"], metadata["x-turnwire-principal"]) == ("acme", "ada")
    assert metadata["traceparent"].startswith("00-1111")
    assert metadata["authorization"] == "Bearer secret"
    assert deadline is not None
    assert 4 < deadline < 9


@pytest.mark.requirement("HOST-6")
@pytest.mark.parametrize("slow", [True, False], ids=["too slow", "cancelled"])
async def test_a_call_that_nobody_waits_for_is_cancelled_at_the_app(slow: bool) -> None:
    begun = asyncio.Event()

    async def work(request: pb2.CallToolRequest, context: Context) -> Frames:
        begun.set()
        await asyncio.sleep(FOREVER)
        yield text("late")

    app = App(call=work)
    async with up(app), toolset_of(app) as toolset:
        view = await Registry([Source(toolset)]).view(ToolSelection(), Caller())
        call = asyncio.create_task(view.execute("echo", call_of(timeout=1.0 if slow else None), None))
        async with asyncio.timeout(10):
            await begun.wait()
            if not slow:
                call.cancel()
            await app.cancelled.wait()
        if slow:
            settled = await call
            assert settled.failure is not None
            assert settled.failure.reason is Reason.TOOL_TIMEOUT
        else:
            with pytest.raises(asyncio.CancelledError):
                await call


@pytest.mark.requirement("HOST-10")
@pytest.mark.parametrize("version", ["2", ""], ids=["with a version", "without"])
async def test_a_change_that_the_app_tells_of_is_learned_at_once(version: str) -> None:
    app = App(version="1" if version else "")
    async with up(app), toolset_of(app) as toolset:

        async def watched() -> bool:
            return app.watchers > 0

        await until(watched)
        await app.change(tool("new"), version=version)

        async def learned() -> bool:
            return await names(toolset) == ["new"]

        await until(learned)
        assert toolset.host.version == version


@pytest.mark.requirement("HOST-10")
async def test_a_storm_of_changes_is_asked_about_a_few_times_a_second() -> None:
    app = App()
    async with up(app), toolset_of(app) as toolset:

        async def watched() -> bool:
            return app.watchers > 0

        await until(watched)
        since = time.monotonic()
        for number in range(200):
            await app.change(tool(f"tool_{number}"), version=str(number + 2))
            await asyncio.sleep(0.001)

        async def learned() -> bool:
            return await names(toolset) == ["tool_199"]

        await until(learned)
        seconds = time.monotonic() - since
    assert len(app.asked) < 6 + 5 * seconds


@pytest.mark.requirement("HOST-10")
async def test_an_app_that_tells_of_no_changes_is_asked_when_the_list_is_old() -> None:
    app = App(watches=False)
    async with up(app), toolset_of(app, refresh_interval=0.05) as toolset:
        before = await toolset.tools()

        async def asked_with_its_version() -> bool:
            await toolset.tools()
            return app.asked[-1].known_version == "1"

        await until(asked_with_its_version)
        assert await toolset.tools() is before
        app.tools, app.version = [tool("new")], "2"

        async def learned() -> bool:
            return await names(toolset) == ["new"]

        await until(learned)


@pytest.mark.requirement("HOST-11")
async def test_an_app_that_takes_no_calls_gets_none_until_it_does_again() -> None:
    app = App()
    async with up(app), toolset_of(app) as toolset:
        await app.serving(works=False)

        async def told() -> bool:
            return toolset.failure is not None

        await until(told)
        failure = await failure_of(toolset)
        assert failure.reason is Reason.TOOL_SOURCE_UNAVAILABLE
        assert failure.message.endswith("it says that it takes no calls now; the call was not sent")
        assert await names(toolset) == ["echo", "look"]
        assert toolset.host.state.value == "NOT_SERVING"
        await app.serving(works=True)

        async def works() -> bool:
            return toolset.failure is None

        await until(works)
        await toolset.call(call_of())
    assert len(app.calls) == 1


@pytest.mark.requirement("HOST-11")
async def test_an_app_without_a_health_service_is_called() -> None:
    app = App(healthy=False, watches=False)
    async with up(app), toolset_of(app) as toolset:
        assert toolset.failure is None
        output = await toolset.call(call_of(arguments={"name": "x"}))
    assert output.content[0].content == message.Text('{"name":"x"}')


@pytest.mark.requirement("HOST-12")
async def test_pages_are_put_together_and_bad_entries_are_left_out_alone() -> None:
    def page(request: pb2.ToolHostServiceListToolsRequest) -> Page:
        if not request.page_token:
            odd = [tool(""), tool("x" * 257), tool("nul\0")]
            return Page(tools=[tool("a"), *odd], version="1" * 257, next_page_token="2")
        broken = pb2.HostedTool(name="broken", input_schema_json="[")
        return Page(tools=[tool("a"), tool("b"), broken], version="1")

    app = App(page=page)
    async with up(app), toolset_of(app) as toolset:
        view = await Registry([Source(toolset)]).view(ToolSelection(), Caller())
        assert toolset.host.version == ""
    assert [item.ref.routed_name for item in view.tools] == ["a", "b"]
    told = "\n".join(failure.message for failure in view.failures)
    assert "it has no name" in told
    assert told.count("more than 256 characters, or some that cannot be printed") == 2
    assert "another tool has the same name" in told
    assert "'broken' of 'shop' is left out" in told


@pytest.mark.requirement("HOST-12")
@pytest.mark.parametrize(
    ("page", "why"),
    [
        (Page(tools=[tool("a")], next_page_token="again"), "its list of tools does not end"),
        (Page(unchanged=True), "its tools are unchanged, and none are known"),
    ],
)
async def test_a_list_that_cannot_be_is_the_failure_of_its_host(page: Page, why: str) -> None:
    app = App(page=lambda _: page)
    async with up(app), toolset_of(app) as toolset:
        assert await toolset.tools() == ()
        assert toolset.failure is not None
        assert why in toolset.failure.message
        assert toolset.host.state.value == "UNAVAILABLE"


@pytest.mark.requirement("HOST-13")
async def test_a_result_that_the_channel_does_not_take_is_told_from_a_lost_call() -> None:
    async def work(request: pb2.CallToolRequest, context: Context) -> Frames:
        yield text("x" * (5 << 20))

    app = App(call=work)
    async with up(app), toolset_of(app) as toolset:
        failure = await failure_of(toolset)
    assert failure.reason is Reason.TOOL_FAILED
    assert "the result is longer than max_message_bytes" in failure.message


@pytest.mark.requirement("HOST-13")
async def test_what_is_too_long_is_refused_and_says_so() -> None:
    async def work(request: pb2.CallToolRequest, context: Context) -> Frames:
        yield text("x" * 3000)

    app = App(call=work)
    async with up(app), toolset_of(app, max_message_bytes=2000) as toolset:
        failure = await failure_of(toolset)
        assert failure.reason is Reason.TOOL_FAILED
        assert "the result is longer than max_message_bytes, 2000; it may have taken effect" in failure.message
        with pytest.raises(ToolError) as raised:
            await toolset.call(call_of(arguments={"name": "x" * 3000}))
    assert raised.value.failure.reason is Reason.TOOL_ARGUMENTS_INVALID
    assert len(app.calls) == 1
