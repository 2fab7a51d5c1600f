"""Functions of a program as tools: schemas from their signatures, what they give, and how they come and go."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest

from turnwire.host import Call, ToolFailed, ToolHost
from turnwire.v1.message_pb2 import Blob, Part
from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Reason
from turnwired.domain.message import Blob as DomainBlob
from turnwired.domain.message import Text
from turnwired.domain.run import Caller
from turnwired.tools.host.config import ToolHostConfig
from turnwired.tools.host.toolset import HostToolset
from turnwired.tools.port import ToolInvocation, ToolOutput

pytestmark = pytest.mark.anyio


class Line(TypedDict):
    """A line of an order."""

    sku: str
    count: NotRequired[int]


@asynccontextmanager
async def used(host: ToolHost, listen: str = "127.0.0.1:0") -> AsyncIterator[HostToolset]:
    """A source over the host."""
    async with host.serve(listen) as address:
        toolset = HostToolset("shop", ToolHostConfig(address=address))
        await toolset.start()
        try:
            async with asyncio.timeout(20):
                await toolset.tools()
            yield toolset
        finally:
            await toolset.aclose()


async def failing(toolset: HostToolset, *, fails: bool) -> None:
    """Return when the source has a failure, or has none."""
    while (toolset.failure is not None) is not fails:  # noqa: ASYNC110 - what is waited for has no event of its own
        await asyncio.sleep(0.01)


def call_of(name: str, arguments: dict[str, object] | None = None, **more: Any) -> ToolInvocation:
    """One call of a run."""
    return ToolInvocation("run_1", "call_1", name, arguments or {}, Caller("acme", "ada"), timeout=10.0, **more)


def words_of(output: ToolOutput) -> list[object]:
    """The contents."""
    return [part.content for part in output.content]


@pytest.mark.requirement("HOST-30")
async def test_the_schema_of_a_function_is_what_its_signature_says() -> None:
    host = ToolHost()

    @host.tool(title="Order", destructive=False)
    async def place_order(
        lines: list[Line],
        speed: Literal["slow", "fast"],
        call: Call,
        note: Annotated[str | None, "For the driver."] = None,
        weights: dict[str, float] | None = None,
        *,
        gift: bool = False,
    ) -> str:
        """Place an order."""
        return call.run_id

    async with used(host) as toolset:
        (tool,) = await toolset.tools()
    assert (tool.title, tool.description) == ("Order", "Place an order.")
    assert (tool.annotations.destructive, tool.annotations.read_only) == (False, None)
    line = {
        "type": "object",
        "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}},
        "additionalProperties": False,
        "required": ["sku"],
    }
    assert json.loads(tool.input_schema_json) == {
        "type": "object",
        "properties": {
            "lines": {"type": "array", "items": line},
            "speed": {"enum": ["slow", "fast"]},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "For the driver."},
            "weights": {"anyOf": [{"type": "object", "additionalProperties": {"type": "number"}}, {"type": "null"}]},
            "gift": {"type": "boolean", "default": False},
        },
        "additionalProperties": False,
        "required": ["lines", "speed"],
    }


@pytest.mark.requirement("HOST-30")
async def test_a_type_that_json_does_not_have_needs_a_schema_of_its_own() -> None:
    host = ToolHost()

    async def draw(color: complex) -> str:
        """Draw."""
        return str(color)

    with pytest.raises(TypeError, match="draw: color is of a type that JSON does not have; give input_schema"):
        host.tool()(draw)
    host.tool(input_schema={"type": "object", "properties": {"color": {"type": "string"}}})(draw)
    async with used(host) as toolset:
        assert words_of(await toolset.call(call_of("draw", {"color": "red"}))) == [Text("red")]


@pytest.mark.requirement("HOST-31")
async def test_a_function_gives_text_parts_or_json_and_may_be_a_plain_one() -> None:
    host = ToolHost()
    threads: list[int] = []

    @host.tool()
    def plain() -> dict[str, int]:
        threads.append(threading.get_ident())
        return {"n": 1}

    @host.tool()
    async def picture() -> list[Part]:
        return [Part(text="A cat."), Part(blob=Blob(media_type="image/png", data=b"\x89PNG"))]

    @host.tool()
    async def silent() -> None:
        return None

    async with used(host) as toolset:
        assert (await toolset.call(call_of("plain"))).structured_json == '{"n": 1}'
        assert words_of(await toolset.call(call_of("picture"))) == [Text("A cat."), DomainBlob("image/png", b"\x89PNG")]
        assert (await toolset.call(call_of("silent"))) == ToolOutput(())
    assert threads != [threading.get_ident()]


@pytest.mark.requirement("HOST-31")
async def test_a_host_listens_on_a_socket_of_this_machine_and_refuses_what_it_does_not_have(tmp_path: Path) -> None:
    host = ToolHost()

    @host.tool(name="other")
    async def one() -> str:
        return "1"

    async with used(host, f"unix:{tmp_path}/host.sock") as toolset:
        assert words_of(await toolset.call(call_of("other"))) == [Text("1")]
    with pytest.raises(KeyError):
        host.remove("one")
    async with host.serve() as taken:
        with pytest.raises(RuntimeError):
            async with host.serve(taken):
                pass


@pytest.mark.requirement("HOST-31")
async def test_a_function_knows_its_call_and_tells_how_far_it_is() -> None:
    host = ToolHost()
    seen: list[Call] = []

    @host.tool()
    async def count(call: Call) -> str:
        seen.append(call)
        await call.progress(1, 3, "one")
        await call.progress(2)
        return "done"

    told: list[tuple[float, float | None, str]] = []
    async with used(host) as toolset:
        await toolset.call(call_of("count", session_id="s_1", on_progress=lambda *report: told.append(report)))
    (call,) = seen
    assert (call.idempotency_key, call.run_id, call.call_id) == ("run_1/call_1", "run_1", "call_1")
    assert (call.session_id, call.tenant, call.principal, call.attempt) == ("s_1", "acme", "ada", 1)
    assert call.metadata["x-turnwire-run-id"] == "run_1"
    assert told == [(1.0, 3.0, "one"), (2.0, None, "")]


@pytest.mark.requirement("HOST-31")
async def test_a_function_that_fails_tells_the_model_its_words_only_if_they_are_meant_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = ToolHost()

    @host.tool()
    async def refuse() -> str:
        raise ToolFailed("The shop is closed.")

    @host.tool()
    async def break_down() -> str:
        raise ValueError("password=hunter2hunter2")

    async with used(host) as toolset:
        refused = await toolset.call(call_of("refuse"))
        broken = await toolset.call(call_of("break_down"))
    assert refused.is_error
    assert words_of(refused) == [Text("The shop is closed.")]
    assert broken.is_error
    assert words_of(broken) == [Text("ValueError")]
    assert "tool break_down failed" in caplog.text


@pytest.mark.requirement("HOST-31")
async def test_tools_that_come_and_go_and_a_host_that_pauses_are_noticed() -> None:
    host = ToolHost()

    @host.tool()
    async def one() -> str:
        return "1"

    async with used(host) as toolset:
        before = host.version

        @host.tool()
        async def two() -> str:
            return "2"

        host.remove("one")
        assert host.version != before
        async with asyncio.timeout(10):
            while [tool.ref.native_name for tool in await toolset.tools()] != ["two"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            host.serving = False
            await failing(toolset, fails=True)
            with pytest.raises(ToolError) as raised:
                await toolset.call(call_of("two"))
            host.serving = True
            await failing(toolset, fails=False)
            assert words_of(await toolset.call(call_of("two"))) == [Text("2")]
    assert raised.value.failure.reason is Reason.TOOL_SOURCE_UNAVAILABLE


@pytest.mark.requirement("HOST-31")
async def test_a_function_whose_call_is_cancelled_is_cancelled() -> None:
    host = ToolHost()
    begun, cancelled = asyncio.Event(), asyncio.Event()

    @host.tool()
    async def wait() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return "never"

    async with used(host) as toolset:
        call = asyncio.create_task(toolset.call(call_of("wait")))
        async with asyncio.timeout(10):
            await begun.wait()
            call.cancel()
            await cancelled.wait()
        with pytest.raises(asyncio.CancelledError):
            await call
