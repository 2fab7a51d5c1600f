"""Apps that serve tools and are not there, go away, or come back as another release."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tools.host_kit import App, Context, call_of, names, text, tool, toolset_of, until, up

from turnwire.v1 import tool_host_service_pb2 as pb2
from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Reason
from turnwired.domain.message import Text, ToolResultStatus
from turnwired.domain.run import Caller
from turnwired.domain.tool import ToolSelection
from turnwired.tools.registry import Registry, Source

pytestmark = pytest.mark.anyio
FOREVER = 60.0
Frames = AsyncIterator[pb2.CallToolResponse]


class Dying:
    """An app that cuts every connection during its first call, and is up again at once."""

    def __init__(self) -> None:
        tools = [tool("plain"), tool("read", read_only=True), tool("same", idempotent=True)]
        self.app = App([*tools, tool("keyed", deduplicated=True)], call=self._call)
        self.restarts: list[asyncio.Task[None]] = []

    async def _restart(self) -> None:
        await self.app.stop()
        await self.app.start()

    async def _call(self, request: pb2.CallToolRequest, context: Context) -> Frames:
        if len(self.app.calls) == 1:
            self.restarts.append(asyncio.create_task(self._restart()))
            await asyncio.sleep(FOREVER)
        yield text("done")


@pytest.mark.requirement("HOST-7")
async def test_a_lost_call_of_a_plain_tool_has_an_unknown_outcome_and_is_not_sent_again() -> None:
    dying = Dying()
    async with up(dying.app), toolset_of(dying.app) as toolset:
        view = await Registry([Source(toolset)]).view(ToolSelection(), Caller())
        settled = await view.execute("plain", call_of("plain"), None)
        await asyncio.gather(*dying.restarts)
    assert settled.status is ToolResultStatus.OUTCOME_UNKNOWN
    assert settled.failure is not None
    assert (
        settled.failure.message
        == "tool host 'shop': the connection was lost during the call; it may have been executed"
    )
    assert len(dying.app.calls) == 1


@pytest.mark.requirement("HOST-7")
@pytest.mark.parametrize("name", ["read", "same", "keyed"])
async def test_a_lost_call_that_may_be_repeated_is_sent_once_more_with_its_key(name: str) -> None:
    dying = Dying()
    async with up(dying.app), toolset_of(dying.app) as toolset:
        output = await toolset.call(call_of(name))
        await asyncio.gather(*dying.restarts)
    assert output.content[0].content == Text("done")
    assert [(call.idempotency_key, call.attempt) for call in dying.app.calls] == [
        ("run_1/call_1", 1),
        ("run_1/call_1", 2),
    ]


@pytest.mark.requirement("HOST-8")
async def test_a_call_that_cannot_be_sent_was_not_executed() -> None:
    app = App()
    await app.start()
    async with toolset_of(app) as toolset:
        await app.stop()
        assert await toolset._peer.losses.more_than(0, 10), "it still has its app"
        view = await Registry([Source(toolset)]).view(ToolSelection(), Caller())
        async with asyncio.timeout(20):  # not the 30 s of the call
            settled = await view.execute("echo", call_of(timeout=30), None)
    assert settled.status is ToolResultStatus.NOT_EXECUTED
    assert settled.failure is not None
    assert settled.failure.reason is Reason.TOOL_SOURCE_UNAVAILABLE
    assert "the call was not sent" in settled.failure.message
    assert app.calls == []


@pytest.mark.requirement("HOST-8")
async def test_an_app_that_was_never_there_is_left_out_and_found_when_it_comes() -> None:
    app = App()
    await app.start()
    await app.stop()
    async with toolset_of(app) as toolset:
        assert await names(toolset) == []
        failure = toolset.failure
        assert failure is not None
        assert failure.reason is Reason.TOOL_SOURCE_UNAVAILABLE
        await app.start()

        async def found() -> bool:
            return await names(toolset) == ["echo", "look"]

        await until(found, 20)
        assert toolset.failure is None
        await app.stop()


@pytest.mark.requirement("HOST-9")
async def test_another_release_of_the_app_with_the_same_version_is_asked_anew() -> None:
    app = App(watches=False)
    async with up(app), toolset_of(app) as toolset:
        await app.stop()
        app.tools = [tool("new")]
        await app.start()

        async def learned() -> bool:
            return await names(toolset) == ["new"]

        await until(learned, 20)
    assert [request.known_version for request in app.asked] == ["", ""]


@pytest.mark.requirement("HOST-9")
async def test_an_app_that_is_back_as_it_was_keeps_its_list() -> None:
    app = App()
    async with up(app), toolset_of(app) as toolset:
        before = await toolset.tools()
        await app.stop()
        await app.start()

        async def asked() -> bool:
            return len(app.asked) == 2

        await until(asked, 20)
        await toolset.call(call_of())
        assert await toolset.tools() is before


@pytest.mark.requirement("HOST-9")
async def test_an_app_that_is_back_is_listened_to_again() -> None:
    app = App()
    async with up(app), toolset_of(app) as toolset:
        await app.serving(works=False)

        async def told() -> bool:
            return toolset.host.state.value == "NOT_SERVING"

        await until(told)
        watchers = app.watchers
        await app.stop()
        await app.start()

        async def listened_to() -> bool:
            return app.watchers > watchers and toolset.failure is None

        await until(listened_to, 20)
        await toolset.call(call_of())
        await app.serving(works=False)
        await until(told)


@pytest.mark.requirement("HOST-14")
async def test_closing_a_host_ends_its_calls_and_its_streams() -> None:
    begun = asyncio.Event()

    async def work(request: pb2.CallToolRequest, context: Context) -> Frames:
        begun.set()
        await asyncio.sleep(FOREVER)
        yield text("late")

    app = App(call=work)
    before = asyncio.all_tasks()
    async with up(app):
        async with toolset_of(app) as toolset:
            call = asyncio.create_task(toolset.call(call_of()))
            async with asyncio.timeout(10):
                await begun.wait()
                await toolset.aclose()
                with pytest.raises(ToolError) as raised:
                    await call
                await app.cancelled.wait()
            assert raised.value.failure.reason is Reason.TOOL_OUTCOME_UNKNOWN
            with pytest.raises(ToolError):
                await toolset.call(call_of())
        ours = [task.get_name() for task in asyncio.all_tasks() - before]
    assert [name for name in ours if name.startswith(("grpc-", "host-"))] == []
