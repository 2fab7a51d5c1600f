"""What must hold of a run, however it went: the invariants of the design as assertions over what readers see."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence

from engine.harness import CALLER, LIMIT, Reader, World
from turnwired.codec.frame import Visibility
from turnwired.codec.message import decode_message
from turnwired.domain.approval import Approval, ApprovalDecision, ApprovalKind, ApprovalState
from turnwired.domain.event import (
    ApprovalRequested,
    ApprovalResolved,
    IterationFinished,
    IterationStarted,
    LoggedEvent,
    PartFinished,
    RunFinished,
    RunResumed,
    RunStarted,
    RunWaiting,
    TextDelta,
    ToolCallArgumentsFinished,
    ToolCallExecuting,
    ToolCallFinished,
    ToolCallStarted,
)
from turnwired.domain.failure import Reason
from turnwired.domain.message import Message, Role, Text, ToolCall, ToolResult
from turnwired.domain.outcome import Notice, OutcomeKind
from turnwired.domain.run import RunState
from turnwired.engine.log import visibility_of
from turnwired.providers.port import ModelRequest
from turnwired.store.port import ApprovalFilter, RunFilter, SpendingScope
from turnwired.turn.trace import trace_of


def assert_log(events: Sequence[LoggedEvent]) -> None:
    """Dense, one beginning, one end that is last, and every call through its four stations in order."""
    assert [item.sequence for item in events] == list(range(1, len(events) + 1))
    kinds = [type(item.event) for item in events]
    assert kinds.count(RunStarted) <= 1, kinds
    assert RunStarted not in kinds or kinds[0] is RunStarted
    assert kinds.count(RunFinished) == 1, kinds
    assert kinds[-1] is RunFinished, kinds
    assert kinds.count(IterationStarted) == kinds.count(IterationFinished), kinds
    late = [notice.metadata["call_id"] for item in events if (notice := _late(item)) is not None]
    assert len(set(late)) == len(late), "a late result is told twice"
    _assert_calls(events)
    _assert_parts(events)
    _assert_asked(events)
    finished = events[-1].event
    assert isinstance(finished, RunFinished)
    if finished.outcome.kind is not OutcomeKind.ANSWERED:
        assert finished.trace is not None
        assert finished.trace == trace_of(events[:-1])


def _late(item: LoggedEvent) -> Notice | None:
    event = item.event
    return event if isinstance(event, Notice) and event.reason is Reason.TOOL_RESULT_LATE else None


def _assert_calls(events: Sequence[LoggedEvent]) -> None:
    order = (ToolCallStarted, ToolCallArgumentsFinished, ToolCallExecuting, ToolCallFinished)
    stations: dict[str, list[int]] = {}
    for item in events:
        match item.event:
            case ToolCallStarted(call_id) | ToolCallArgumentsFinished(call_id) | ToolCallExecuting(call_id):
                stations.setdefault(call_id, []).append(order.index(type(item.event)))
            case ToolCallFinished(result):
                stations.setdefault(result.call_id, []).append(3)
            case _:
                pass
    for call_id, seen in stations.items():
        assert seen[0] == 0, (call_id, seen)
        assert seen == sorted(set(seen)), (call_id, seen)
        assert seen[-1] == 3, (call_id, seen)


def _assert_asked(events: Sequence[LoggedEvent]) -> None:
    """A question has one answer at most, its call runs after a yes alone, and a run that waits does nothing."""
    asked: dict[str, str] = {}
    answers: dict[str, ApprovalDecision] = {}
    handed: set[str] = set()
    by_tools: set[str] = set()
    waits = False
    for item in events:
        match item.event:
            case ApprovalRequested(approval):
                assert approval.approval_id not in asked
                if approval.kind is ApprovalKind.INPUT:
                    by_tools.add(approval.approval_id)
                else:
                    assert approval.call.call_id not in asked.values(), "one question at most per call"
                    asked[approval.approval_id] = approval.call.call_id
            case ApprovalResolved(approval_id, decision):
                assert approval_id in asked.keys() | by_tools
                assert approval_id not in answers, "a question was answered twice"
                answers[approval_id] = decision
            case RunWaiting():
                waits = True
                assert handed <= {call.call_id for call in item.event.client_tool_calls}
                handed.clear()
            case RunResumed():
                assert waits, "a run went on that did not wait"
                assert not handed, "a run that waits did something"
                waits = False
            case IterationStarted() | ToolCallStarted() | TextDelta():
                assert not waits, "a run that waits did something"
            case ToolCallExecuting(call_id):
                if waits:
                    handed.add(call_id)  # it was handed to the caller, who is told of it right after
                about = [approval_id for approval_id, call in asked.items() if call == call_id]
                assert all(
                    answers.get(approval_id) in (ApprovalDecision.ONCE, ApprovalDecision.ALWAYS)
                    for approval_id in about
                ), "a call ran without the answer"
            case _:
                pass


async def assert_approvals(w: World, run_id: str, events: Sequence[LoggedEvent]) -> None:
    """What is listed of a settled run's questions is what its log says of them, and none is open."""
    query = ApprovalFilter(CALLER.tenant, run_id=run_id)
    listed, _ = await w.engine.steering.list_approvals(query, 500, "")
    told = {item.entry.approval_id: item.entry for item in trace_of(events).entries if isinstance(item.entry, Approval)}
    assert {approval.approval_id: approval for approval in listed} == told
    assert ApprovalState.PENDING not in {approval.state for approval in listed}


def _assert_parts(events: Sequence[LoggedEvent]) -> None:
    """A finished part is what its deltas add up to."""
    grown: dict[str, str] = {}
    for item in events:
        match item.event:
            case TextDelta(part_id, text):
                grown[part_id] = grown.get(part_id, "") + text
            case PartFinished(part) if isinstance(part.content, Text) and part.part_id in grown:
                assert part.content.text == grown[part.part_id]
            case _:
                pass


async def assert_same_for_all(w: World, run_id: str, live: Reader, watchers: Sequence[tuple[int, Reader]]) -> None:
    """Live, watched from anywhere, reloaded, summarised: one history. ``watchers`` are with where they began."""
    reloaded = Reader()
    await w.follow(run_id, reloaded)
    assert_log(reloaded.events)
    assert live.events == reloaded.events
    for begun, watcher in watchers:
        assert watcher.events == reloaded.events[begun:]
    for level in (Visibility.MILESTONE, Visibility.OUTCOME):
        filtered = Reader()
        await w.follow(run_id, filtered, level=level)
        assert filtered.events == [item for item in reloaded.events if visibility_of(item.event) <= level]
        assert filtered.frames[-1].through_sequence == len(reloaded.events)
    run = await w.engine.get_run(CALLER, run_id)
    assert run.state is RunState.SETTLED
    assert run.outcome == reloaded.finished.outcome
    assert run.last_sequence == len(reloaded.events)
    assert run.usage == reloaded.finished.usage
    assert await w.engine.get_trace(CALLER, run_id) == trace_of(reloaded.events)
    await assert_approvals(w, run_id, reloaded.events)


def assert_history(messages: Sequence[Message]) -> None:
    """Every call has exactly one result right after its message, in call order; ids never repeat."""
    open_calls: list[str] = []
    everything: Counter[str] = Counter()
    for message in messages:
        calls = [part.content.call_id for part in message.parts if isinstance(part.content, ToolCall)]
        results = [part.content.call_id for part in message.parts if isinstance(part.content, ToolResult)]
        everything.update(calls)
        if message.role is Role.TOOL:
            assert results, "a tool message without results"
            assert results == open_calls[: len(results)], "results are not in call order"
            open_calls = open_calls[len(results) :]
            continue
        assert not open_calls, f"calls without a result: {open_calls}"
        assert not results, "a result outside of a tool message"
        assert message.parts, "a message without parts"
        open_calls = calls
    assert not open_calls, f"calls without a result: {open_calls}"
    assert max(everything.values(), default=1) == 1, "call ids repeat"


async def assert_session(w: World, session_id: str) -> None:
    """The stored session is a well-formed conversation."""
    stored = await w.store.load_messages(CALLER.tenant, session_id)
    assert_history([decode_message(item.body) for item in stored])


def assert_requests(requests: Sequence[ModelRequest]) -> None:
    """What went to the provider in one run: well-formed each, and every request begins with the one before."""
    before: list[bytes] = []
    for request in requests:
        pieces = list(request.messages)
        assert pieces[: len(before)] == before, "the prefix of the request changed"
        before = pieces
        open_calls: list[str] = []
        for piece in pieces:
            message = json.loads(piece)
            parts = message.get("parts", [])
            results = [part["result"] for part in parts if isinstance(part, dict) and "result" in part]
            if results:
                assert results == open_calls[: len(results)]
                open_calls = open_calls[len(results) :]
                continue
            assert not open_calls, "a call without a result was sent"
            open_calls = [part["call"] for part in parts if isinstance(part, dict) and "call" in part]
        assert not open_calls, "a call without a result was sent"


async def assert_spent(w: World, session_id: str) -> None:
    """What a session has spent is what its runs say, each counted once; nothing stays reserved when they have ended."""
    runs, _ = await w.engine.list_runs(RunFilter(CALLER.tenant, session_id=session_id), 1000, "")
    async with asyncio.timeout(LIMIT):
        for run in runs:
            await w.engine.until_ended(run.run_id)
    assert not any(w.engine.budgets.reserved.values())
    runs, _ = await w.engine.list_runs(RunFilter(CALLER.tenant, session_id=session_id), 1000, "")
    assert all(run.outcome is not None for run in runs)
    told = sum((run.usage.input_tokens or 0) + (run.usage.output_tokens or 0) for run in runs)
    kept = await w.store.spent(CALLER.tenant, SpendingScope.SESSION, session_id)
    assert kept.get("tokens", 0) == told
