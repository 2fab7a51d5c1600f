"""What hooks are told of one run that has everything: text, reasoning, calls, results, interfaces, errors, its end."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from execution.hook_app import App, listening
from execution.hook_kit import EAGER
from execution.served import SECONDS, served

from turnwire.v1 import event_pb2, message_pb2, outcome_pb2
from turnwired.codec.event import encode_event
from turnwired.codec.frame import events_of
from turnwired.domain.failure import Reason
from turnwired.domain.generation import ReasoningChunk, TextChunk
from turnwired.domain.message import OpaqueBlock, Text
from turnwired.engine.hook_loading import hook_of
from turnwired.engine.hooks import HookEvent, SettledRun
from turnwired.rpc.hook_client import HookApp, HookClient
from turnwired.testing.provider import Step, calls, fails

pytestmark = pytest.mark.anyio
UI = {"type": "resource", "resource": {"uri": "ui://shop/cart", "mimeType": "text/html", "text": "<b>cart</b>"}}


def show_cart(number: int) -> list[Text | OpaqueBlock]:
    """Show a cart."""
    return [Text(f"cart {number}"), OpaqueBlock("mcp/ui", json.dumps(UI))]


def refuse() -> str:
    """Refuse."""
    raise LookupError("no such cart")


class Listening:
    """A Python hook that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[event_pb2.RunEvent] = []
        self.settled: list[SettledRun] = []
        self.ended = asyncio.Event()

    async def on_event(self, event: HookEvent) -> None:
        """Keep an event as the wire has it."""
        told = event.logged
        body = encode_event(told.sequence, told.time_ns, told.iteration, told.event)
        self.events += events_of(body)

    async def on_settle(self, settled: SettledRun) -> None:
        """Keep the end."""
        self.settled.append(settled)
        self.ended.set()


def check(events: list[event_pb2.RunEvent]) -> None:
    """Each kind of thing that happened is told, whole."""
    parts = [event.part_finished.part for event in events if event.HasField("part_finished")]
    assert [part.reasoning.text for part in parts if part.HasField("reasoning")] == ["A cart, then."]
    assert [part.text for part in parts if part.HasField("text")] == ["Let me look."]
    started = [e.tool_call_started.tool.routed_name for e in events if e.HasField("tool_call_started")]
    assert started == ["show_cart", "refuse"]
    arguments = [e.tool_call_arguments_finished for e in events if e.HasField("tool_call_arguments_finished")]
    assert [told.arguments_json for told in arguments] == ['{"number":4711}', "{}"]
    results = {r.status: r for e in events if e.HasField("tool_call_finished") for r in [e.tool_call_finished.result]}
    shown, refused = (
        results[status] for status in (message_pb2.TOOL_RESULT_STATUS_OK, message_pb2.TOOL_RESULT_STATUS_ERROR)
    )
    assert shown.content[0].text == "cart 4711"
    assert shown.content[1].opaque.kind == "mcp/ui"
    assert json.loads(shown.content[1].opaque.value_json) == UI
    assert refused.failure.reason == outcome_pb2.REASON_TOOL_FAILED
    assert "no such cart" in "".join(part.text for part in refused.content)
    usage = [event.iteration_finished.usage for event in events if event.HasField("iteration_finished")]
    assert usage[0].input_tokens == 100
    assert events[-1].run_finished.outcome.kind == outcome_pb2.OUTCOME_KIND_ERRORED
    assert events[-1].run_finished.outcome.failure.reason == outcome_pb2.REASON_PROVIDER_REJECTED


@pytest.mark.requirement("TOOLX-35")
async def test_a_hook_of_either_kind_hears_all_that_a_run_has() -> None:
    first = calls(("show_cart", '{"number":4711}'), ("refuse", "{}"))
    said: list[Step] = [[ReasoningChunk(10, "A cart, then."), TextChunk(11, "Let me look.")], *first]
    script: list[list[Step]] = [said, [fails(Reason.PROVIDER_REJECTED)]]
    mine, app = Listening(), App()
    async with listening(app) as port:
        client = HookClient(HookApp("app", f"127.0.0.1:{port}"))
        hooks = [replace(hook, patience=EAGER) for hook in (client.hook(), hook_of("mine", mine))]
        try:
            async with served(script, show_cart, refuse, hooks=hooks) as s:
                seen = await s.run()
                await app.until(lambda: bool(app.settled))
                await asyncio.wait_for(mine.ended.wait(), SECONDS)
        finally:
            await client.aclose()
    over_grpc = [event for batch in app.events for event in batch.events]
    check(over_grpc)
    check(mine.events)
    assert mine.events == over_grpc
    (told,), (settled,) = app.settled, mine.settled
    assert told.delivery_id == settled.record_id == seen.run_id
    assert told.run.outcome == seen.finished.outcome
    assert settled.run.outcome is not None
    assert settled.run.outcome.failure is not None
    assert settled.run.outcome.failure.reason is Reason.PROVIDER_REJECTED
    assert settled.run.usage.input_tokens == told.run.usage.input_tokens
