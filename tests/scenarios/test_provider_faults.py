"""Faults of providers over each wire: errors, broken and silent connections, refusals, odd places of usage."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from execution.served import turn
from providers.server import Answer, Request
from scenarios.kit import ABORTED, ANSWERED, ERRORED, NOT_EXECUTED, PROVIDER_EOF, REFUSED, kept, play, told
from scenarios.wires import (
    CHAT,
    KEY,
    MESSAGES,
    WIRES,
    Handler,
    Words,
    breaking,
    failing,
    first_events,
    messages_end,
    over,
)
from testkit.wires import CHAT as CHAT_BODIES
from testkit.wires import MESSAGES as MESSAGES_BODIES
from testkit.wires import RESPONSES as RESPONSES_BODIES
from testkit.wires import chat, sse

from turnwire.v1 import outcome_pb2
from turnwired.domain.errors import ConfigError
from turnwired.domain.policy import CompletionMode, CompletionPolicy, Policy, PolicyLayer, RetryPolicy, TimeoutPolicy
from turnwired.providers.build import provider_for, wire_of
from turnwired.providers.profiles import shipped, with_overrides

pytestmark = pytest.mark.anyio

AT_ONCE = Policy(retry=RetryPolicy(initial_delay=0.0, max_delay=0.0))
ERRORS = {"chat": CHAT_BODIES, "responses": RESPONSES_BODIES, "messages": MESSAGES_BODIES}
PINGS: Mapping[str, bytes] = {
    "chat": b": ping\n\n" + chat({"content": ""}),
    "responses": b": ping\n\n",
    "messages": b'event: ping\ndata: {"type":"ping"}\n\n',
}
wires = pytest.mark.parametrize("name", WIRES)


async def lookup_order(order_id: str) -> str:
    """Look up an order."""
    return f"{order_id}: shipped"


ORDER = ("lookup_order", '{"order_id":"1"}')


def error(name: str, code: str, words: str = "no") -> bytes:
    """An error as an event of a stream."""
    return sse({"type": "error", **ERRORS[name].error(code, words)}, named=name != "chat")


@pytest.mark.requirement("SCN-059")
@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (400, "invalid_request_error", outcome_pb2.REASON_PROVIDER_REJECTED),
        (403, "permission_error", outcome_pb2.REASON_PROVIDER_FORBIDDEN),
        (404, "not_found_error", None),
    ],
)
@wires
async def test_a_permanent_error_is_not_tried_again(name: str, status: int, code: str, reason: int | None) -> None:
    body = failing(status, ERRORS[name].error(code, f"unknown parameter, key {KEY}"))
    async with over(WIRES[name], [body], policy=AT_ONCE) as line:
        told = await play(line.service)
    assert told.outcome.kind == ERRORED
    assert reason is None or told.outcome.failure.reason == reason
    assert not told.outcome.failure.retryable
    assert KEY not in str(told.seen.events)
    assert len(line.requests) == 1


@pytest.mark.requirement("SCN-059")
@pytest.mark.parametrize("renewed", [True, False], ids=["taken", "rejected again"])
@wires
async def test_rejected_credentials_are_renewed_exactly_once(name: str, renewed: bool) -> None:
    wire = WIRES[name]
    rejected = failing(401, ERRORS[name].error("authentication_error", f"bad key {KEY}"))
    bodies = [rejected, wire.answer("Hello.") if renewed else rejected]
    async with over(wire, bodies, policy=AT_ONCE) as line:
        told = await play(line.service)
    assert told.outcome.kind == (ANSWERED if renewed else ERRORED)
    assert renewed or told.outcome.failure.reason == outcome_pb2.REASON_PROVIDER_AUTH_FAILED
    assert KEY not in str(told.seen.events)
    assert len(line.requests) == 2


@pytest.mark.requirement("SCN-062")
@pytest.mark.parametrize("how", ["breaks", "ends", "error"])
@wires
async def test_a_call_whose_arguments_broke_off_is_closed_and_never_run(name: str, how: str) -> None:
    wire = WIRES[name]
    said = wire.open("Saving."), first_events(wire.call(1, *ORDER), 2)
    whole = {"ends": b"".join(said), "error": b"".join(said) + error(name, "overloaded_error")}
    body: bytes | Handler = breaking(*said) if how == "breaks" else whole[how]
    async with over(wire, [body], lookup_order, policy=AT_ONCE) as line:
        told = await play(line.service, session_id="s")
        stored = await kept(line.service, "s")
    assert told.outcome.kind == (PROVIDER_EOF if how == "ends" else ERRORED)
    assert told.outcome.partial
    assert [result.status for result in told.results] == [NOT_EXECUTED]
    assert "tool_call_executing" not in told.seen.kinds()
    assert [part.text for part in stored[-1].parts] == ["Saving."]
    assert len(line.requests) == 1


@pytest.mark.requirement("SCN-063")
@pytest.mark.parametrize("how", ["breaks", "ends", "error"])
@wires
async def test_a_stream_that_said_nothing_is_asked_for_again_with_the_same_request(name: str, how: str) -> None:
    wire = WIRES[name]
    head = wire.begin + PINGS[name]
    whole = {"ends": head, "error": head + error(name, "overloaded_error")}
    body: bytes | Handler = breaking(head) if how == "breaks" else whole[how]
    async with over(wire, [body, wire.answer("Done.")], policy=AT_ONCE) as line:
        told = await play(line.service)
    assert told.outcome.kind == ANSWERED
    assert told.text == "Done."
    assert told.seen.kinds().count("iteration_retry_scheduled") == 1
    assert line.calls[0].body == line.calls[1].body
    assert told.seen.finished.iteration_count == 1


@pytest.mark.requirement("SCN-065")
@wires
async def test_a_whole_call_without_an_end_of_the_answer_does_not_run(name: str) -> None:
    wire = WIRES[name]
    async with over(wire, [wire.open(ORDER)], lookup_order, policy=AT_ONCE) as line:
        told = await play(line.service)
    assert told.outcome.kind == PROVIDER_EOF
    assert [result.status for result in told.results] == [NOT_EXECUTED]
    assert len(line.requests) == 1


@pytest.mark.requirement("SCN-065")
@pytest.mark.parametrize("lenient", [True, False])
async def test_an_answer_without_the_last_marker_counts_only_with_a_finish_word(lenient: bool) -> None:
    body = CHAT.open(ORDER) + chat({}, "tool_calls")
    bodies = [body, CHAT.answer("Done.")]
    async with over(CHAT, bodies, lookup_order, policy=AT_ONCE, row={"done_marker": not lenient}) as line:
        told = await play(line.service)
    assert told.outcome.kind == ANSWERED
    assert told.said == ["1: shipped"]


def unfinished(wire: Words, *calls: bytes, text: str = "") -> bytes:
    """An answer that is all there but for the word that ends it."""
    return wire.begin + (chat({"content": text}) if text else b"") + b"".join(calls)


LENIENT = {"stream_end": "lenient"}


@pytest.mark.requirement("SCN-065")
@pytest.mark.parametrize("marker", [b"", b"data: [DONE]\n\n"], ids=["ends", "says done"])
@pytest.mark.parametrize("before", ["", "Let me look."], ids=["call", "text and call"])
async def test_a_server_declared_lenient_may_leave_out_the_finish_word_of_whole_calls(
    before: str, marker: bytes
) -> None:
    two = (CHAT.call(0, *ORDER), CHAT.call(1, "lookup_order", '{"order_id":"2"}'))
    bodies = [unfinished(CHAT, *two, text=before) + marker, unfinished(CHAT, text="Done.") + marker]
    async with over(CHAT, bodies, lookup_order, policy=AT_ONCE, row=LENIENT) as line:
        told = await play(line.service)
    assert told.outcome.kind == ANSWERED
    assert told.said == ["1: shipped", "2: shipped"]
    assert told.text == "Done."
    assert told.irregularities == ["missing_finish"] * 2
    assert [stop.provider_finish_reason for stop in told.stops] == ["", ""]


@pytest.mark.requirement("SCN-065")
@pytest.mark.parametrize(
    "body",
    [
        unfinished(CHAT, first_events(CHAT.call(0, *ORDER), 2)),
        unfinished(CHAT, CHAT.call(0, *ORDER), first_events(CHAT.call(1, *ORDER), 2)),
        unfinished(CHAT, CHAT.call(0, "lookup_order", "")),
        unfinished(CHAT, CHAT.call(0, "lookup_order", '["1"]')),
        unfinished(CHAT, text="Thinking.").replace(b'"content"', b'"reasoning_content"'),
        CHAT.begin,
    ],
    ids=["torn", "whole and torn", "no arguments", "no object", "only thoughts", "nothing"],
)
async def test_lenient_is_never_about_a_call_that_may_be_unfinished_nor_about_nothing(body: bytes) -> None:
    once = Policy(retry=RetryPolicy(max_attempts=1))
    async with over(CHAT, [body], lookup_order, policy=once, row=LENIENT) as line:
        told = await play(line.service)
    assert told.outcome.kind == PROVIDER_EOF
    assert "tool_call_executing" not in told.seen.kinds()
    assert told.irregularities == []


@pytest.mark.requirement("SCN-065")
@pytest.mark.parametrize("how", ["breaks", "error"])
async def test_lenient_is_about_an_end_and_not_about_a_broken_connection_or_an_error(how: str) -> None:
    said = unfinished(CHAT, CHAT.call(0, *ORDER))
    body: bytes | Handler = breaking(said) if how == "breaks" else said + error("chat", "overloaded_error")
    async with over(CHAT, [body], lookup_order, policy=AT_ONCE, row=LENIENT) as line:
        told = await play(line.service)
    assert told.outcome.kind == ERRORED
    assert "tool_call_executing" not in told.seen.kinds()


@pytest.mark.requirement("SCN-065")
@pytest.mark.parametrize(
    ("row", "word"),
    [
        ({"wire": "openai.responses"}, "response.completed"),
        ({"wire": "anthropic.messages"}, "message_stop"),
        ({"tool_calling": "json_schema"}, "native"),
    ],
)
def test_lenient_is_refused_where_it_would_say_nothing_or_too_much(row: dict[str, str], word: str) -> None:
    rows = {"terse": {"extends": "openai-compatible", **row, **LENIENT}}
    with pytest.raises(ConfigError, match=rf"^providers\.terse\.stream_end: .*{word}"):
        wire_of(with_overrides(shipped(), rows)["terse"])


@pytest.mark.requirement("SCN-065")
def test_who_declared_how_an_answer_ends_is_known_through_profiles_that_build_on_each_other() -> None:
    rows: dict[str, dict[str, Any]] = {
        "terse": {"extends": "openai-compatible", **LENIENT},
        "ours": {"extends": "terse", "models": ["m"]},
    }
    profiles = with_overrides(shipped(), rows, "profiles")
    assert profiles["ours"].layer_of("stream_end") is PolicyLayer.DEPLOYMENT
    assert profiles["openai-compatible"].layer_of("stream_end") is PolicyLayer.RUNTIME_DEFAULT
    assert profiles["ours"].layer_of("wire") is PolicyLayer.PROVIDER_NATIVE, "a row of this release said so"
    said = provider_for(profiles["ours"], environ={}).info
    assert (said.stream_end, said.stream_end_layer) == ("lenient", PolicyLayer.DEPLOYMENT)


def pinging(wire: Words, name: str, before: bytes, rounds: int, after: bytes = b"") -> Handler:
    """Keeps a stream alive with what is no content: a hundred times a second, so often or until nobody reads it."""

    async def handler(_: Request, answer: Answer) -> None:
        await answer.start()
        await answer.send(wire.begin + before)
        for _round in range(rounds):
            if answer.gone.is_set():
                return
            await answer.send(PINGS[name])
            with suppress(TimeoutError):
                await asyncio.wait_for(answer.gone.wait(), 0.01)
        await answer.send(after)
        await answer.end()

    return handler


@pytest.mark.requirement("SCN-067")
@wires
async def test_pings_do_not_keep_a_dead_answer_alive(name: str) -> None:
    wire = WIRES[name]
    policy = Policy(timeout=TimeoutPolicy(stream_idle=0.1, first_event=10.0, thinking_idle=0.1))
    body = pinging(wire, name, first_events(wire.text(0, "Thinking"), 3), 1000)
    async with over(wire, [body], policy=policy) as line:
        told = await play(line.service)
    assert told.outcome.kind == ERRORED
    assert told.outcome.failure.reason == outcome_pb2.REASON_PROVIDER_TIMEOUT
    assert told.outcome.partial
    assert told.text == "Thinking"
    assert len(line.requests) == 1


@pytest.mark.requirement("SCN-068")
@wires
async def test_silence_before_the_first_word_has_a_limit_of_its_own(name: str) -> None:
    wire = WIRES[name]
    policy = Policy(timeout=TimeoutPolicy(stream_idle=0.05, first_event=10.0, thinking_idle=10.0))
    body = pinging(wire, name, b"", 12, wire.text(0, "Deep answer.") + wire.end(wire.stop))
    async with over(wire, [body], policy=policy) as line:
        told = await play(line.service)
    assert told.outcome.kind == ANSWERED
    assert told.text == "Deep answer."
    provenance = {item.path for item in told.seen.events[0].run_started.effective_policy.provenance}
    assert {"timeout.first_event", "timeout.stream_idle"} <= provenance


@pytest.mark.requirement("SCN-069")
@pytest.mark.parametrize("late", [False, True], ids=["at once", "after text"])
@wires
async def test_an_error_inside_a_good_answer_is_an_error_like_any_other(name: str, late: bool) -> None:
    wire = WIRES[name]
    broken = wire.begin + (first_events(wire.text(0, "Hel"), 3) if late else b"") + error(name, "overloaded_error")
    async with over(wire, [broken, wire.answer("Done.")], policy=AT_ONCE) as line:
        told = await play(line.service)
    if late:
        assert told.outcome.kind == ERRORED
        assert told.outcome.failure.reason == outcome_pb2.REASON_PROVIDER_UNAVAILABLE
        assert told.outcome.partial
        assert told.text == "Hel"
        assert len(line.requests) == 1
    else:
        assert told.outcome.kind == ANSWERED
        assert told.text == "Done."
        assert len(line.requests) == 2


COUNTS = sse({"id": "r", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}})
DONE = b"data: [DONE]\n\n"
USAGE: Mapping[str, bytes] = {
    "behind the finish word": chat({"content": "Hi."}, "stop") + COUNTS + DONE,
    "before the finish word": chat({"content": "Hi."}) + COUNTS + chat({}, "stop") + DONE,
    "in every chunk": chat({"content": "Hi."}) + COUNTS + COUNTS + chat({}, "stop") + COUNTS + DONE,
    "with choices null": chat({"content": "Hi."}, "stop") + COUNTS.replace(b"[]", b"null") + DONE,
}


@pytest.mark.requirement("SCN-070")
@pytest.mark.parametrize("cut", [0, 9], ids=["whole", "in pieces"])
@pytest.mark.parametrize("body", USAGE.values(), ids=USAGE.keys())
async def test_usage_counts_wherever_it_stands(body: bytes, cut: int) -> None:
    async with over(CHAT, [body], cut=cut) as line:
        told = await play(line.service)
    assert told.outcome.kind == ANSWERED
    assert told.text == "Hi."
    (stop,) = told.stops
    assert (stop.usage.input_tokens, stop.usage.output_tokens) == (5, 2)
    usage = told.seen.finished.usage
    assert (usage.input_tokens, usage.output_tokens) == (5, 2)


NO = "I cannot help with that."
REFUSALS: Mapping[str, tuple[Words, bytes]] = {
    "filter and words": (CHAT, CHAT.begin + chat({"content": "", "refusal": NO}, "content_filter") + DONE),
    "filter alone": (CHAT, CHAT.begin + chat({"content": ""}, "content_filter") + DONE),
    "words alone": (CHAT, CHAT.begin + chat({"content": "", "refusal": NO}) + CHAT.end("stop")),
    "a stop reason": (MESSAGES, MESSAGES.begin + messages_end("refusal")),
    "a stop reason behind words": (MESSAGES, MESSAGES.open(NO) + messages_end("refusal")),
}


@pytest.mark.requirement("SCN-098")
@wires
async def test_cancel_ends_the_wait_that_a_provider_asked_for(name: str) -> None:
    limited = failing(429, ERRORS[name].error("rate_limit_error", "slow down"), retry_after="15")
    async with over(WIRES[name], [limited]) as line:
        s = line.service
        seen, task = s.follow(turn())
        await seen.until("iteration_retry_scheduled")
        async with asyncio.timeout(5):  # the wait is of fifteen
            await s.cancel(await seen.id())
            await task
        run = await told(s, seen)
    (retry,) = [e.iteration_retry_scheduled for e in seen.events if e.HasField("iteration_retry_scheduled")]
    assert retry.delay.seconds == 15
    assert run.outcome.kind == ABORTED
    assert len(line.requests) == 1


@pytest.mark.requirement("SCN-072")
@pytest.mark.parametrize(("wire", "body"), REFUSALS.values(), ids=REFUSALS.keys())
async def test_a_refusal_is_an_end_of_its_own_kind_and_never_tried_again(wire: Words, body: bytes) -> None:
    policy = Policy(completion=CompletionPolicy(mode=CompletionMode.REQUIRE_TEXT_AFTER_TOOLS), retry=AT_ONCE.retry)
    async with over(wire, [wire.answer(ORDER), body], lookup_order, policy=policy) as line:
        told = await play(line.service, session_id="s")
        stored = await kept(line.service, "s")
    assert told.outcome.kind == REFUSED
    assert len(line.requests) == 2
    shown = NO if NO.encode() in body else ""
    assert told.text == shown
    assert all(re.search(r"\S", part.text) for message in stored for part in message.parts if part.HasField("text"))
