"""Calls that repeat and calls of one tool, bounded through the engine: what callers see of it."""

from __future__ import annotations

import pytest

from engine.harness import world
from turnwired.domain.event import ToolCallFinished
from turnwired.domain.failure import Reason
from turnwired.domain.message import ToolResultStatus
from turnwired.domain.outcome import Notice, OutcomeKind
from turnwired.domain.policy import ApprovalPolicy, LimitMode, LoopPolicy, PermissionAction, PermissionRule, Policy
from turnwired.policy.leaves import LEAF
from turnwired.policy.validate import violations
from turnwired.testing.provider import answer, calls
from turnwired.tools.port import ToolInvocation

pytestmark = pytest.mark.anyio


UNATTENDED = Policy(approval=ApprovalPolicy(rules=(PermissionRule("doom_loop", "*", PermissionAction.DENY),)))
"""Where nobody is there to ask."""


async def constant(_: ToolInvocation) -> str:
    return "unchanged"


def results(events: list[ToolCallFinished]) -> list[ToolResultStatus]:
    return [event.result.status for event in events]


@pytest.mark.requirement("COMPLETE-26", "SCN-112")
async def test_polling_a_status_that_changes_runs_to_its_answer() -> None:
    progress = iter(("10%", "40%", "80%", "done"))

    async def job_status(_: ToolInvocation) -> str:
        return next(progress)

    script = [*[calls(("job_status", '{"id":"j"}'))] * 4, answer("Finished.")]
    async with world(script, {"job_status": job_status}) as w:
        reader = await w.run()
        assert len(w.provider.requests) == 5
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
    finished = [event for event in reader.of(ToolCallFinished) if isinstance(event, ToolCallFinished)]
    assert results(finished) == [ToolResultStatus.OK] * 4


@pytest.mark.requirement("COMPLETE-25", "COMPLETE-28", "COMPLETE-29", "SCN-113")
async def test_alternating_calls_are_stopped_before_the_seventh_by_default_and_the_model_can_still_answer() -> None:
    names = ("a", "b", "a", "b", "a", "b", "a")
    script = [*(calls((name, "{}")) for name in names), answer("Nothing changes.")]
    async with world(script, {"a": constant, "b": constant}, policy=UNATTENDED) as w:
        reader = await w.run()
        assert [call.native_name for call in w.registry.executed] == list(names[:6])
    finished = [event for event in reader.of(ToolCallFinished) if isinstance(event, ToolCallFinished)]
    assert results(finished) == [*[ToolResultStatus.OK] * 6, ToolResultStatus.NOT_EXECUTED]
    assert finished[-1].result.failure is not None
    assert finished[-1].result.failure.reason is Reason.TOOL_LOOP_DETECTED
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("COMPLETE-29")
async def test_a_run_that_turns_it_off_is_bounded_by_its_steps_alone() -> None:
    policy = Policy(loop=LoopPolicy(repeated_call_threshold=0, max_steps=6))
    async with world([calls(("a", "{}"))] * 6, {"a": constant}) as w:
        reader = await w.run(policy=policy)
        assert len(w.registry.executed) == 6
    assert reader.finished.outcome.kind is OutcomeKind.MAX_STEPS


@pytest.mark.requirement("COMPLETE-20")
async def test_a_bound_on_one_tool_is_a_notice_and_the_run_goes_on() -> None:
    policy = Policy(loop=LoopPolicy(max_tool_calls_per_tool={"a": 1}))
    script = [calls(("a", "{}")), calls(("a", '{"n":1}'), ("b", "{}")), answer("Done.")]
    async with world(script, {"a": constant, "b": constant}) as w:
        reader = await w.run(policy=policy)
        assert [call.native_name for call in w.registry.executed] == ["a", "b"]
    (notice,) = reader.of(Notice)
    assert isinstance(notice, Notice)
    assert notice.metadata == {"policy_path": "loop.max_tool_calls_per_tool", "tool": "a"}
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("COMPLETE-21")
def test_counts_by_name_are_checked_entry_by_entry() -> None:
    counts: dict[str, int | LimitMode] = {
        "a": 1,
        "b": -1,
        "c": LimitMode.UNBOUNDED,
        "d": LimitMode.PROVIDER_NATIVE,
        "*": 2**40,
    }
    found = violations(Policy(loop=LoopPolicy(max_tool_calls_per_tool=counts)), "turn.policy")
    path = f"turn.policy.{LEAF['loop.max_tool_calls_per_tool'].path}"
    assert [item.field for item in found] == [f'{path}["b"]', f'{path}["d"]', f'{path}["*"]']
    (unnamed,) = violations(Policy(loop=LoopPolicy(max_tool_calls_per_tool={"": 1})))
    assert "without a name" in unnamed.description
