"""What callers may ask, and what they are told when they may not."""

from __future__ import annotations

import json
from collections.abc import Callable

import grpc
import pytest
from engine.faults import FaultyStore
from google.rpc import error_details_pb2
from rpc.server import SECONDS, connected, details, prompt

from turnwire.v1 import (
    message_pb2,
    model_pb2,
    outcome_pb2,
    policy_pb2,
    server_service_pb2,
    session_service_pb2,
    session_service_pb2_grpc,
    tool_pb2,
    turn_service_pb2,
)
from turnwired.domain.errors import CodecError, FieldViolation, StoreUnavailable
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.run import Caller
from turnwired.domain.tool import CollisionResolution, ToolCollision, ToolRef, ToolSource
from turnwired.rpc import request as read
from turnwired.rpc.request import turn_spec
from turnwired.testing.provider import answer
from turnwired.tools.port import ToolInvocation

pytestmark = pytest.mark.anyio

Break = Callable[[turn_service_pb2.RunTurnRequest], object]


def _bad_role(request: turn_service_pb2.RunTurnRequest) -> None:
    request.turn.input[0].role = message_pb2.ROLE_UNSPECIFIED


def _open_call(request: turn_service_pb2.RunTurnRequest) -> None:
    request.turn.input.add(role=message_pb2.ROLE_ASSISTANT).parts.add().tool_call.call_id = "c1"
    request.turn.input.add(role=message_pb2.ROLE_USER).parts.add().text = "and?"


def _long_schema(request: turn_service_pb2.RunTurnRequest) -> None:
    request.turn.output_format.json_schema = json.dumps({"title": "x" * read.MAX_SCHEMA_BYTES})


def _blob(request: turn_service_pb2.RunTurnRequest, media_type: str, data: bytes) -> None:
    blob = request.turn.input[0].parts.add().blob
    blob.media_type, blob.data = media_type, data


INVALID: list[tuple[str, Break]] = [
    ("turn.input", lambda r: r.turn.ClearField("input")),
    ("turn.input[0].parts", lambda r: r.turn.input[0].ClearField("parts")),
    ("turn.input[0].parts", lambda r: setattr(r.turn.input[0].parts[0], "text", " \n")),
    ("turn.input[0].role", _bad_role),
    ("turn.input[2]", _open_call),
    ("turn.session_id", lambda r: setattr(r.turn, "session_id", "no spaces")),
    ("turn.request_id", lambda r: setattr(r.turn, "request_id", "x" * 65)),
    ("turn.labels", lambda r: r.turn.labels.update({str(i): "x" for i in range(17)})),
    ("turn.policy.loop.max_steps", lambda r: setattr(r.turn.policy.loop.max_steps, "value", 0)),
    (
        "turn.policy.loop.max_steps",
        lambda r: setattr(r.turn.policy.loop.max_steps, "mode", policy_pb2.LIMIT_MODE_UNBOUNDED),
    ),
    ("turn.model.provider", lambda r: setattr(r.turn.model, "provider", "nobody")),
    ("turn.model.provider_options_json", lambda r: setattr(r.turn.model, "provider_options_json", "[1]")),
    ("turn.model.provider_options_json", lambda r: setattr(r.turn.model, "provider_options_json", '{"a":NaN}')),
    ("turn.model.provider_options_json", lambda r: setattr(r.turn.model, "provider_options_json", "[" * 100_000)),
    ("turn.model.options.temperature", lambda r: setattr(r.turn.model.options, "temperature", -1)),
    ("turn.model.options.thinking.budget_tokens", lambda r: setattr(r.turn.model.options.thinking, "budget_tokens", 5)),
    ("turn.output_format.json_schema", lambda r: setattr(r.turn.output_format, "json_schema", "[]")),
    ("turn.output_format.json_schema", lambda r: setattr(r.turn.output_format, "json_schema", "[" * 100_000)),
    ("turn.output_format.json_schema", lambda r: setattr(r.turn.output_format, "json_schema", '{"type":3}')),
    ("turn.output_format.json_schema", _long_schema),
    ("turn.output_format.name", lambda r: setattr(r.turn.output_format, "name", "no spaces")),
    ("turn.input[0].parts[1].blob.media_type", lambda r: _blob(r, "png", b"x")),
    ("turn.input[0].parts[1].blob.data", lambda r: _blob(r, "image/png", b"")),
    ("turn.on_busy", lambda r: setattr(r.turn, "on_busy", 99)),
    ("after.epoch", lambda r: setattr(r.after, "sequence", 3)),
    ("stream_detail", lambda r: setattr(r, "stream_detail", 99)),
    ("on_disconnect", lambda r: setattr(r, "on_disconnect", 99)),
]


@pytest.mark.requirement("RPC-1", "OUT-9", "OUT-12", "OUT-20")
@pytest.mark.parametrize(("path", "change"), INVALID, ids=[f"{i}-{p}" for i, (p, _) in enumerate(INVALID)])
async def test_a_bad_request_is_refused_with_the_path_of_each_broken_rule(path: str, change: Break) -> None:
    async with connected([answer("never")]) as c:
        request = prompt()
        change(request)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await c.run(request)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        info, others = details(caught.value)
        assert info.domain == "turnwire.v1"
        bad = next(item for item in others if isinstance(item, error_details_pb2.BadRequest))
        assert path in [violation.field for violation in bad.field_violations]
        assert c.world.provider.requests == []


@pytest.mark.requirement("OUT-20")
async def test_a_file_of_which_there_is_only_an_address_is_refused_with_what_is_not_done() -> None:
    async with connected([answer("never")]) as c:
        request = prompt()
        _blob(request, "image/png", b"")
        request.turn.input[0].parts[1].blob.uri = "https://a.example/b.png"
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await c.run(request)
    words = "must not be empty; the server fetches nothing from uri"
    assert caught.value.details() == f"turn.input[0].parts[1].blob.data: {words}"


UNSUPPORTED: list[tuple[str, Break]] = [
    ("turn.on_busy", lambda r: setattr(r.turn, "on_busy", turn_service_pb2.ON_BUSY_QUEUE)),
]


@pytest.mark.requirement("RPC-2")
@pytest.mark.parametrize(("path", "change"), UNSUPPORTED, ids=[path for path, _ in UNSUPPORTED])
async def test_an_option_that_is_not_enforced_is_refused_and_never_ignored(path: str, change: Break) -> None:
    async with connected([answer("never")]) as c:
        request = prompt()
        change(request)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await c.run(request)
        info, others = details(caught.value)
        assert (info.reason, info.metadata["option"]) == ("OPTION_NOT_SUPPORTED", path)
        bad = next(item for item in others if isinstance(item, error_details_pb2.BadRequest))
        assert [violation.field for violation in bad.field_violations] == [path]
        assert c.world.provider.requests == []


@pytest.mark.requirement("RPC-3")
async def test_unknown_agents_sessions_and_runs_are_not_found_with_error_info() -> None:
    async with connected([]) as c:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await c.run(prompt(agent_id="nobody"))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        assert details(caught.value)[0].reason == "AGENT_NOT_FOUND"
        for ask in (
            c.turns.ListTools(turn_service_pb2.ListToolsRequest(session_id="s"), timeout=SECONDS),
            c.turns.ResolvePolicy(turn_service_pb2.ResolvePolicyRequest(session_id="s"), timeout=SECONDS),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await ask
            assert caught.value.code() is grpc.StatusCode.NOT_FOUND
            assert details(caught.value)[0].reason == "SESSION_NOT_FOUND"
        run = turn_service_pb2.GetRunRequest(run_id="run_unknown")
        for call in (
            c.turns.GetRun(run, timeout=SECONDS),
            c.turns.CancelRun(turn_service_pb2.CancelRunRequest(run_id="run_unknown"), timeout=SECONDS),
            c.turns.WatchRun(turn_service_pb2.WatchRunRequest(run_id="run_unknown"), timeout=SECONDS).read(),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            assert caught.value.code() is grpc.StatusCode.NOT_FOUND
            assert details(caught.value)[0].reason == "RUN_NOT_FOUND"


def _many_messages(request: turn_service_pb2.RunTurnRequest) -> None:
    for _ in range(5_000):
        request.turn.input.add(role=message_pb2.ROLE_USER)


LONG: list[tuple[str, Break]] = [
    ("many", _many_messages),
    ("a word", lambda r: setattr(r.turn.model, "provider", "x" * 100_000)),
    ("a word in another script", lambda r: setattr(r.turn.model, "provider", "\N{SNOWMAN}" * 30_000)),
    ("a path", lambda r: r.turn.policy.loop.max_tool_calls_per_tool["x" * 100_000].SetInParent()),
]


@pytest.mark.requirement("RPC-6")
@pytest.mark.parametrize("change", [change for _, change in LONG], ids=[name for name, _ in LONG])
async def test_an_error_arrives_as_itself_however_much_is_wrong(change: Break) -> None:
    async with connected([]) as c:
        request = prompt()
        change(request)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await c.run(request)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        _, others = details(caught.value)
        bad = next(item for item in others if isinstance(item, error_details_pb2.BadRequest))
        assert bad.field_violations
        metadata = caught.value.trailing_metadata() or ()
        assert sum(len(key) + len(value) for key, value in metadata) < 8192


@pytest.mark.requirement("RPC-6")
async def test_an_unknown_id_of_any_length_is_not_found() -> None:
    async with connected([]) as c:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await c.turns.GetRun(turn_service_pb2.GetRunRequest(run_id="x" * 100_000), timeout=SECONDS)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        assert details(caught.value)[0].reason == "RUN_NOT_FOUND"


@pytest.mark.requirement("RPC-9")
@pytest.mark.parametrize(
    ("fault", "code", "reason"),
    [
        (StoreUnavailable("/var/lib/x.db: disk full"), grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE"),
        (CodecError("row /var/lib/x.db"), grpc.StatusCode.INTERNAL, "INTERNAL"),
        (KeyError("a bug"), grpc.StatusCode.INTERNAL, "INTERNAL"),
    ],
)
async def test_a_fault_of_ours_is_told_to_the_log_and_not_to_the_caller(
    fault: Exception, code: grpc.StatusCode, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected([], store=FaultyStore(create_fault=fault)) as c:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await c.run(prompt())
    assert caught.value.code() is code
    assert details(caught.value)[0].reason == reason
    assert "/var/lib" not in str(caught.value)
    assert "log" in (caught.value.details() or "")
    assert f"RunTurn failed: {type(fault).__name__}" in caplog.text
    assert "a bug" not in caplog.text


@pytest.mark.requirement("RPC-7")
def test_checking_a_request_takes_time_in_proportion_to_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MAX_INPUT_PARTS", 10**6)
    turn = turn_service_pb2.TurnSpec()
    asked, answered = turn.input.add(role=message_pb2.ROLE_ASSISTANT), turn.input.add(role=message_pb2.ROLE_TOOL)
    for number in range(100_000):  # comparing each with each would take longer than a test may
        asked.parts.add().tool_call.call_id = f"call-{number}"
        result = answered.parts.add().tool_result
        result.call_id, result.status = f"call-{99_999 - number}", message_pb2.TOOL_RESULT_STATUS_OK
    turn.input.add(role=message_pb2.ROLE_USER).parts.add().text = "go on"
    assert len(turn_spec(turn, Caller()).input) == 3


@pytest.mark.requirement("RPC-1")
async def test_paths_are_those_of_the_request_that_was_made() -> None:
    async with connected([]) as c:
        ask = turn_service_pb2.ResolvePolicyRequest(model=model_pb2.ModelSelection(provider="nobody"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await c.turns.ResolvePolicy(ask, timeout=SECONDS)
        _, others = details(caught.value)
        bad = next(item for item in others if isinstance(item, error_details_pb2.BadRequest))
        assert [violation.field for violation in bad.field_violations] == ["model.provider"]


@pytest.mark.requirement("RPC-1")
async def test_a_page_token_of_no_listing_is_refused_as_such() -> None:
    async with connected([]) as c:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await c.turns.ListRuns(turn_service_pb2.ListRunsRequest(page_token="!"), timeout=SECONDS)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert details(caught.value)[0].reason == "PAGE_TOKEN_INVALID"


@pytest.mark.requirement("RPC-8")
async def test_tools_are_listed_in_pages_each_with_what_the_rules_say_of_it() -> None:
    async def ok(invocation: ToolInvocation) -> str:
        return "ok"

    async with connected([answer("hi")], {"b": ok, "a": ok, "c": ok}) as c:
        await c.run(prompt(session_id="s"))
        first = await c.turns.ListTools(turn_service_pb2.ListToolsRequest(page_size=2, session_id="s"), timeout=SECONDS)
        rest = await c.turns.ListTools(
            turn_service_pb2.ListToolsRequest(page_token=first.next_page_token, session_id="s"), timeout=SECONDS
        )
    assert [[tool.ref.routed_name for tool in page.tools] for page in (first, rest)] == [["a", "b"], ["c"]]
    assert not rest.next_page_token
    assert {tool.permission for tool in [*first.tools, *rest.tools]} == {policy_pb2.PERMISSION_ACTION_ALLOW}


@pytest.mark.requirement("RPC-26")
async def test_collisions_and_what_else_is_left_out_are_told_apart_and_once() -> None:
    async def ok(invocation: ToolInvocation) -> str:
        return "ok"

    holder, other = ToolRef("a", "a", ToolSource.LOCAL), ToolRef("a", "a", ToolSource.MCP, "m")
    async with connected([], {"a": ok, "b": ok}) as c:
        c.world.registry.failures = (Failure(FailurePhase.ROUTING, Reason.TOOL_QUARANTINED, "is odd"),)
        c.world.registry.collisions = (ToolCollision("a", holder, (other,), CollisionResolution.PRIORITY),)
        first = await c.turns.ListTools(turn_service_pb2.ListToolsRequest(page_size=1), timeout=SECONDS)
        rest = await c.turns.ListTools(
            turn_service_pb2.ListToolsRequest(page_token=first.next_page_token), timeout=SECONDS
        )
    assert [failure.reason for failure in first.source_failures] == [outcome_pb2.REASON_TOOL_QUARANTINED]
    (collision,) = first.collisions
    assert collision.routed_name == "a"
    assert collision.winner.source == tool_pb2.TOOL_SOURCE_LOCAL
    assert [loser.server_id for loser in collision.losers] == ["m"]
    assert collision.resolution == tool_pb2.COLLISION_RESOLUTION_PRIORITY
    assert (len(rest.source_failures), len(rest.collisions)) == (0, 0)


@pytest.mark.requirement("RPC-4")
async def test_rpcs_of_the_contract_that_are_not_built_answer_unimplemented_with_a_sentence() -> None:
    async with connected([]) as c:
        sessions: session_service_pb2_grpc.SessionServiceAsyncStub = session_service_pb2_grpc.SessionServiceStub(
            c.channel
        )
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await sessions.GetSession(session_service_pb2.GetSessionRequest(session_id="s"), timeout=SECONDS)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert "does not implement it yet" in (caught.value.details() or "")


@pytest.mark.requirement("RPC-5")
async def test_get_server_info_says_version_capabilities_and_providers_without_secrets() -> None:
    async with connected([]) as c:
        info = await c.server.GetServerInfo(server_service_pb2.GetServerInfoRequest(), timeout=SECONDS)
    assert info.api_version == "v1"
    assert server_service_pb2.SERVER_CAPABILITY_START_TURN in info.capabilities
    assert [provider.provider for provider in info.providers] == ["scripted"]
    assert info.default_agent_id == "default"


@pytest.mark.requirement("OUT-20")
async def test_an_image_of_several_megabytes_reaches_the_provider() -> None:
    async with connected([answer("A cat.")]) as c:
        request = prompt("What is this?")
        _blob(request, "image/png", bytes(5 << 20))
        events = [event for frame in await c.run(request) for event in frame.events]
        assert events[-1].WhichOneof("event") == "run_finished"
        assert c.world.provider.messages(0)[-1]["parts"] == [
            "What is this?",
            {"file": "image/png", "bytes": 5 << 20},
        ]


@pytest.mark.requirement("OUT-13", "OUT-11")
async def test_a_structured_run_with_options_gives_its_value_to_streams_and_readers() -> None:
    async with connected([answer('{"n":1}')]) as c:
        request = prompt()
        request.turn.output_format.json_schema = '{"type":"object"}'
        request.turn.output_format.name = "any_object"
        request.turn.model.options.temperature = 0.5
        events = [event for frame in await c.run(request) for event in frame.events]
        assert events[-1].run_finished.structured_output_json == '{"n":1}'
        run_id = events[0].run_started.run_id
        read_again = await c.turns.GetRun(turn_service_pb2.GetRunRequest(run_id=run_id), timeout=SECONDS)
        assert read_again.structured_output_json == '{"n":1}'
        assert events[0].run_started.model.options.temperature == 0.5


@pytest.mark.requirement("OUT-11")
async def test_an_option_that_the_provider_does_not_take_is_unimplemented_with_its_path() -> None:
    async with connected([answer("never")]) as c:
        path = "turn.model.options.seed"
        c.world.provider.refuses = lambda request: (
            [FieldViolation(path, "takes no seed")] if request.options.seed else []
        )
        request = prompt()
        request.turn.model.options.seed = 3
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await c.run(request)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert details(caught.value)[0].metadata["option"] == path
