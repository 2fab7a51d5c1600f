"""History that fits: cut or refused before each model call, told in the log, and never in what the session keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from engine.harness import CALLER, Reader, World, user, world
from turnwired.codec.event import decode_events
from turnwired.domain.event import HistoryTruncated, IterationRetryScheduled, IterationStarted
from turnwired.domain.failure import FailurePhase, Reason
from turnwired.domain.message import Message, Part, Role, Text
from turnwired.domain.outcome import Notice, OutcomeKind
from turnwired.domain.policy import ContextPolicy, HistoryOverflowMode, LimitMode, Policy, RetryPolicy
from turnwired.domain.run import TurnSpec
from turnwired.domain.trace import HistoryChangeTrace
from turnwired.providers.port import ModelLimits
from turnwired.store.port import RunFilter
from turnwired.testing.provider import ScriptedProvider, Step, answer, calls, fails
from turnwired.tools.port import ToolInvocation

LONG = "x" * 400  # about 110 tokens with its frame


def policy(
    limit: int | LimitMode | None = 300, mode: HistoryOverflowMode | None = HistoryOverflowMode.TRUNCATE
) -> Policy:
    return Policy(context=ContextPolicy(max_history_tokens=limit, overflow_mode=mode))


async def look(_: ToolInvocation) -> str:
    return LONG


def looks(times: int) -> list[list[Step]]:
    """Answers that call a tool, each with other arguments."""
    return [calls(("look", f'{{"page": {number}}}')) for number in range(times)]


def truncations(reader: Reader) -> list[HistoryTruncated]:
    return [event for event in reader.of(HistoryTruncated) if isinstance(event, HistoryTruncated)]


def roles(w: World, call: int) -> list[object]:
    return [message["role"] for message in w.provider.messages(call)]


def size(w: World, call: int) -> int:
    return sum(-(-len(piece) // 4) for piece in w.provider.requests[call].messages)


async def talk(w: World, turns: int, session: str = "s") -> list[Reader]:
    return [await w.run(f"{number} {LONG}", session_id=session) for number in range(turns)]


@pytest.mark.requirement("CTX-2", "CTX-7")
async def test_a_session_over_the_bound_is_sent_without_its_oldest_turns_and_keeps_them() -> None:
    async with world([answer(f"fine {LONG}")] * 3, policy=policy()) as w:
        readers = await talk(w, 3)
        assert [reader.finished.outcome.kind for reader in readers] == [OutcomeKind.ANSWERED] * 3
        assert roles(w, 1) == ["system", "USER"]
        (cut,) = truncations(readers[1])
        assert (cut.dropped_message_count, cut.dropped_tool_group_count) == (2, 0)
        assert cut.tokens_before > 300 >= cut.tokens_after == size(w, 1)
        messages, _ = await w.engine.sessions.messages(CALLER, "s", 10, "")
        assert [message.role for message in messages] == [Role.USER, Role.ASSISTANT] * 3


@pytest.mark.requirement("CTX-7")
async def test_the_cut_is_stored_before_the_request_is_made_and_the_trace_has_it() -> None:
    seen: list[list[str]] = []

    async with world([answer(LONG), []], policy=policy()) as w:
        await talk(w, 1)

        async def read() -> None:
            ((run,), _) = await w.engine.list_runs(RunFilter(CALLER.tenant), 1, "")
            rows = await w.store.read_rows(run.run_id, 0, 1 << 20)
            seen.append([type(logged.event).__name__ for row in rows for logged in decode_events(row.body)])

        w.provider.script[1] = [read, *answer("fine")]
        reader = await w.run(f"more {LONG}", session_id="s", include_trace=True)
    assert seen == [["RunStarted", "IterationStarted", "HistoryTruncated"]]
    assert reader.finished.trace is not None
    (cut,) = truncations(reader)
    told = [entry.entry for entry in reader.finished.trace.entries if isinstance(entry.entry, HistoryChangeTrace)]
    assert told == [
        HistoryChangeTrace(cut.dropped_message_count, cut.dropped_tool_group_count, cut.tokens_before, cut.tokens_after)
    ]


@pytest.mark.requirement("CTX-2", "CTX-4")
async def test_a_long_run_loses_its_oldest_calls_with_their_results_and_its_prefix_holds_between_cuts() -> None:
    script = [*looks(6), answer("done")]
    async with world(script, {"look": look}, policy=policy(700)) as w:
        reader = await w.run("go")
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
    cuts = truncations(reader)
    assert cuts
    assert all(cut.dropped_message_count == 2 * cut.dropped_tool_group_count for cut in cuts)
    requests = w.provider.requests
    for number, request in enumerate(requests):
        assert size(w, number) <= 700
        assert roles(w, number)[1:] == ["USER", *["ASSISTANT", "TOOL"] * ((len(request.messages) - 1) // 2)]
    grew = [later.messages[: len(sooner.messages)] == sooner.messages for sooner, later in pairwise(requests)]
    assert grew.count(False) == len(cuts), "the prefix changes with a cut and not else"


@pytest.mark.requirement("CTX-6")
@pytest.mark.parametrize("mode", [None, HistoryOverflowMode.FAIL])
async def test_with_fail_a_run_over_the_bound_ends_before_anything_is_sent(mode: HistoryOverflowMode | None) -> None:
    async with world([answer(LONG)] * 2, policy=policy(mode=mode)) as w:
        _, reader = await talk(w, 2)
    outcome = reader.finished.outcome
    assert outcome.kind is OutcomeKind.ERRORED
    assert outcome.failure is not None
    assert (outcome.failure.phase, outcome.failure.reason) == (FailurePhase.MODEL, Reason.CONTEXT_OVERFLOW)
    assert outcome.failure.metadata["policy_path"] == "context.max_history_tokens"
    assert len(w.provider.requests) == 1
    (notice,) = [event for event in reader.of(Notice) if isinstance(event, Notice)]
    assert "context.overflow_mode" in notice.message
    assert reader.finished.trace is not None
    assert LONG not in outcome.failure.message


@pytest.mark.requirement("CTX-10")
async def test_what_must_stay_and_does_not_fit_ends_the_run() -> None:
    async with world([answer("fine")], policy=policy(50)) as w:
        reader = await w.run(LONG)
    assert reader.finished.outcome.failure is not None
    assert reader.finished.outcome.failure.reason is Reason.CONTEXT_OVERFLOW
    assert w.provider.requests == []


@pytest.mark.requirement("CTX-1")
async def test_unbounded_history_is_sent_whole() -> None:
    async with world([answer(LONG)] * 3, policy=policy(LimitMode.UNBOUNDED)) as w:
        readers = await talk(w, 3)
        assert roles(w, 2) == ["system", "USER", "ASSISTANT", "USER", "ASSISTANT", "USER"]
    assert truncations(readers[2]) == []


@pytest.mark.requirement("CTX-5")
async def test_what_the_provider_finds_too_long_is_sent_once_more_a_quarter_shorter() -> None:
    too_long = fails(Reason.CONTEXT_OVERFLOW)
    script: list[list[Step]] = [answer(LONG), answer(LONG), [too_long], answer("fine")]
    async with world(script, policy=policy(None)) as w:
        reader = (await talk(w, 3))[2]
        assert size(w, 3) <= size(w, 2) * 3 // 4
        assert roles(w, 3) == ["system", "USER", "ASSISTANT", "USER"]
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
    (retry,) = [event for event in reader.of(IterationRetryScheduled) if isinstance(event, IterationRetryScheduled)]
    assert (retry.delay_ns, retry.failure.reason) == (0, Reason.CONTEXT_OVERFLOW)
    assert len(truncations(reader)) == 1


@pytest.mark.requirement("CTX-5")
@pytest.mark.parametrize(
    ("changes", "requests"),
    [
        (policy(None), 4),
        (policy(None, HistoryOverflowMode.FAIL), 3),
        (replace(policy(None), retry=RetryPolicy(max_attempts=1)), 3),
    ],
    ids=["once", "not with FAIL", "not with one attempt"],
)
async def test_it_is_shortened_once_in_an_iteration_and_where_the_policy_says_so(
    changes: Policy, requests: int
) -> None:
    too_long: list[Step] = [fails(Reason.CONTEXT_OVERFLOW)]
    script: list[list[Step]] = [answer(LONG), answer(LONG), *[too_long] * 3]
    async with world(script, policy=changes) as w:
        reader = (await talk(w, 3))[2]
        assert len(w.provider.requests) == requests
    assert reader.finished.outcome.failure is not None
    assert reader.finished.outcome.failure.reason is Reason.CONTEXT_OVERFLOW


@pytest.mark.requirement("CTX-5")
async def test_what_a_provider_found_too_long_is_not_sent_again_in_a_later_iteration() -> None:
    script: list[list[Step]] = [answer(LONG), answer(LONG), [fails(Reason.CONTEXT_OVERFLOW)], *looks(2), answer("done")]
    async with world(script, {"look": look}, policy=policy(None)) as w:
        reader = (await talk(w, 3))[2]
        refused = size(w, 2)
        assert all(size(w, number) < refused for number in range(3, len(w.provider.requests)))
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("CTX-5")
async def test_a_single_message_that_is_too_long_for_the_provider_is_not_sent_twice() -> None:
    async with world([[fails(Reason.CONTEXT_OVERFLOW)], answer("no")], policy=policy(None)) as w:
        reader = await w.run(LONG)
        assert len(w.provider.requests) == 1
    assert len(reader.of(IterationStarted)) == 1
    assert reader.finished.outcome.failure is not None
    assert reader.finished.outcome.failure.reason is Reason.CONTEXT_OVERFLOW


@pytest.mark.requirement("CTX-8")
@pytest.mark.parametrize(("mode", "cut"), [(HistoryOverflowMode.TRUNCATE, True), (HistoryOverflowMode.FAIL, False)])
async def test_the_window_that_the_profile_knows_counts_only_where_history_may_be_cut(
    mode: HistoryOverflowMode, *, cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ScriptedProvider, "limits", lambda *_: ModelLimits(400, 100, "a profile"))
    async with world([answer(LONG)] * 2, policy=policy(None, mode)) as w:
        reader = (await talk(w, 2))[1]
        assert (len(w.provider.requests[1].messages) == 1) is cut
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
    assert bool(truncations(reader)) is cut


@pytest.mark.requirement("CTX-9")
async def test_a_message_is_counted_once_over_all_turns_of_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[bytes] = []
    by_size = ScriptedProvider.measure

    async def measure(self: ScriptedProvider, model: str, pieces: Sequence[bytes]) -> Sequence[int]:
        counted.extend(pieces)
        return await by_size(self, model, pieces)

    monkeypatch.setattr(ScriptedProvider, "measure", measure)
    async with world([answer(f"fine {LONG}")] * 5, policy=policy()) as w:
        await talk(w, 5)
    stored = [piece for piece in counted if b"fine" in piece]
    assert len(stored) == len(set(stored)) + 3, "each answer is the same text, counted once each"
    assert len(counted) == 5 + 4 + 4, "an input is encoded with its turn, and once more as history"


@pytest.mark.requirement("CTX-8", "CTX-9")
async def test_a_run_without_a_bound_counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def measure(*_: object) -> Sequence[int]:
        raise AssertionError("counted")

    monkeypatch.setattr(ScriptedProvider, "measure", measure)
    async with world([answer(LONG)] * 4, policy=Policy()) as w:
        assert (await talk(w, 2))[1].finished.outcome.kind is OutcomeKind.ANSWERED
    async with world([answer("short")], policy=policy(10_000)) as w:
        assert (await w.run()).finished.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("CTX-11")
async def test_the_tokens_of_a_turn_are_those_of_the_request_that_it_would_make() -> None:
    async with world([answer(LONG)] * 2, policy=policy()) as w:
        await talk(w, 2)
        spec = TurnSpec(CALLER, (user(f"2 {LONG}"),), session_id="s")
        count, _, _ = await w.engine.count_tokens(spec)
        alone, _, _ = await w.engine.count_tokens(replace(spec, session_id=None))
    assert count.tokens == alone.tokens, "one message is sent: nothing of the session has a place beside it"


@pytest.mark.requirement("CTX-3")
async def test_system_messages_of_the_input_stay() -> None:
    framing = Message(Role.SYSTEM, (Part("", Text("Speak plainly.")),))
    asked = tuple(user(f"{number} {LONG}") for number in range(4))
    async with world([answer("fine")], policy=policy()) as w:
        await w.run(input=(framing, *asked))
        assert roles(w, 0) == ["system", "SYSTEM", "USER", "USER"]
