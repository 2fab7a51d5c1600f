"""Sources that lie: what an app or a server lists, gives and repeats harms nobody but itself."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tools.host_kit import App, Context, Page, call_of, result, text, tool, toolset_of, up
from tools.kit import mcp_server, run_tool, words_of
from tools.servers.http_server import Body, http_mcp
from tools.test_hostile_lists import Turns

from turnwire.v1 import tool_host_service_pb2 as pb2
from turnwire.v1.message_pb2 import Blob, OpaqueBlock, ResourceLink
from turnwire.v1.message_pb2 import Part as PartPb
from turnwired.domain import message as domain
from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Reason
from turnwired.domain.message import MAX_RESULT_PARTS, Part, Text, ToolResult, ToolResultStatus
from turnwired.domain.run import Caller
from turnwired.domain.tool import ToolSelection
from turnwired.tools.catalog import CollisionPolicy
from turnwired.tools.host import listing
from turnwired.tools.host.registrations import Admission, Registrations
from turnwired.tools.mcp.config import HttpServer, StdioServer
from turnwired.tools.port import ToolOutput
from turnwired.tools.registry import Registry
from turnwired.tools.result import settle_output

pytestmark = pytest.mark.anyio
REPEATS = Path(__file__).parent / "servers" / "repeating_server.py"
MARK = "marker 81-of-a-key"
LONGEST_TURN_BESIDE_A_FLOOD = 0.1
LONGEST_TURN = 1.0
"""Seconds of the loop's thread; what is found here took several."""


@pytest.mark.requirement("HOSTILE-30")
@pytest.mark.parametrize(
    "entry", [pb2.HostedTool(), tool("again"), tool("nul\0"), tool("x" * 300)], ids=["empty", "twice", "nul", "long"]
)
async def test_a_page_of_very_many_entries_that_are_no_tools_holds_up_nobody(entry: pb2.HostedTool) -> None:
    page = Page(tools=[entry] * (3_900_000 // (entry.ByteSize() + 4)), version="1")
    async with up(App(page=lambda _: page)) as app, Turns.watched() as turns, toolset_of(app) as toolset:
        told = toolset.left_out
        assert len(await toolset.tools()) <= 1
    assert len(told) == listing.MAX_LEFT_OUT + 1
    assert "more entries in the list of 'shop' are left out" in told[-1].message
    assert turns.longest < LONGEST_TURN


@pytest.mark.requirement("HOSTILE-30")
async def test_of_pages_without_end_only_as_many_tools_as_there_may_be_are_read() -> None:
    app = App()

    def page(request: pb2.ToolHostServiceListToolsRequest) -> Page:
        number = len(app.asked)
        tools = [tool(f"t{number}_{index}") for index in range(2_000)]
        return Page(tools=tools, version="1", next_page_token=f"after {number}")

    app.page = page
    async with up(app), toolset_of(app) as toolset:
        assert len(await toolset.tools()) == listing.MAX_TOOLS
        assert f"{listing.MAX_TOOLS} tools are the most" in toolset.left_out[-1].message
    assert len(app.asked) <= 1 + listing.MAX_TOOLS // 2_000


@pytest.mark.requirement("HOSTILE-30")
async def test_a_list_of_more_bytes_than_may_be_is_the_failure_of_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_LIST_BYTES", 500_000)
    app = App()
    app.page = lambda _: Page(
        tools=[pb2.HostedTool(name=f"t{len(app.asked)}", description="d" * 100_000)],
        next_page_token=f"after {len(app.asked)}",
    )
    async with up(app), toolset_of(app) as toolset:
        assert await toolset.tools() == ()
        assert toolset.failure is not None
        assert "longer than 500000 bytes" in toolset.failure.message


@pytest.mark.requirement("HOSTILE-31")
@pytest.mark.parametrize("words", ["", "x"])
@pytest.mark.parametrize("most", [None, 64, 65536])
def test_a_result_has_so_many_parts_and_no_more(words: str, most: int | None) -> None:
    output = ToolOutput(tuple(Part("", Text(words)) for _ in range(100_000)))
    settled = settle_output("call", output, most)
    assert len(settled.content) <= MAX_RESULT_PARTS + 2
    assert f"more than {MAX_RESULT_PARTS} parts" in words_of(settled)
    whole = settle_output("call", ToolOutput(output.content[:MAX_RESULT_PARTS]), None)
    assert len(whole.content) == MAX_RESULT_PARTS
    assert "cut" not in words_of(whole)


@pytest.mark.requirement("HOSTILE-31")
async def test_an_app_that_gives_very_many_parts_holds_up_nobody() -> None:
    async def work(request: pb2.CallToolRequest, context: Context) -> AsyncIterator[pb2.CallToolResponse]:
        yield result(*[PartPb(text="")] * 500_000)
        yield text("a second result")

    async with up(App(call=work)) as app, toolset_of(app) as toolset, Turns.watched() as turns:
        output = await toolset.call(call_of())
    assert "more than" in words_of(settle_output("call", output, None))
    assert turns.longest < LONGEST_TURN


@pytest.mark.requirement("HOSTILE-32")
@pytest.mark.parametrize("policy", list(CollisionPolicy))
@pytest.mark.parametrize("first", [True, False])
async def test_another_tenant_takes_no_name_away(policy: CollisionPolicy, first: bool) -> None:
    ada, eve = Caller("acme", "ada"), Caller("other", "eve")
    async with up(App([tool("b__c")])) as ours, up(App([tool("c"), tool("d")])) as theirs:
        registry = Registry([], collisions=policy)
        registrations = Registrations(registry, Admission(allowed=True))
        coming = [(ada, "a", ours), (eve, "a__b", theirs)]
        try:
            for caller, host_id, app in coming if first else reversed(coming):
                await registrations.register(caller, host_id, app.address, 60)
            for caller, names in ((ada, ["a__b__c"]), (eve, ["a__b__c", "a__b__d"]), (Caller("third"), [])):
                view = await registry.view(ToolSelection(), caller)
                assert [found.ref.routed_name for found in view.tools] == names
                assert view.collisions == ()
            again = await registry.view(ToolSelection(), ada)
            await theirs.change(tool("c"), version="2")
            await registrations.register(eve, "another", theirs.address, 60)
            assert await registry.revised(again, ToolSelection(), ada) is again, "what others change is no change"
        finally:
            await registrations.aclose()
            await registry.aclose()


def repeating(where: str, **env: str) -> StdioServer:
    """A server that repeats its key where ``where`` says."""
    settings = {"connect_timeout": 20, "close_timeout": 1}
    return StdioServer.model_validate(
        {"command": sys.executable, "args": (str(REPEATS), where), "env": env, **settings}
    )


@pytest.mark.requirement("HOSTILE-34")
@pytest.mark.parametrize("where", ["initialize", "tools/list", "tools/call", "result", "exit"])
@pytest.mark.parametrize("reference", ["${OURS}", "the key ${OURS}", MARK])
async def test_a_key_that_a_command_repeats_is_told_nowhere(
    where: str, reference: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OURS", MARK)
    caplog.set_level(logging.DEBUG)
    async with mcp_server(repeating(where, API_KEY=reference)) as (toolset, view):
        told = [*map(str, view.failures), str(toolset.history.last_failure)]
        if view.tools:
            told.append(str(await run_tool(view, "m__t")))
        else:
            assert view.failures
    assert "[redacted]" in "".join(told)
    assert MARK not in "".join(told)
    assert MARK not in caplog.text
    assert "stderr: my key is" in caplog.text, "the child's words are logged"


AWKWARD = 'the "key" of \u00e4pfel\\81'
PLACES = ("text", "json", "bytes", "link", "resource", "ui", "unknown", "structured", "name", "number")


@pytest.mark.requirement("HOSTILE-34")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("key", [MARK, AWKWARD, "8100000018"], ids=["plain", "awkward", "digits"])
async def test_a_key_that_is_repeated_in_whatever_part_of_an_error_is_told_nowhere(place: str, key: str) -> None:
    async with mcp_server(repeating(f"part={place}", API_KEY=key)) as (_, view):
        settled = await run_tool(view, "m__t")
    assert settled.status is ToolResultStatus.ERROR
    assert "[redacted]" in words_of(settled) + str(settled)
    assert_lacks(key, settled)


@pytest.mark.requirement("HOSTILE-34")
@pytest.mark.parametrize("key", [MARK, ascii(AWKWARD), "8100000018"], ids=["plain", "awkward", "digits"])
@pytest.mark.parametrize(
    "part",
    [
        lambda key: {"text": f"401: {key}"},
        lambda key: {"data_json": json.dumps({"why": key})},
        lambda key: {"data_json": key if key.isdigit() else json.dumps(key)},
        lambda key: {"blob": Blob(media_type="text/plain", data=key.encode(), uri=f"file:{key}")},
        lambda key: {"resource_link": ResourceLink(uri=f"http://a/?k={key}", name=key)},
        lambda key: {"opaque": OpaqueBlock(kind=f"odd {key}", value_json=json.dumps([key]))},
    ],
    ids=["text", "data", "value", "blob", "link", "opaque"],
)
async def test_a_token_that_an_app_repeats_in_whatever_part_of_an_error_is_told_nowhere(
    part: Callable[[str], dict[str, Any]], key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", key)

    async def call(request: pb2.CallToolRequest, context: Context) -> AsyncIterator[pb2.CallToolResponse]:
        yield result(PartPb(**part(key)), structured=json.dumps({"why": key}), is_error=True)

    async with up(App(call=call)) as app, toolset_of(app, token_env="SHOP_TOKEN") as toolset:
        settled = settle_output("call_1", await toolset.call(call_of()), None)
    assert settled.status is ToolResultStatus.ERROR
    assert_lacks(key, settled)


def assert_lacks(key: str, settled: ToolResult) -> None:
    """The key stands nowhere in a result, as it is, as JSON writes it, or in bytes; and what is JSON still is."""
    forms = {key, repr(key)[1:-1], json.dumps(key)[1:-1], json.dumps(key, ensure_ascii=False)[1:-1]}
    said = str(settled)
    for part in settled.content:
        if isinstance(part.content, domain.Blob):
            said += part.content.data.decode(errors="replace")
        if isinstance(part.content, (domain.Data, domain.OpaqueBlock)):
            json.loads(part.content.json if isinstance(part.content, domain.Data) else part.content.value_json)
    if settled.structured_json is not None:
        json.loads(settled.structured_json)
    assert [form for form in forms if form in said] == []


@pytest.mark.requirement("HOSTILE-34")
async def test_a_key_that_a_server_repeats_over_http_is_told_nowhere(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OURS", MARK)
    caplog.set_level(logging.DEBUG)
    refusal = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": f"I do not know {MARK}"}}
    async with http_mcp() as server:
        config = HttpServer.model_validate({"url": server.url, "headers": {"x-key": "${OURS}"}})
        async with mcp_server(config) as (_, view):
            server.fail("tools/call", Body(json.dumps(refusal).encode()))
            settled = await run_tool(view, "m__echo", '{"text": "a"}')
    assert settled.status is ToolResultStatus.ERROR
    assert "I do not know [redacted]" in words_of(settled)
    assert MARK not in str(settled)
    assert MARK not in caplog.text


@pytest.mark.requirement("HOSTILE-36")
@pytest.mark.parametrize("method", ["ping", "elicitation/create", "notifications/tools/list_changed"])
async def test_a_server_that_writes_without_end_holds_up_nobody(method: str) -> None:
    async with mcp_server(repeating(f"flood={method}", API_KEY="k")) as (_, view), Turns.watched() as turns:
        settled = await run_tool(view, "m__t", timeout=2)
    assert settled.failure is not None
    assert turns.longest < LONGEST_TURN_BESIDE_A_FLOOD


@pytest.mark.requirement("HOSTILE-35")
@pytest.mark.parametrize("depth", [600, 900, 980, 1100, 100_000])
async def test_a_result_that_is_nested_without_end_fails_at_once(depth: int) -> None:
    async with mcp_server(repeating(f"nested={depth}", API_KEY="k")) as (_, view):
        settled = await run_tool(view, "m__t", timeout=10)
    assert settled.status is ToolResultStatus.ERROR
    assert "nested too deeply" in words_of(settled)


@pytest.mark.requirement("HOSTILE-35")
async def test_an_app_whose_json_is_nested_without_end_gives_no_result() -> None:
    async def work(request: pb2.CallToolRequest, context: Context) -> AsyncIterator[pb2.CallToolResponse]:
        yield result(structured="[" * 100_000 + "]" * 100_000)

    async with up(App(call=work)) as app, toolset_of(app) as toolset:
        with pytest.raises(ToolError) as raised:
            await toolset.call(call_of())
    assert raised.value.failure.reason is Reason.TOOL_RESULT_INVALID
