"""Conversations that become too long for their model, over each wire: what is left out, how often, and beside whom.

The scenarios behind these tests compact: a model writes a summary in the place of what is left out. That mode is
refused before a run begins, with words that say what there is instead; what is held here is what they demand of every
operation on history, by the one that there is: leaving the oldest groups out of what is sent, and nothing out of what
is stored.
"""

from __future__ import annotations

import asyncio

import grpc
import pytest
from execution.served import SECONDS, turn
from rpc.server import details
from scenarios.kit import ANSWERED, ERRORED, Told, kept, play, told
from scenarios.wires import WIRES, Handler, Line, Words, failing, over

from turnwire.v1 import message_pb2, outcome_pb2, policy_pb2, session_service_pb2
from turnwired.domain.policy import ContextPolicy, HistoryOverflowMode, Policy, RetryPolicy

pytestmark = pytest.mark.anyio

wires = pytest.mark.parametrize("name", WIRES)
GROUPS = 20
TRUNCATE = Policy(
    context=ContextPolicy(overflow_mode=HistoryOverflowMode.TRUNCATE), retry=RetryPolicy(initial_delay=0.0)
)
FAIL = Policy(context=ContextPolicy(overflow_mode=HistoryOverflowMode.FAIL), retry=RetryPolicy(initial_delay=0.0))
PROBLEM = {
    "type": "invalid_request_error",
    "code": "context_length_exceeded",
    "message": "prompt is too long: 9 tokens > 8 maximum",
}


async def lookup_order(order_id: str) -> str:
    """Look up an order."""
    return f"{order_id}: shipped"


def overflow() -> Handler:
    """What a provider says to a conversation that does not fit."""
    return failing(400, {"type": "error", "error": PROBLEM})


def called(wire: Words, number: int) -> list[bytes | Handler]:
    """A turn with a call."""
    return [wire.answer(("lookup_order", f'{{"order_id":"{number}"}}')), wire.answer(f"Answer {number}.")]


async def grown(line: Line, groups: int) -> None:
    """A session with so many turns, each with a call."""
    for number in range(groups):
        assert (await play(line.service, f"Question {number}", session_id="s")).outcome.kind == ANSWERED


def limit(tokens: int) -> policy_pb2.Policy:
    """A run's own limit on history, which cuts."""
    policy = policy_pb2.Policy()
    policy.context.max_history_tokens.value = tokens
    policy.context.overflow_mode = policy_pb2.HISTORY_OVERFLOW_MODE_TRUNCATE
    return policy


def refused(error: grpc.aio.AioRpcError) -> str:
    """Fails unless the request asks for what is not there; the words."""
    assert error.code() in {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED}
    return error.details() or ""


@pytest.mark.requirement("SCN-020")
@wires
async def test_wherever_the_cut_falls_calls_and_results_stay_together_now_and_later(name: str) -> None:
    wire, groups = WIRES[name], GROUPS // 4
    cuts = range(750, 150, -40)
    asked: list[bytes | Handler] = [wire.answer(f"Cut {number}.") for number in range(len(cuts))]
    bodies = [body for number in range(groups) for body in called(wire, number)] + asked
    async with over(wire, bodies, lookup_order) as line:
        await grown(line, groups)
        before = await kept(line.service, "s")
        runs: list[Told | None] = []
        counts: list[int] = []
        for tokens in cuts:
            sent = len(line.calls)
            run = await play(line.service, "And?", session_id="s", policy=limit(tokens))
            runs.append(run)
            if len(line.calls) > sent:  # what does not fit at all is not sent
                counts.append(len(line.pairs(sent)))
        after = await kept(line.service, "s")
    assert len(set(counts)) > 2, "the cut fell in several places"
    assert min(counts) < groups
    assert after[: len(before)] == before, "what is stored is not touched"
    assert all(run is not None and run.outcome.kind in {ANSWERED, ERRORED} for run in runs)


@pytest.mark.requirement("SCN-020")
@wires
async def test_what_a_provider_finds_too_long_is_sent_again_without_whole_groups_and_grows_from_there(
    name: str,
) -> None:
    wire, groups = WIRES[name], GROUPS // 4
    bodies = [body for number in range(groups) for body in called(wire, number)]
    bodies += [overflow(), wire.answer(("lookup_order", '{"order_id":"now"}')), wire.answer("Continuing.")]
    async with over(wire, bodies, lookup_order, policy=TRUNCATE) as line:
        await grown(line, groups)
        run = await play(line.service, "And now?", session_id="s")
        stored = await kept(line.service, "s")
    whole, cut, last = (line.pairs(number) for number in range(2 * groups, 2 * groups + 3))
    assert (run.outcome.kind, run.text) == (ANSWERED, "Continuing.")
    assert len(whole) == groups
    assert 0 < len(cut) < groups
    assert cut == whole[-len(cut) :], "what is left out is the oldest, and the rest is the same"
    assert last[:-1] == cut, "nothing moves to another call afterwards"
    assert "history_truncated" in run.seen.kinds()
    assert sum(part.HasField("tool_result") for message in stored for part in message.parts) == groups + 1


@pytest.mark.requirement("SCN-020")
@wires
async def test_compacting_is_refused_before_anything_is_sent_with_what_there_is_instead(name: str) -> None:
    policy = policy_pb2.Policy()
    policy.context.overflow_mode = policy_pb2.HISTORY_OVERFLOW_MODE_COMPACT
    async with over(WIRES[name], []) as line:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await line.service.run(policy=policy)
    said = refused(caught.value)
    assert "context.overflow_mode" in said
    assert "truncate" in said
    assert line.requests == []


@pytest.mark.requirement("SCN-074")
@wires
async def test_what_does_not_fit_after_it_was_shortened_once_ends_the_run_and_is_not_sent_again(name: str) -> None:
    wire = WIRES[name]
    bodies = [body for number in range(3) for body in called(wire, number)]
    bodies += [overflow(), overflow()]
    async with over(wire, bodies, lookup_order, policy=TRUNCATE) as line:
        await grown(line, 3)
        before = await kept(line.service, "s")
        run = await play(line.service, "And now?", session_id="s")
        after = await kept(line.service, "s")
        assert len(line.requests) == len(bodies), "one time shorter, and no other try"
        assert len(line.pairs(7)) < len(line.pairs(6)), "the second try was shorter"
    assert run.outcome.kind == ERRORED
    assert run.outcome.failure.reason == outcome_pb2.REASON_CONTEXT_OVERFLOW
    assert "tool.max_result_bytes" in run.seen.notices[-1].message, "what to do is said"
    assert after[: len(before)] == before
    assert [message.role for message in after[len(before) :]] == [message_pb2.ROLE_USER], "nobody else adds words"


@pytest.mark.requirement("SCN-074")
@pytest.mark.parametrize("policy", [TRUNCATE, FAIL], ids=["truncate", "fail"])
@wires
async def test_where_nothing_can_be_left_out_the_first_overflow_is_the_end(name: str, policy: Policy) -> None:
    async with over(WIRES[name], [overflow()], lookup_order, policy=policy) as line:
        run = await play(line.service, "Hello", session_id="s")
    assert run.outcome.kind == ERRORED
    assert run.outcome.failure.reason == outcome_pb2.REASON_CONTEXT_OVERFLOW
    assert "context.overflow_mode" in run.seen.notices[-1].message
    assert len(line.requests) == 1, "an overflow is no passing fault"


@pytest.mark.requirement("SCN-078")
@wires
async def test_a_turn_that_comes_while_another_shortens_its_history_is_refused_and_nothing_is_overwritten(
    name: str,
) -> None:
    wire, gate, begun = WIRES[name], asyncio.Event(), asyncio.Event()

    async def slow(request: object, answer: object) -> None:
        begun.set()
        async with asyncio.timeout(SECONDS):
            await gate.wait()
        await overflow()(request, answer)  # type: ignore[arg-type]

    bodies = [body for number in range(3) for body in called(wire, number)]
    bodies += [slow, wire.answer("Shorter."), wire.answer("Hello.")]
    async with over(wire, bodies, lookup_order, policy=TRUNCATE) as line:
        await grown(line, 3)
        _, first = line.service.follow(turn("First", session_id="s"))
        async with asyncio.timeout(SECONDS):
            await begun.wait()
        with pytest.raises(grpc.aio.AioRpcError) as busy:
            await line.service.run("Second", session_id="s")
        request = session_service_pb2.DeleteSessionRequest(session_id="s")
        with pytest.raises(grpc.aio.AioRpcError) as kept_back:
            await line.service.sessions.DeleteSession(request, timeout=SECONDS)
        gate.set()
        shortened = await told(line.service, await first)
        again = await play(line.service, "Second", session_id="s")
        stored = await kept(line.service, "s")
    for error in (busy.value, kept_back.value):
        assert details(error)[0].reason == "SESSION_BUSY"
    assert (shortened.text, again.text) == ("Shorter.", "Hello.")
    said = [part.text for message in stored for part in message.parts if part.text]
    assert said[-4:] == ["First", "Shorter.", "Second", "Hello."]
    assert [f"Question {number}" in said for number in range(3)] == [True] * 3, "what was left out is still stored"
