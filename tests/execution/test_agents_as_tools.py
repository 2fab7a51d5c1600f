"""Agents as tools: runs that are made on behalf of other runs."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import anyio
import pytest
from engine.harness import CALLER, LIMIT, Reader, World, user, world
from execution.served import served

from turnwire.v1 import agent_service_pb2
from turnwired.config.load import read_config
from turnwired.domain.approval import ApprovalDecision
from turnwired.domain.errors import ConfigError, Conflict, InvalidRequest, NotFound, ToolError
from turnwired.domain.event import RunStarted, ToolCallExecuting, ToolCallFinished, ToolCallProgressed
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import Text, ToolResult, ToolResultStatus
from turnwired.domain.model import ModelSelection
from turnwired.domain.outcome import Notice, OutcomeKind
from turnwired.domain.policy import (
    ApprovalPolicy,
    PermissionAction,
    PermissionRule,
    Policy,
    TimeoutPolicy,
    ToolErrorMode,
    ToolPolicy,
)
from turnwired.domain.run import Agent, RunState, TurnSpec
from turnwired.domain.tool import ToolSelection, ToolSource
from turnwired.domain.trace import ToolCallTrace
from turnwired.engine.steering import Answer
from turnwired.store.port import RunFilter
from turnwired.testing.provider import Step, answer, calls, fails
from turnwired.tools.port import ToolInvocation

MODEL = ModelSelection("scripted", "scripted-model")
LEAD = Agent("lead", ("Delegate.",), MODEL, agents=("helper",))
HELPER = Agent("helper", ("Help.",), MODEL, description="Knows about birds.")
ASK = ("agent__helper", '{"input":"Which bird?"}')


async def quick(invocation: ToolInvocation) -> str:
    """A tool of the deployment."""
    return invocation.call_id


def result_of(reader: Reader) -> ToolResult:
    """The result of the one call."""
    (finished,) = reader.of(ToolCallFinished)
    assert isinstance(finished, ToolCallFinished)
    return finished.result


def child_of(reader: Reader) -> str:
    """The run that the one call made."""
    (executing,) = reader.of(ToolCallExecuting)
    assert isinstance(executing, ToolCallExecuting)
    assert executing.child_run_id is not None
    return executing.child_run_id


def agent_run_of(reader: Reader) -> str:
    """The run that an agent made of one of the calls."""
    runs = [event.child_run_id for event in reader.of(ToolCallExecuting) if isinstance(event, ToolCallExecuting)]
    (run_id,) = [run_id for run_id in runs if run_id is not None]
    return run_id


async def ended(w: World, run_id: str) -> Reader:
    """The log of a run that has ended or is about to."""
    reader = Reader()
    await w.follow(run_id, reader)
    return reader


@pytest.mark.requirement("CHILD-1", "CHILD-2", "CHILD-3")
async def test_a_call_of_an_agent_is_a_run_of_it_whose_answer_is_the_result() -> None:
    script = [calls(ASK), answer("A robin."), answer("It is a robin.")]
    async with world(script, {"quick": quick}, agents=(LEAD, HELPER)) as w:
        reader = await w.run(agent_id="lead")
        (started,) = reader.of(RunStarted)
        assert isinstance(started, RunStarted)
        assert started.tool_names == ("quick", "agent__helper")
        assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
        result = result_of(reader)
        assert (result.status, [part.content for part in result.content]) == (
            ToolResultStatus.OK,
            [Text("A robin.")],
        )
        trace = await w.engine.get_trace(CALLER, started.run_id)
        (traced,) = (each.entry for each in trace.entries if isinstance(each.entry, ToolCallTrace))
        assert traced.child_run_id == child_of(reader)
        child = await ended(w, child_of(reader))
        (begun,) = child.of(RunStarted)
        assert isinstance(begun, RunStarted)
        assert (begun.run_id, begun.parent_run_id, begun.agent_id) == (child_of(reader), started.run_id, "helper")
        assert begun.session_id is None
        listed, _ = await w.engine.list_runs(RunFilter(CALLER.tenant, parent_run_id=started.run_id), 10, "")
        assert [run.run_id for run in listed] == [child_of(reader)]
        assert w.provider.messages(1)[1:] == [{"role": "USER", "parts": ["Which bird?"]}], (
            "the called agent sees the input alone"
        )
        view = await w.engine.list_tools(CALLER, "lead", ToolSelection())
        (listed_tool,) = [tool for tool in view.tools if tool.ref.source is ToolSource.AGENT]
        assert (listed_tool.ref.server_id, listed_tool.description) == ("helper", "Knows about birds.")


@pytest.mark.requirement("CHILD-3")
async def test_an_agent_that_ends_without_an_answer_is_an_error_that_says_how_it_ended() -> None:
    no: list[Step] = [fails(Reason.PROVIDER_REJECTED)]
    script = [calls(ASK), no, answer("No bird.")]
    async with world(script, agents=(LEAD, HELPER)) as w:
        reader = await w.run(agent_id="lead")
        result = result_of(reader)
        assert result.status is ToolResultStatus.ERROR
        assert result.failure is not None
        assert result.failure.reason is Reason.TOOL_FAILED
        assert result.failure.origin == "helper"
        assert result.failure.metadata["child_run_id"] == child_of(reader)
        assert "ERRORED" in result.failure.message
        child = await ended(w, child_of(reader))
        assert child.finished.outcome.failure is not None
        assert child.finished.outcome.failure.message in result.failure.message
        assert reader.finished.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("CHILD-3")
async def test_an_agent_that_cannot_begin_is_an_error_of_its_call_alone() -> None:
    script = [calls(ASK), answer("No bird.")]
    async with world(script, agents=(LEAD, HELPER), max_active_runs=1) as w:
        reader = await w.run(agent_id="lead")
        result = result_of(reader)
        assert result.failure is not None
        assert result.failure.reason is Reason.OVERLOADED
        assert result.status in {ToolResultStatus.ERROR, ToolResultStatus.NOT_EXECUTED}
        assert reader.finished.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("CHILD-4")
@pytest.mark.parametrize("how", ["cancel", "deadline", "failing sibling"])
async def test_the_end_of_a_run_reaches_the_runs_below_it_first(how: str) -> None:
    """The tool of the lowest run has unwound before the highest is reported ended."""
    unwound: list[str] = []
    running = asyncio.Event()

    async def slow(invocation: ToolInvocation) -> str:
        running.set()
        try:
            await anyio.sleep_forever()
        finally:
            unwound.append(invocation.run_id)
        return ""

    async def fail(invocation: ToolInvocation) -> str:
        await running.wait()
        raise ToolError(Failure(FailurePhase.TOOL, Reason.TOOL_FAILED, "no", origin=invocation.call_id))

    middle = replace(HELPER, agents=("last",))
    last = Agent("last", (), MODEL)
    first = calls(ASK, ("fail", "{}")) if how == "failing sibling" else calls(ASK)
    script = [first, calls(("agent__last", '{"input":"x"}')), calls(("slow", "{}"))]
    policy = Policy(
        timeout=TimeoutPolicy(run=0.5 if how == "deadline" else None), tool=ToolPolicy(error_mode=ToolErrorMode.ABORT)
    )
    async with world(script, {"slow": slow, "fail": fail}, agents=(LEAD, middle, last)) as w:
        run_id, reader, task = await w.start(agent_id="lead", policy=policy)
        async with asyncio.timeout(LIMIT):
            await running.wait()
        stop = Failure(FailurePhase.MODEL, Reason.CANCELLED, "enough")
        if how == "cancel":
            await w.engine.cancel_run(CALLER, run_id, stop)
        await task
        assert len(unwound) == 1, "a tool below still acts while the run above is reported ended"
        kinds = {"cancel": OutcomeKind.ABORTED, "deadline": OutcomeKind.BUDGET_EXCEEDED}
        assert reader.finished.outcome.kind is kinds.get(how, OutcomeKind.ERRORED)
        results = [event.result for event in reader.of(ToolCallFinished) if isinstance(event, ToolCallFinished)]
        assert ToolResultStatus.INTERRUPTED in {result.status for result in results}
        child = await ended(w, agent_run_of(reader))
        grandchild = await ended(w, child_of(child))
        for below in (child, grandchild):
            assert below.finished.outcome.kind is OutcomeKind.ABORTED
            assert below.finished.outcome.failure is not None
            assert below.finished.outcome.failure.reason is Reason.PARENT_ENDED
        assert unwound == [child_of(child)]


@pytest.mark.requirement("CHILD-5")
async def test_at_the_bound_of_depth_no_agents_are_offered() -> None:
    itself = replace(LEAD, agents=("lead",))
    again = calls(("agent__lead", '{"input":"deeper"}'))
    script = [again, again, answer("bottom"), answer("middle"), answer("top")]
    async with world(script, agents=(itself,), max_run_depth=2) as w:
        reader = await w.run(agent_id="lead")
        child = await ended(w, child_of(reader))
        grandchild = await ended(w, child_of(child))
        names = [run.of(RunStarted)[0] for run in (reader, child, grandchild)]
        assert [bool(started.tool_names) for started in names if isinstance(started, RunStarted)] == [True, True, False]
        assert "agent__lead" not in w.provider.requests[2].tools.decode()


@pytest.mark.requirement("CHILD-5", "CHILD-6")
async def test_a_caller_can_make_a_run_on_behalf_of_an_active_one_within_the_depth() -> None:
    gate = asyncio.Event()
    script = [[gate.wait, *answer("parent")], [gate.wait, *answer("child")]]
    async with world(script, max_run_depth=1) as w:
        parent, above, task = await w.start()
        await above.until(RunStarted)
        child, below, other = await w.start(parent_run_id=parent)
        await below.until(RunStarted)
        with pytest.raises(InvalidRequest, match="max_run_depth"):
            await w.engine.start_turn(TurnSpec(CALLER, (user("x"),), parent_run_id=child))
        with pytest.raises(NotFound):
            await w.engine.start_turn(TurnSpec(CALLER, (user("x"),), parent_run_id="run_of_nobody"))
        gate.set()
        await asyncio.gather(task, other)
        with pytest.raises(Conflict) as raised:
            await w.engine.start_turn(TurnSpec(CALLER, (user("x"),), parent_run_id=parent))
        assert raised.value.reason is Reason.RUN_SETTLED
        assert (await w.engine.get_run(CALLER, child)).parent_run_id == parent


@pytest.mark.requirement("CHILD-4", "CHILD-6")
async def test_a_run_that_was_made_on_behalf_of_another_ends_with_it() -> None:
    gate = asyncio.Event()
    async with world([[gate.wait, *answer("parent")], [asyncio.Event().wait]]) as w:
        parent, above, task = await w.start()
        await above.until(RunStarted)
        child, below, other = await w.start(parent_run_id=parent)
        await below.until(RunStarted)
        gate.set()
        await asyncio.gather(task, other)
        assert below.finished.outcome.failure is not None
        assert below.finished.outcome.failure.reason is Reason.PARENT_ENDED
        assert (await w.engine.get_run(CALLER, child)).state is RunState.SETTLED


@pytest.mark.requirement("CHILD-7")
async def test_an_agent_that_is_not_there_is_left_out_and_reported() -> None:
    async with world([answer("alone")], agents=(replace(LEAD, agents=("nobody", "helper")), HELPER)) as w:
        reader = await w.run(agent_id="lead")
        notices = [event for event in reader.of(Notice) if isinstance(event, Notice)]
        assert [(notice.reason, "nobody" in notice.message) for notice in notices] == [(Reason.AGENT_NOT_FOUND, True)]
        (started,) = reader.of(RunStarted)
        assert isinstance(started, RunStarted)
        assert started.tool_names == ("agent__helper",)


@pytest.mark.requirement("CHILD-7")
def test_the_configuration_names_only_agents_that_it_has() -> None:
    data = {
        "providers": {"openai": {"models": ["m"]}},
        "agents": {"lead": {"agents": ["helper"]}, "helper": {}},
    }
    assert read_config(data, {}).agents["lead"].agents == ("helper",)
    data["agents"]["lead"]["agents"] = ["nobody"]
    with pytest.raises(ConfigError, match=r'agents\.lead\.agents.*there is no agent "nobody"'):
        read_config(data, {})


@pytest.mark.requirement("CHILD-8")
@pytest.mark.parametrize("asked", [ToolSelection(exclude=("agent__*",)), ToolSelection(include=("quick",))])
async def test_a_request_leaves_out_agents_as_it_leaves_out_tools(asked: ToolSelection) -> None:
    async with world([answer("alone")], {"quick": quick}, agents=(LEAD, HELPER)) as w:
        reader = await w.run(agent_id="lead", tools=asked)
        (started,) = reader.of(RunStarted)
        assert isinstance(started, RunStarted)
        assert started.tool_names == ("quick",)


@pytest.mark.requirement("CHILD-9")
async def test_the_time_limit_of_a_tool_call_does_not_end_the_run_of_an_agent() -> None:
    async def longer() -> None:
        await anyio.sleep(0.05)

    policy = Policy(timeout=TimeoutPolicy(tool_call=0.01))
    script = [calls(ASK), [longer, *answer("A robin.")], answer("It is a robin.")]
    async with world(script, agents=(LEAD, HELPER)) as w:
        reader = await w.run(agent_id="lead", policy=policy)
        assert result_of(reader).status is ToolResultStatus.OK


@pytest.mark.requirement("CHILD-10")
async def test_agents_of_an_agent_are_stored_and_read() -> None:
    async with served([answer("done")]) as s:
        agent = agent_service_pb2.Agent(agent_id="made", agents=["helper", "other"])
        put = await s.agents.PutAgent(agent_service_pb2.PutAgentRequest(agent=agent))
        assert list(put.agent.agents) == ["helper", "other"]
        got = await s.agents.GetAgent(agent_service_pb2.GetAgentRequest(agent_id="made"))
        assert list(got.agent.agents) == ["helper", "other"]


@pytest.mark.requirement("CHILD-11")
async def test_whoever_follows_the_run_above_sees_that_the_run_below_waits() -> None:
    rules = (PermissionRule("tool", "quick", PermissionAction.ASK),)
    below = replace(HELPER, policy=Policy(approval=ApprovalPolicy(rules)))
    script = [calls(ASK), calls(("quick", "{}")), answer("A robin."), answer("It is a robin.")]
    async with world(script, {"quick": quick}, agents=(LEAD, below)) as w:
        _, reader, task = await w.start(agent_id="lead")
        await reader.until(ToolCallProgressed)
        (progress,) = reader.of(ToolCallProgressed)
        assert isinstance(progress, ToolCallProgressed)
        assert child_of(reader) in progress.message
        assert "waits for an approval" in progress.message
        run = await w.engine.get_run(CALLER, child_of(reader))
        assert run.waiting is not None
        (approval,) = run.waiting.approvals
        await w.engine.steering.resolve(CALLER, run.run_id, approval.approval_id, Answer(ApprovalDecision.ONCE))
        await task
        assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
        assert len(reader.of(ToolCallProgressed)) == 1
