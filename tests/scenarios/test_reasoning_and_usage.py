"""Reasoning that goes back as it came, and usage that counts once, over the wires that have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from execution.served import turn
from scenarios.kit import ABORTED, ANSWERED, ERRORED, play, told
from scenarios.wires import (
    CHAT,
    MESSAGES,
    WIRES,
    breaking,
    first_events,
    hanging,
    messages_begin,
    messages_block,
    messages_end,
    over,
)
from testkit.wires import chat, sse

from turnwire.v1 import outcome_pb2, usage_pb2
from turnwired import Runtime
from turnwired.domain.generation import TextChunk, UsageReported
from turnwired.domain.usage import Usage
from turnwired.testing import ScriptedProvider
from turnwired.testing.provider import Step, stopped

pytestmark = pytest.mark.anyio

DONE = b"data: [DONE]\n\n"
COUNTS = b'{"input_tokens": 12, "output_tokens": 5, "total_tokens": 17}'
ORDER = ("lookup_order", '{"order_id":"1"}')


async def lookup_order(order_id: str) -> str:
    """Look up an order."""
    return f"{order_id}: shipped"


def thinking(index: int, text: str, signature: str) -> bytes:
    """A thinking block."""
    deltas = [{"type": "thinking_delta", "thinking": text}] if text else []
    start = {"type": "thinking", "thinking": "", "signature": ""}
    return messages_block(index, start, *deltas, {"type": "signature_delta", "signature": signature})


@pytest.mark.requirement("SCN-080", "SCN-081")
@pytest.mark.parametrize("cut", [0, 13], ids=["whole", "in pieces"])
async def test_blocks_of_reasoning_go_back_in_number_order_and_bytes(cut: int) -> None:
    blocks = [
        thinking(0, "First.", "S1+/=="),
        messages_block(1, {"type": "redacted_thinking", "data": "ENC=="}),
        thinking(2, "", "S3"),
        messages_block(3, {"type": "thinking", "thinking": "", "signature": ""}),
        MESSAGES.call(4, *ORDER),
    ]
    first = MESSAGES.begin + b"".join(blocks) + MESSAGES.end("tool_use")
    async with over(
        MESSAGES, [first, MESSAGES.answer("Done."), MESSAGES.answer("Yes.")], lookup_order, cut=cut
    ) as line:
        run = await play(line.service, session_id="s")
        await play(line.service, session_id="s")
    assert run.outcome.kind == ANSWERED
    for request in line.requests[1:]:
        content = request["messages"][1]["content"]
        assert [item["type"] for item in content] == ["thinking", "redacted_thinking", "thinking", "tool_use"]
        assert (content[0]["thinking"], content[0]["signature"]) == ("First.", "S1+/==")
        assert content[1]["data"] == "ENC=="
        assert (content[2]["thinking"], content[2]["signature"]) == ("", "S3")


@pytest.mark.requirement("SCN-085")
async def test_figures_of_the_start_and_of_the_end_are_never_mixed() -> None:
    end = {"input_tokens": 18, "output_tokens": 426, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 8831}
    body = (
        messages_begin(input_tokens=8834, output_tokens=0) + MESSAGES.text(0, "Hi.") + messages_end("end_turn", **end)
    )
    async with over(MESSAGES, [body]) as line:
        run = await play(line.service)
    usage = run.seen.finished.usage
    assert usage.input_tokens == 18 + 8831, "all that was sent, each token once"
    assert usage.cache_read_tokens == 8831
    assert usage.output_tokens == 426
    assert run.stops[0].usage == usage


RATES = {"input_per_million": 3.0, "cache_read_per_million": 0.3, "cache_write_per_million": 3.75}
CACHED: Mapping[str, tuple[Any, bytes, int, int]] = {
    "chat": (
        CHAT,
        chat({"content": "x"}, "stop")
        + sse(
            {
                "id": "r",
                "choices": [],
                "usage": {
                    "prompt_tokens": 2000,
                    "prompt_tokens_details": {"cached_tokens": 500},
                    "completion_tokens": 10,
                    "completion_tokens_details": {"reasoning_tokens": 4},
                },
            }
        )
        + DONE,
        2000,
        4_800_000,
    ),
    "messages": (
        MESSAGES,
        messages_begin(input_tokens=50, cache_read_input_tokens=100_000, output_tokens=1)
        + MESSAGES.text(0, "x")
        + messages_end("end_turn", output_tokens=10),
        100_050,
        30_300_000,
    ),
}


@pytest.mark.requirement("SCN-086")
@pytest.mark.parametrize(("wire", "body", "total", "nanos"), CACHED.values(), ids=CACHED.keys())
async def test_cached_tokens_cost_once_whatever_the_convention_of_the_wire(
    wire: Any, body: bytes, total: int, nanos: int
) -> None:
    async with over(wire, [body]) as line:
        run = await play(line.service)
    told_usage = run.seen.finished.usage
    assert told_usage.input_tokens == total
    counted = Usage(told_usage.input_tokens, told_usage.output_tokens, cache_read_tokens=told_usage.cache_read_tokens)
    rates = {"scripted-model": {**RATES, "output_per_million": 15.0}}
    config = {
        "providers": {
            "scripted": {
                "models": ["scripted-model"],
                "profile": "openai-compatible",
                "base_url": "http://127.0.0.1:1/v1",
                "prices": rates,
            }
        }
    }
    script: list[Sequence[Step]] = [[[TextChunk(0, "x"), UsageReported(counted), stopped()]]]
    async with Runtime(config, providers={"scripted": ScriptedProvider(script)}, environ={}) as runtime:
        result = await runtime.run_turn("x", model="scripted/scripted-model")
    assert result.cost is not None
    assert result.cost.amount_nanos == nanos
    assert result.cost.complete


@pytest.mark.requirement("SCN-090")
@pytest.mark.parametrize("how", ["absent", "empty"])
@pytest.mark.parametrize("name", WIRES)
async def test_usage_that_a_wire_does_not_report_is_estimated_and_said_to_be(name: str, how: str) -> None:
    wire = WIRES[name]
    empty = how == "empty"
    silent = {
        "chat": chat({"content": "Done."}, "stop") + (sse({"choices": [], "usage": {}}) if empty else b"") + DONE,
        "responses": wire.open("Done.") + wire.end(wire.stop).replace(COUNTS, b"{}" if empty else b"null"),
        "messages": sse(
            {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": []}}, named=True
        )
        + wire.text(0, "Done.")
        + wire.end(wire.stop).replace(b'{"output_tokens": 5}', b"{}" if empty else b"null"),
    }[name]
    async with over(wire, [silent]) as line:
        run = await play(line.service)
    usage = run.seen.finished.usage
    assert usage.source == usage_pb2.USAGE_SOURCE_ESTIMATED
    assert usage.input_tokens > 0
    assert usage.output_tokens > 0
    assert run.reasons == [outcome_pb2.REASON_USAGE_UNREPORTED]
    assert run.outcome.kind == ANSWERED


@pytest.mark.requirement("SCN-091")
@pytest.mark.parametrize("cancelled", [True, False], ids=["cancelled", "broken"])
async def test_usage_that_was_told_before_a_stream_was_cut_counts(cancelled: bool) -> None:
    body = messages_begin(input_tokens=5000, output_tokens=1) + first_events(MESSAGES.text(0, "Par"), 2)
    async with over(MESSAGES, [hanging(body) if cancelled else breaking(body)]) as line:
        s = line.service
        seen, task = s.follow(turn())
        await seen.until("text_delta")
        if cancelled:
            await s.cancel(await seen.id())
        await task
        run = await told(s, seen)
    assert run.outcome.kind == (ABORTED if cancelled else ERRORED)
    usage = run.seen.finished.usage
    assert usage.input_tokens == 5000
    assert usage.source != usage_pb2.USAGE_SOURCE_PROVIDER, "what came out is no exact number"
    assert run.run.run.usage == usage


@pytest.mark.requirement("SCN-090")
async def test_a_count_that_a_report_lacks_is_estimated_and_said_to_be() -> None:
    body = chat({"content": "Done."}, "stop") + sse({"choices": [], "usage": {"completion_tokens": 7}}) + DONE
    async with over(CHAT, [body]) as line:
        run = await play(line.service)
    usage = run.seen.finished.usage
    assert (usage.output_tokens, usage.source) == (7, usage_pb2.USAGE_SOURCE_MIXED)
    assert usage.input_tokens > 0
