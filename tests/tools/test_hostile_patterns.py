"""Patterns of tool names that callers send: whatever they are, they are matched in the time of a look."""

from __future__ import annotations

import re
import time

import grpc
import pytest
from execution.served import SECONDS, served, turn
from hypothesis import given
from hypothesis import strategies as st
from waiting.kit import client_tools

from turnwire.v1 import agent_service_pb2, tool_pb2, turn_service_pb2
from turnwired.rpc.request import MAX_PATTERN_LENGTH, MAX_PATTERNS
from turnwired.testing.provider import answer
from turnwired.tools.naming import pattern_of

LONG_NAME = "a" * 64
NEVER = "*a" * 20 + "*b"
"""Of which a search that goes back has more ways to try than there are seconds."""


def note(text: str) -> str:
    """Write something down."""
    return text


@pytest.mark.requirement("HOSTILE-10")
@given(st.lists(st.text("ab*.", max_size=8), max_size=3), st.text("ab.\n", max_size=10))
def test_a_star_is_any_run_of_characters_and_everything_else_is_itself(patterns: list[str], name: str) -> None:
    expressions = [re.escape(pattern).replace(r"\*", ".*") for pattern in patterns]
    found = any(re.fullmatch(expression, name, re.DOTALL) for expression in expressions)
    assert pattern_of(tuple(patterns)).match(name) is found


@pytest.mark.anyio
@pytest.mark.requirement("HOSTILE-10")
@pytest.mark.parametrize("where", ["include", "exclude"])
async def test_a_pattern_that_could_be_tried_in_very_many_ways_holds_nobody_up(where: str) -> None:
    request = turn("Hello", tools=client_tools(LONG_NAME))
    getattr(request.turn.tools, where).append(NEVER)
    async with served([answer("Yes.")], note) as s:
        before = time.monotonic()
        _, task = s.follow(request)
        seen = await task
        selection = tool_pb2.ToolSelection(include=[NEVER] * MAX_PATTERNS)
        await s.turns.ListTools(turn_service_pb2.ListToolsRequest(selection=selection), timeout=SECONDS)
        took = time.monotonic() - before
    assert seen.finished.message.parts[0].text == "Yes."
    assert took < SECONDS / 2


def too_much(selection: tool_pb2.ToolSelection, what: str) -> None:
    """More than anybody needs."""
    if what == "many":
        selection.exclude.extend(f"x{number}*" for number in range(MAX_PATTERNS + 1))
    else:
        selection.include.append("x" * (MAX_PATTERN_LENGTH + 1))


@pytest.mark.anyio
@pytest.mark.requirement("HOSTILE-10")
@pytest.mark.parametrize(("what", "field"), [("many", "exclude"), ("long", "include")])
async def test_more_patterns_than_anybody_needs_are_refused_by_their_path(what: str, field: str) -> None:
    wanted = agent_service_pb2.PutAgentRequest()
    wanted.agent.agent_id = "a"
    listing, request = turn_service_pb2.ListToolsRequest(), turn("Hello")
    for selection in (wanted.agent.tools, listing.selection, request.turn.tools):
        too_much(selection, what)
    started = turn_service_pb2.StartTurnRequest(turn=request.turn)
    async with served([], note) as s:
        for path, call in (
            ("agent.tools", s.agents.PutAgent(wanted, timeout=SECONDS)),
            ("selection", s.turns.ListTools(listing, timeout=SECONDS)),
            ("turn.tools", s.turns.StartTurn(started, timeout=SECONDS)),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert (refused.value.details() or "").startswith(f"{path}.{field}: ")
