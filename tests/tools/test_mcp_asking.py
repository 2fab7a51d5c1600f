"""Questions that MCP servers ask while they work on a call, of both eras."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import anyio
import pytest
from execution.served import served, turn, words
from tools.kit import RecordingTelemetry, at, invocation, mcp_server, words_of
from tools.servers.http_server import HttpMcp, http_mcp, tool

from turnwire.v1 import approval_pb2, message_pb2
from turnwired.domain.message import ToolResult, ToolResultStatus
from turnwired.testing.provider import answer, calls
from turnwired.tools.mcp.asking import until_complete
from turnwired.tools.mcp.link import Answered, Asking
from turnwired.tools.mcp.session import SessionLink
from turnwired.tools.mcp.toolset import McpToolset
from turnwired.tools.port import InputAnswer, InputRequest, ToolView
from turnwired.tools.registry import Source

ERAS = pytest.mark.parametrize("modern", [False, True], ids=["2025", "2026"])
PAGES = [[tool("ask"), tool("echo")]]


class Person:
    """Answers with what a test gave, and remembers what was asked."""

    def __init__(self, answer: InputAnswer, seconds: float = 0.0) -> None:
        self.asked: list[InputRequest] = []
        self._answer = answer
        self._seconds = seconds

    async def ask(self, request: InputRequest) -> InputAnswer:
        """Part of the port."""
        self.asked.append(request)
        await anyio.sleep(self._seconds)
        return self._answer


async def call(view: ToolView, person: Person | None, run_id: str = "r") -> ToolResult:
    """Call the tool that asks."""
    asked = replace(invocation({}, timeout=20), run_id=run_id, ask=None if person is None else person.ask)
    return await view.execute("m__ask", asked, None)


@pytest.mark.requirement("MCPH-22")
@ERAS
async def test_a_form_is_put_to_the_person_and_its_values_go_back(modern: bool) -> None:
    person = Person(InputAnswer("accept", {"size": "M"}))
    async with http_mcp(HttpMcp(modern=modern, pages=PAGES)) as server, mcp_server(at(server.url)) as (_, view):
        result = await call(view, person)
        assert result.status is ToolResultStatus.OK
        assert json.loads(words_of(result)) == {"action": "accept", "content": {"size": "M", "colour": "red"}}
        (asked,) = person.asked
        assert asked.message == "m: Which size?"
        assert json.loads(asked.schema_json or "")["required"] == ["size"]
        if modern:
            again = [seen.message["params"] for seen in server.seen if seen.tool == "ask"][1]
            assert again["requestState"] == "s-1"


@pytest.mark.requirement("MCPH-22")
@ERAS
async def test_a_run_waits_with_the_question_as_an_approval_and_the_server_gets_the_answer(modern: bool) -> None:
    script = [calls(("m__ask", "{}")), answer("Ordered.")]
    async with http_mcp(HttpMcp(modern=modern, pages=PAGES)) as server:
        source = Source(McpToolset("m", at(server.url), RecordingTelemetry()), namespace="m")
        async with served(script, sources=[source]) as s:
            seen, task = s.follow(turn())
            await seen.until("run_waiting")
            (question,) = await s.approvals()
            assert (question.kind, question.title) == (approval_pb2.APPROVAL_KIND_INPUT, "m: Which size?")
            filled = json.dumps({"size": "M"})
            await s.resolve(question, approval_pb2.APPROVAL_DECISION_ONCE, input_json=filled)
            await task
    (result,) = seen.results
    assert result.status == message_pb2.TOOL_RESULT_STATUS_OK
    assert json.loads(words(result)) == {"action": "accept", "content": {"size": "M", "colour": "red"}}
    assert seen.kinds().count("run_resumed") == 1


@pytest.mark.requirement("MCPH-22")
@ERAS
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_person_who_declines_gives_no_values(modern: bool, action: Any) -> None:
    async with http_mcp(HttpMcp(modern=modern, pages=PAGES)) as server, mcp_server(at(server.url)) as (_, view):
        result = await call(view, Person(InputAnswer(action, {"size": "M"})))
        assert json.loads(words_of(result)) == {"action": action}


@pytest.mark.requirement("MCPH-22")
@ERAS
async def test_a_page_to_visit_is_a_question_of_consent_with_its_address(modern: bool) -> None:
    page = {"mode": "url", "message": "Sign in", "url": "https://bank.example/x", "elicitationId": "e"}
    person = Person(InputAnswer("accept"))
    first = HttpMcp(modern=modern, pages=PAGES, question=page)
    async with http_mcp(first) as server, mcp_server(at(server.url)) as (_, view):
        assert json.loads(words_of(await call(view, person))) == {"action": "accept"}
        assert person.asked[0].message == "m: Sign in\nhttps://bank.example/x"
        assert person.asked[0].schema_json is None


@pytest.mark.requirement("MCPH-22")
async def test_without_a_person_to_ask_the_server_is_told_so() -> None:
    async with http_mcp(HttpMcp(modern=False, pages=PAGES)) as server, mcp_server(at(server.url)) as (_, view):
        assert json.loads(words_of(await call(view, None))) == {"action": "cancel"}
    async with http_mcp(HttpMcp(modern=True, pages=PAGES)) as server, mcp_server(at(server.url)) as (_, view):
        result = await call(view, None)
        assert result.status is ToolResultStatus.ERROR
        assert "asks for more" in words_of(result)
        meta = next(seen.message["params"]["_meta"] for seen in server.seen if seen.tool == "ask")
        assert meta["io.modelcontextprotocol/clientCapabilities"] == {}


@pytest.mark.requirement("MCPH-22")
@ERAS
async def test_calls_side_by_side_ask_their_own_people(modern: bool) -> None:
    people = {name: Person(InputAnswer("accept", {"size": name}), 0.05) for name in ("a", "b", "c", "d")}
    results: dict[str, ToolResult] = {}
    async with http_mcp(HttpMcp(modern=modern, pages=PAGES)) as server, mcp_server(at(server.url)) as (_, view):

        async def one(name: str) -> None:
            results[name] = await call(view, people[name], f"run-{name}")

        async with anyio.create_task_group() as group:
            for name in people:
                group.start_soon(one, name)
    for name, person in people.items():
        assert len(person.asked) == 1
        assert json.loads(words_of(results[name]))["content"]["size"] == name


@pytest.mark.requirement("MCPH-22")
@ERAS
async def test_the_time_in_which_a_person_thinks_is_not_the_servers(modern: bool) -> None:
    person = Person(InputAnswer("accept", {"size": "M"}), 1.5)
    first = HttpMcp(modern=modern, pages=PAGES)
    async with http_mcp(first) as server, mcp_server(at(server.url, call_timeout=1.0)) as (_, view):
        assert (await call(view, person)).status is ToolResultStatus.OK


@pytest.mark.requirement("MCPH-22")
async def test_a_server_that_asks_for_ever_is_not_answered_for_ever() -> None:
    pages = [[tool("ask")]]
    person = Person(InputAnswer("accept", {"size": "M"}))
    async with http_mcp(HttpMcp(pages=pages)) as server, mcp_server(at(server.url)) as (_, view):
        result_of = server._called

        def always(params: dict[str, Any], done: dict[str, Any]) -> dict[str, Any]:
            params = {key: value for key, value in params.items() if key != "inputResponses"}
            return result_of(params, done)

        server._called = always  # type: ignore[method-assign]
        result = await call(view, person)
        assert result.status is ToolResultStatus.ERROR
        assert len(person.asked) == 10


@pytest.mark.requirement("MCPH-22")
async def test_what_is_no_question_to_a_person_is_not_answered() -> None:
    wanted = {"a": {"method": "sampling/createMessage", "params": {}}}
    first = Answered({"resultType": "input_required", "inputRequests": wanted})
    person = Person(InputAnswer("accept"))

    async def ask(more: object) -> Answered:
        return first

    assert await until_complete(ask, Asking("m", "r", person.ask)) is first
    assert not person.asked


@pytest.mark.requirement("MCPH-22")
async def test_where_all_calls_share_a_stream_nobody_is_asked_about_anothers_call() -> None:
    link = SessionLink.__new__(SessionLink)
    mine, other = (Asking("m", run, Person(InputAnswer("accept")).ask) for run in ("mine", "other"))
    link._open = {1: mine}
    assert link._whom_to_ask() is mine
    link._open = {1: mine, 2: replace(mine)}
    assert link._whom_to_ask() is mine
    for in_flight in ({1: mine, 2: other}, {1: mine, 2: None}, {}):
        link._open = dict(in_flight)
        assert link._whom_to_ask() is None
