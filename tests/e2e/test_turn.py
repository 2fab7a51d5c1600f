"""A whole turn over gRPC, through the real process: a Python tool, an MCP tool, and the order of what is told."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from e2e.provider import answer, calls, provider
from e2e.service import config_text, prompt, service

from turnwire.v1 import message_pb2, outcome_pb2

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("E2E-1")
async def test_a_turn_with_a_python_tool_and_an_mcp_tool_answers_with_both_results(tmp_path: Path) -> None:
    tokyo = {"timezone": "Asia/Tokyo"}
    async with (
        provider(calls(("add", {"a": 2, "b": 40}), ("time__get_current_time", tokyo)), answer("It is ", "42.")) as p,
        service(tmp_path, config_text(p.url, time_server=True), GATES=p.url) as s,
    ):
        run = await s.run(prompt("What time is it in Tokyo?"))
        tools = {tool["function"]["name"] for tool in p.requests[0]["tools"]}
        results = [message for message in p.requests[1]["messages"] if message["role"] == "tool"]
        ended = await s.stop()
    assert run.view.outcome is not None
    assert run.view.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED, run.view.outcome
    assert run.view.text == "It is 42."
    assert {"add", "time__get_current_time"} <= tools
    assert results[0]["content"] == "42"
    assert "Asia/Tokyo" in results[1]["content"]
    assert [event.sequence for event in run.view.events] == list(range(1, len(run.view.events) + 1))
    assert ended.code == 0


@pytest.mark.requirement("E2E-2", "MATRIX-1")
async def test_arguments_end_and_the_provider_finishes_before_the_tool_does_and_the_run_goes_on(
    tmp_path: Path,
) -> None:
    async with (
        provider(calls(("slow", {"text": "late"})), answer("Heard late.")) as p,
        service(tmp_path, config_text(p.url), GATES=p.url) as s,
    ):
        run = await s.run(prompt())
        result = p.requests[1]["messages"][-1]
        await s.stop()
    assert [
        (event.iteration, event.WhichOneof("event"))
        for event in run.view.events
        if event.WhichOneof("event") != "tool_call_arguments_delta"
    ] == [
        (0, "run_started"),
        (1, "iteration_started"),
        (1, "tool_call_started"),
        (1, "tool_call_arguments_finished"),
        (1, "iteration_finished"),
        (1, "tool_call_executing"),
        (1, "tool_call_finished"),
        (2, "iteration_started"),
        (2, "text_delta"),
        (2, "part_finished"),
        (2, "iteration_finished"),
        (0, "run_finished"),
    ]
    by_kind = {event.WhichOneof("event"): event for event in run.view.events if event.iteration == 1}
    finished = by_kind["tool_call_finished"].tool_call_finished
    assert finished.result.status == message_pb2.TOOL_RESULT_STATUS_OK
    # The tool sleeps 300 ms, which a timer of the event loop may cut by a fraction of one.
    assert finished.duration.ToMilliseconds() >= 290
    said = by_kind["iteration_finished"].event_time.ToMilliseconds()
    assert by_kind["tool_call_finished"].event_time.ToMilliseconds() - said >= 290
    assert (result["role"], result["content"]) == ("tool", "late")
    times = [event.event_time.ToNanoseconds() for event in run.view.events]
    assert all(before <= after for before, after in pairwise(times))


@pytest.mark.requirement("E2E-3", "MATRIX-14")
async def test_a_settled_run_reads_after_a_restart_as_it_was_streamed_and_from_its_end_there_is_nothing(
    tmp_path: Path,
) -> None:
    async with provider(calls(("add", {"a": 1, "b": 1}), ("nosuch", {})), answer("T", "wo")) as p:
        async with service(tmp_path, config_text(p.url), GATES=p.url) as s:
            live = await s.run(prompt(session_id="s"))
            await s.stop()
        run_id = live.view.run_id or ""
        async with service(tmp_path, config_text(p.url), GATES=p.url) as s:
            cold = await s.watch(run_id)
            half = live.updates[len(live.updates) // 2].cursor
            rest = await s.watch(run_id, half)
            nothing = await s.watch(run_id, live.updates[-1].cursor)
            stored = await s.get(run_id)
            await s.stop()
    assert cold.view.events == live.view.events
    assert rest.view.events == [event for event in live.view.events if event.sequence > half.sequence]
    assert nothing.updates == []
    assert stored.message == live.view.message
    assert stored.run.outcome == live.view.outcome
    assert stored.trace.entries
