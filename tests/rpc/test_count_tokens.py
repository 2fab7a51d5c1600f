"""CountTokens over gRPC."""

from __future__ import annotations

import grpc
import pytest
from rpc.server import SECONDS, connected, details, prompt

from turnwire.v1 import tool_pb2, turn_service_pb2
from turnwired.testing.provider import answer


def ask(text: str = "Hello", **fields: object) -> turn_service_pb2.CountTokensRequest:
    return turn_service_pb2.CountTokensRequest(turn=prompt(text, **fields).turn)


@pytest.mark.requirement("TOK-5")
async def test_a_turn_is_counted_with_its_history_and_nothing_runs() -> None:
    async with connected([answer("Hi")]) as c:
        before = await c.turns.CountTokens(ask(session_id="s"), timeout=SECONDS)
        assert (before.exact, before.method) == (False, "bytes / 4")
        assert before.input_tokens > 0
        assert (before.model.provider, before.model.model) == ("scripted", "scripted-model")
        assert not before.HasField("context_tokens")
        assert c.world.provider.requests == []
        await c.run(prompt(session_id="s"))
        after = await c.turns.CountTokens(ask(session_id="s"), timeout=SECONDS)
        assert after.input_tokens > before.input_tokens
        assert len(c.world.provider.requests) == 1
        listed = await c.turns.ListRuns(turn_service_pb2.ListRunsRequest(), timeout=SECONDS)
        assert len(listed.runs) == 1


@pytest.mark.requirement("TOK-6")
async def test_what_a_turn_is_refused_for_is_not_counted() -> None:
    async with connected([]) as c:
        for request, code, reason in (
            (ask(agent_id="nobody"), grpc.StatusCode.NOT_FOUND, "AGENT_NOT_FOUND"),
            (turn_service_pb2.CountTokensRequest(), grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST"),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await c.turns.CountTokens(request, timeout=SECONDS)
            assert caught.value.code() is code
            assert details(caught.value)[0].reason == reason
        forced = ask()
        forced.turn.tools.choice.mode = tool_pb2.TOOL_CHOICE_MODE_REQUIRED
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await c.turns.CountTokens(forced, timeout=SECONDS)
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert details(caught.value)[0].reason == "TOOL_NOT_FOUND"
