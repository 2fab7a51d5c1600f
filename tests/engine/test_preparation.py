"""From an accepted turn to its first model call: what can end it there, and what the model is then sent."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from engine.faults import FaultyStore
from engine.harness import CALLER, LIMIT, user, world
from turnwired.domain.errors import Unavailable
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.run import TurnSpec
from turnwired.domain.tool import ToolChoice, ToolChoiceMode, ToolSelection
from turnwired.testing.provider import answer, calls
from turnwired.testing.registry import Function
from turnwired.tools.port import ToolInvocation

pytestmark = pytest.mark.anyio


async def ok(invocation: ToolInvocation) -> str:
    return "ok"


@pytest.mark.requirement("ENGINE-11")
async def test_history_that_cannot_be_read_settles_the_run_in_preparation(caplog: pytest.LogCaptureFixture) -> None:
    store = FaultyStore(unreadable=True)
    async with world([answer("never")], store=store) as w:
        reader = await w.run(session_id="s")
    failure = reader.finished.outcome.failure
    assert failure is not None
    assert (failure.phase.value, failure.reason) == ("PREPARATION", Reason.STORE_UNAVAILABLE)
    assert "the disk" not in failure.message
    assert "the disk cannot be read" in caplog.text
    assert reader.kinds() == ["RunStarted", "RunFinished"]


@pytest.mark.requirement("ENGINE-19")
@pytest.mark.parametrize(
    ("choice", "tools"),
    [(ToolChoice(routed_name="other"), {"ok": ok}), (ToolChoice(ToolChoiceMode.REQUIRED), {})],
)
async def test_a_tool_choice_that_the_run_cannot_keep_ends_it_before_the_model_is_asked(
    choice: ToolChoice, tools: dict[str, Function]
) -> None:
    async with world([answer("never")], tools) as w:
        reader = await w.run(tools=ToolSelection(choice=choice))
        assert w.provider.requests == []
    failure = reader.finished.outcome.failure
    assert failure is not None
    assert (failure.phase, failure.reason) == (FailurePhase.PREPARATION, Reason.TOOL_NOT_FOUND)


@pytest.mark.requirement("ENGINE-17")
@pytest.mark.parametrize("how", ["cancel", "deadline"])
async def test_what_ends_a_run_while_it_is_prepared_is_not_forgotten(how: str) -> None:
    store = FaultyStore(load_gate=asyncio.Event())
    async with world([answer("never")], store=store) as w:
        run_id, reader, task = await w.start(session_id="s")
        async with asyncio.timeout(LIMIT):
            await store.held.wait()
        if how == "cancel":
            w.engine.cancel_if_live(run_id, Failure(FailurePhase.MODEL, Reason.CANCELLED, "test"))
        else:
            w.engine.deadline_reached(run_id, 5.0)
        assert store.load_gate is not None
        store.load_gate.set()
        await task
        assert w.provider.requests == []
    kind = OutcomeKind.ABORTED if how == "cancel" else OutcomeKind.BUDGET_EXCEEDED
    assert reader.finished.outcome.kind is kind


@pytest.mark.requirement("ENGINE-13")
async def test_history_reaches_the_model_in_order_and_the_prefix_only_grows() -> None:
    script = [calls(("ok", "{}")), answer("first"), calls(("ok", "{}")), answer("second")]
    async with world(script, {"ok": ok}) as w:
        await w.run("one", session_id="s")
        await w.run("two", session_id="s")
        requests = [list(request.messages) for request in w.provider.requests]
    for before, after in itertools.pairwise(requests):
        assert after[: len(before)] == before
    roles = [message["role"] for message in w.provider.messages(3)]
    assert roles == ["system", "USER", "ASSISTANT", "TOOL", "ASSISTANT", "USER", "ASSISTANT", "TOOL"]


@pytest.mark.requirement("ENGINE-15")
async def test_more_runs_than_the_server_takes_are_refused_and_not_stored() -> None:
    gate = asyncio.Event()
    async with world([[gate.wait, *answer("done")]] * 2, max_active_runs=2) as w:
        started = [await w.start() for _ in range(2)]
        with pytest.raises(Unavailable) as caught:
            await w.engine.start_turn(TurnSpec(CALLER, (user("one too many"),)))
        assert caught.value.reason is Reason.OVERLOADED
        assert caught.value.retry_after
        gate.set()
        for _, _, task in started:
            await task
