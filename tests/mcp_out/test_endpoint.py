"""The MCP endpoint as its clients see it, of both eras: lists, calls, results, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from dataclasses import replace
from typing import Any, TypedDict

import mcp_types as types
import pytest
from identity.kit import ADMIN, SHOP, people
from mcp.shared.exceptions import MCPError
from mcp_out.kit import ERAS, SECONDS, Endpoint, endpoint
from tools.kit import FakeToolset, described

from turnwired.domain.message import Blob, Content, Data, OpaqueBlock, Part, ResourceLink, Text
from turnwired.domain.policy import ApprovalPolicy, PermissionAction, PermissionRule, Policy, ToolPolicy
from turnwired.domain.run import OPERATOR_ROLE, Agent
from turnwired.domain.tool import ToolSource
from turnwired.http import guard
from turnwired.tools.access import Access, AccessRule
from turnwired.tools.context import ToolContext
from turnwired.tools.port import ToolInvocation, ToolOutput
from turnwired.tools.python import tool
from turnwired.tools.registry import Source

pytestmark = pytest.mark.anyio

SECRET = "s3cret-of-a-customer"


class Sum(TypedDict):
    """A sum."""

    total: int


def add(a: int, b: int = 1) -> Sum:
    """Add two numbers."""
    return {"total": a + b}


@tool(destructive=True)
def wipe() -> str:
    """Delete everything."""
    return "gone"


def whoami(context: ToolContext) -> str:
    """Tell as whom the tool is called."""
    return f"{context.caller.tenant}/{context.caller.principal}/{','.join(sorted(context.caller.roles))}"


def text_of(result: types.CallToolResult) -> str:
    return "\n".join(item.text for item in result.content if isinstance(item, types.TextContent))


def giving(*content: Content, **fields: Any) -> Source:
    """A source with one tool, ``give``, that gives this."""
    output = ToolOutput(tuple(Part("", item) for item in content), **fields)
    return Source(FakeToolset("giver", [described("give")], output=lambda _: output))


async def given(source: Source, era: str, **settings: Any) -> types.CallToolResult:
    async with endpoint(sources=[source], **settings) as e, e.client(era=era) as client:
        return await client.call_tool("give", {})


@pytest.mark.requirement("MCPOUT-1", "MCPOUT-6")
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_finds_tools_and_calls_them_as_its_caller(era: str) -> None:
    async with endpoint(add, wipe, whoami, callers=people()) as e, e.client(SHOP, era) as client:
        listed = (await client.list_tools()).tools
        assert [found.name for found in listed] == ["add", "whoami", "wipe"]
        first, _, last = listed
        assert first.description == "Add two numbers."
        assert first.input_schema["required"] == ["a"]
        assert last.annotations is not None
        assert last.annotations.destructive_hint is True
        result = await client.call_tool("add", {"a": 41})
        assert (result.is_error, result.structured_content) == (False, {"total": 42})
        assert json.loads(text_of(result)) == {"total": 42}
        assert text_of(await client.call_tool("whoami", {})) == "acme/shop/support"


@pytest.mark.requirement("MCPOUT-1")
@pytest.mark.parametrize("era", ERAS)
async def test_a_call_that_cannot_be_made_says_why_in_words_that_a_model_can_act_on(era: str) -> None:
    async with endpoint(add) as e, e.client(era=era) as client:
        wrong = await client.call_tool("add", {"a": "x"})
        assert wrong.is_error
        assert '/a: the value is not of type "integer"' in text_of(wrong)
        with pytest.raises(MCPError) as unknown:
            await client.call_tool("ad", {})
        assert unknown.value.code == types.INVALID_PARAMS
        assert str(unknown.value) == "There is no tool 'ad', or it is not for this caller."


@pytest.mark.requirement("MCPOUT-3")
async def test_who_shows_no_token_that_counts_is_refused() -> None:
    async with endpoint(add, callers=people()) as e:
        for headers in ({}, {"authorization": "Bearer nobody-0123456789"}, {"authorization": f"Basic {SHOP}"}):
            answer = await e.post({}, headers)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, 'Bearer realm="turnwire"')
            assert answer.json()["error"] == "unauthenticated"


@pytest.mark.requirement("MCPOUT-3")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example:80"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"host": "localhost@evil.example"}, 421),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost.evil.example"}, 403),
        ({"origin": "file://localhost"}, 403),
        ({"host": "LOCALHOST:1", "origin": "http://[::1]:8000"}, 200),
        ({"host": "tools.example.com", "origin": "https://chat.example.com"}, 200),
        ({"host": "tools.example.com:8443"}, 200),
        ({"origin": "https://chat.example.com:444"}, 403),
    ],
)
async def test_requests_of_pages_and_names_that_are_not_ours_are_refused(headers: dict[str, str], status: int) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with endpoint(add, hosts=["tools.example.com"], origins=["https://chat.example.com"]) as e:
        assert (await e.post(ping, headers)).status_code == status


@pytest.mark.requirement("MCPOUT-4")
@pytest.mark.parametrize("era", ERAS)
async def test_what_is_not_for_the_outside_is_not_there_even_for_an_operator(era: str) -> None:
    operators = FakeToolset("operator", [described("read_file", source=ToolSource.OPERATOR)])
    rules = Access((AccessRule(frozenset((OPERATOR_ROLE,)), ("*",)), AccessRule(allow=("who*",), deny=("wipe",))))
    settings: dict[str, Any] = {
        "sources": [Source(operators)],
        "access": rules,
        "callers": people(),
        "agents": [Agent("helper", agents=("default",))],
    }
    async with endpoint(whoami, wipe, add, **settings) as e:
        for token, names in ((ADMIN, ["add", "whoami"]), (SHOP, ["whoami"])):
            async with e.client(token, era) as client:
                assert [found.name for found in (await client.list_tools()).tools] == names
                for hidden in ("read_file", "wipe", "agent__default", *({"add"} - set(names))):
                    with pytest.raises(MCPError) as unknown:
                        await client.call_tool(hidden, {"a": 1})
                    assert unknown.value.code == types.INVALID_PARAMS
    assert operators.calls == []


@pytest.mark.requirement("MCPOUT-5")
async def test_the_rules_of_the_deployment_hold_and_nobody_is_asked() -> None:
    def ruled(action: PermissionAction, name: str = "wipe") -> Policy:
        return Policy(approval=ApprovalPolicy(rules=(PermissionRule("tool", name, action),)))

    async def wiped(policy: Policy | None) -> tuple[bool, str]:
        async with endpoint(wipe, policy=policy) as e, e.client() as client:
            result = await client.call_tool("wipe", {})
            return result.is_error, text_of(result)

    failed, words = await wiped(None)  # destructive tools are asked about unless a rule says otherwise
    assert failed
    assert "a person has to approve this call of wipe, and nobody can be asked here" in words
    assert (await wiped(ruled(PermissionAction.ASK)))[0]
    failed, words = await wiped(ruled(PermissionAction.DENY))
    assert failed
    assert "the policy of this server denies wipe" in words
    assert await wiped(ruled(PermissionAction.ALLOW)) == (False, "gone")


@pytest.mark.requirement("MCPOUT-6")
@pytest.mark.parametrize("era", ERAS)
async def test_content_arrives_as_what_it_is(era: str) -> None:
    link = '{"type":"resource_link","uri":"https://example.com/a","name":"a","size":3}'
    source = giving(
        Text("words"),
        Data('{"a":1}'),
        Blob("image/png", b"\x89PNG"),
        Blob("audio/wav", b"RIFF"),
        Blob("application/pdf", b"%PDF", "file:///a.pdf"),
        Blob("text/plain", "Grüße".encode(), "file:///a.txt"),
        Blob("text/plain", b"\xff", "file:///b.txt"),
        ResourceLink("https://example.com/b", "", "text/html"),
        OpaqueBlock("mcp/resource_link", link),
        OpaqueBlock("mcp/new", '{"type":"new","x":1}'),
    )
    content = (await given(source, era)).content
    assert [item.type for item in content] == [
        *(
            "text",
            "text",
            "image",
            "audio",
            "resource",
            "resource",
            "resource",
            "resource_link",
            "resource_link",
            "text",
        )
    ]
    image, pdf, text, broken, named, opaque = content[2], content[4], content[5], content[6], content[7], content[9]
    assert isinstance(image, types.ImageContent)
    assert (image.mime_type, base64.b64decode(image.data)) == ("image/png", b"\x89PNG")
    assert isinstance(pdf, types.EmbeddedResource)
    assert isinstance(pdf.resource, types.BlobResourceContents)
    assert (pdf.resource.uri, base64.b64decode(pdf.resource.blob)) == ("file:///a.pdf", b"%PDF")
    assert isinstance(text, types.EmbeddedResource)
    assert isinstance(text.resource, types.TextResourceContents)
    assert text.resource.text == "Grüße"
    assert isinstance(broken, types.EmbeddedResource)
    assert isinstance(broken.resource, types.BlobResourceContents)
    assert isinstance(named, types.ResourceLink)
    assert (named.name, named.mime_type) == ("https://example.com/b", "text/html")
    assert isinstance(opaque, types.TextContent)
    assert opaque.text == '{"type":"new","x":1}'


@pytest.mark.requirement("MCPOUT-6")
async def test_structure_that_is_no_object_is_for_clients_that_know_it() -> None:
    source = giving(structured_json="[1,2]")
    old, new = [await given(source, era) for era in ERAS]
    assert (old.structured_content, new.structured_content) == (None, [1, 2])
    assert text_of(old) == text_of(new) == "[1,2]"


@pytest.mark.requirement("MCPOUT-7")
@pytest.mark.parametrize("era", ERAS)
async def test_a_result_without_the_structure_that_was_promised_is_an_error_and_no_broken_call(era: str) -> None:
    schema = '{"type":"object","properties":{"all":{"type":"string"}},"required":["all"]}'
    promising = replace(described("give"), output_schema_json=schema)
    whole = '{"all":"' + "x" * 1000 + '"}'
    source = Source(FakeToolset("giver", [promising], output=lambda _: ToolOutput((), whole)))
    policy = Policy(tool=ToolPolicy(max_result_bytes=100))
    async with endpoint(sources=[source], policy=policy) as e, e.client(era=era) as client:
        listed = (await client.list_tools()).tools  # from here on the client holds results against the schema
        assert listed[0].output_schema == json.loads(schema)
        result = await client.call_tool("give", {})
    assert result.is_error
    assert text_of(result).startswith("The tool ran, but its result does not come in the structure")
    assert "The result was cut: it has" in text_of(result)
    async with endpoint(sources=[source]) as e, e.client(era=era) as client:
        await client.list_tools()
        result = await client.call_tool("give", {})
    assert (result.is_error, result.structured_content) == (False, json.loads(whole))


@pytest.mark.requirement("MCPOUT-8")
@pytest.mark.parametrize("era", ERAS)
async def test_a_long_list_comes_in_pages_that_say_how_long_they_are_fresh(era: str) -> None:
    many = Source(FakeToolset("many", [described(f"tool_{number:04}") for number in range(1203)]))
    async with endpoint(sources=[many]) as e, e.client(era=era) as client:
        pages = [await client.list_tools()]
        while (cursor := pages[-1].next_cursor) is not None and len(pages) < 10:
            pages.append(await client.list_tools(cursor=cursor))
    assert [len(page.tools) for page in pages] == [500, 500, 203]
    names = [found.name for page in pages for found in page.tools]
    assert names == [f"tool_{number:04}" for number in range(1203)]
    if era != "legacy":
        assert {(page.ttl_ms, page.cache_scope) for page in pages} == {(5000, "private")}


@pytest.mark.requirement("MCPOUT-4", "MCPOUT-8")
async def test_what_runs_have_to_look_for_is_listed_and_what_finds_it_is_not() -> None:
    many = Source(FakeToolset("many", [described(f"tool_{number}") for number in range(9)]))
    async with endpoint(sources=[many], find_above=5) as e, e.client() as client:
        assert [found.name for found in (await client.list_tools()).tools] == [f"tool_{number}" for number in range(9)]
        with pytest.raises(MCPError):
            await client.call_tool("find_tools", {"query": "tool"})


@pytest.mark.requirement("MCPOUT-9")
@pytest.mark.parametrize("era", ERAS)
async def test_progress_reaches_a_client_that_asks_for_it(era: str) -> None:
    async def work(context: ToolContext) -> str:
        """Work, and tell how far it is."""
        for done in range(3):
            context.progress(done, 3, f"step {done}")
            await asyncio.sleep(0)
        return "done"

    told: list[tuple[float, float | None, str | None]] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with endpoint(work) as e, e.client(era=era) as client:
        assert text_of(await client.call_tool("work", {}, progress_callback=tell)) == "done"
        assert text_of(await client.call_tool("work", {})) == "done"
    assert told == [(done, 3, f"step {done}") for done in range(3)]


@pytest.mark.requirement("MCPOUT-9")
async def test_a_client_that_leaves_ends_its_call() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def hang() -> str:
        """Wait."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    for era in ERAS:
        begun.clear()
        ended.clear()
        async with endpoint(hang) as e, asyncio.timeout(SECONDS):

            async def call(e: Endpoint = e, era: str = era) -> None:
                async with e.client(era=era) as client:
                    await client.call_tool("hang", {})

            task = asyncio.create_task(call())
            await begun.wait()
            task.cancel()
            await asyncio.wait([task])
            if era == "legacy":
                continue  # it says so in a request of its own, which no server without sessions can relate to the call
            await ended.wait()
        assert ended.is_set()


@pytest.mark.requirement("MCPOUT-10")
async def test_a_request_is_bounded_in_size() -> None:
    async with endpoint(add, max_request_bytes=2048) as e:
        assert (await e.post(b"x" * 2049)).status_code == 413
        assert (await e.post(b"x" * 2048)).status_code == 400


@pytest.mark.requirement("MCPOUT-10")
async def test_calls_are_bounded_in_number_and_one_too_many_is_told_so() -> None:
    release, begun = asyncio.Event(), asyncio.Semaphore(0)

    async def hold() -> str:
        """Wait."""
        begun.release()
        await release.wait()
        return "held"

    async with endpoint(hold) as e, e.client(era="2026-07-28") as client, asyncio.timeout(SECONDS):
        e.engine.outside.most = 2
        calls = [asyncio.create_task(client.call_tool("hold", {})) for _ in range(2)]
        for _ in calls:
            await begun.acquire()
        refused = await client.call_tool("hold", {})
        assert refused.is_error
        assert text_of(refused) == "2 calls are under way, which is the most this server takes; try again."
        release.set()
        assert [text_of(await call) for call in calls] == ["held", "held"]
        assert text_of(await client.call_tool("hold", {})) == "held"


@pytest.mark.requirement("MCPOUT-11")
@pytest.mark.parametrize("era", ERAS)
async def test_a_call_under_way_may_end_and_nothing_is_left(era: str, caplog: pytest.LogCaptureFixture) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def hold(context: ToolContext) -> str:
        """Wait."""
        begun.set()
        await release.wait()
        return "held"

    async def stopped(e: Endpoint) -> None:
        await begun.wait()
        stopping = asyncio.create_task(e.server.stop(10.0))
        await asyncio.sleep(0)
        release.set()
        await stopping

    before = asyncio.all_tasks()
    with caplog.at_level(logging.WARNING):
        async with endpoint(hold) as e, e.client(era=era) as client, asyncio.timeout(SECONDS):
            await client.list_tools()  # else the client asks for it behind the call
            stopping = asyncio.create_task(stopped(e))
            assert text_of(await client.call_tool("hold", {})) == "held"
            await stopping
            with pytest.raises(OSError, match="onnect"):
                await asyncio.open_connection("127.0.0.1", int(e.url.rpartition(":")[2].partition("/")[0]))
    assert [task for task in asyncio.all_tasks() - before if not task.done()] == []
    assert [record.getMessage() for record in caplog.records if record.name.startswith(("turnwired", "uvicorn"))] == []


@pytest.mark.requirement("MCPOUT-11")
@pytest.mark.parametrize("era", ERAS)
async def test_a_call_that_does_not_end_is_cut_after_the_grace(era: str, caplog: pytest.LogCaptureFixture) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def hang() -> str:
        """Wait."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    async def call(e: Endpoint) -> None:
        async with e.client(era=era) as client:
            await client.call_tool("hang", {})

    async with endpoint(hang) as e, asyncio.timeout(SECONDS):
        task = asyncio.create_task(call(e))
        await begun.wait()
        await e.server.stop(0.0)
        assert ended.is_set()
        await asyncio.wait([task])
        assert task.exception() is not None
    told = [record.getMessage() for record in caplog.records if record.name.startswith(("turnwired", "uvicorn"))]
    # Whether uvicorn's own line comes is up to whatever set its logger in this process; nothing else may.
    assert set(told) <= {"Cancel 1 running task(s), timeout graceful shutdown exceeded"}


@pytest.mark.requirement("MCPOUT-12")
@pytest.mark.parametrize("era", ERAS)
async def test_faults_are_told_without_their_words(
    era: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(FakeToolset):
        async def call(self, invocation: ToolInvocation) -> ToolOutput:
            raise RuntimeError(SECRET)

    source = Source(Broken("broken", [described("give")]))
    with caplog.at_level(logging.DEBUG, logger="turnwired"):
        async with endpoint(sources=[source]) as e, e.client(era=era) as client:
            result = await client.call_tool("give", {})
            assert result.is_error
            assert "its source raised RuntimeError" in text_of(result)
            monkeypatch.setattr(e.engine.outside, "call", _raising)
            result = await client.call_tool("give", {"x": SECRET})
            assert text_of(result) == "The server failed while it handled the call. Its log has the details."
            await e.post(
                {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": SECRET, "arguments": 7}}
            )
            await e.post(json.dumps({"jsonrpc": "2.0", "id": SECRET, "method": 7}).encode())
    told = "".join(logging.Formatter().format(record) for record in caplog.records if record.name != "httpx2")
    assert "a call of give failed" in told
    assert SECRET not in told
    assert SECRET not in repr(result)


async def _raising(*_: object) -> object:
    raise ValueError(SECRET)


async def _spoken(e: Endpoint, data: bytes) -> bytes:
    """What the server answers on a plain connection until it ends it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(e.url.rpartition(":")[2].partition("/")[0]))
    try:
        writer.write(data)
        await writer.drain()
        return await reader.read()
    finally:
        writer.close()


HEAD = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"


@pytest.mark.requirement("MCPOUT-10")
async def test_a_request_that_does_not_come_to_its_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.1)
    async with endpoint(add) as e, asyncio.timeout(SECONDS):
        answer = await _spoken(e, HEAD + b'{"a"')
    assert b"200 OK" not in answer


@pytest.mark.requirement("MCPOUT-10")
async def test_connections_are_bounded_in_number() -> None:
    async with endpoint(add, max_connections=2) as e, asyncio.timeout(SECONDS):
        port = int(e.url.rpartition(":")[2].partition("/")[0])
        last = HEAD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + b"123456789"
        held = [await asyncio.open_connection("127.0.0.1", port)]
        assert not (await _spoken(e, last)).startswith(b"HTTP/1.1 503 ")
        held.append(await asyncio.open_connection("127.0.0.1", port))
        assert (await _spoken(e, last)).startswith(b"HTTP/1.1 503 ")
        for _, writer in held:
            writer.close()
