"""Names of tools that go from one source to another while a person thinks about a call."""

from __future__ import annotations

import pytest
from engine.harness import CALLER, world
from tools.kit import FakeToolset, described
from waiting.test_restart import ASKING, ONCE, SCRIPT, asked, dying, gone_on

from turnwired.domain.errors import Unavailable
from turnwired.domain.event import RunWaiting, ToolCallFinished
from turnwired.domain.failure import Reason
from turnwired.domain.message import Part, Text, ToolResultStatus
from turnwired.domain.tool import ToolSource
from turnwired.testing.provider import answer
from turnwired.tools.port import ToolOutput
from turnwired.tools.registry import Registry, Source

pytestmark = pytest.mark.anyio


def source(set_id: str) -> FakeToolset:
    """A source with a tool ``act``."""
    listed = (described("act", source=ToolSource.MCP, server_id=set_id),)
    return FakeToolset(set_id, listed, output=lambda _: ToolOutput((Part("", Text("acted")),)))


@pytest.mark.requirement("HOSTILE-19", "APPROVE-60")
@pytest.mark.parametrize("other", [True, False])
async def test_what_was_approved_of_one_source_is_not_run_by_another_that_has_its_name_after_a_restart(
    other: bool,
) -> None:
    store, first = dying(), source("first")
    async with world(SCRIPT, store=store, policy=ASKING, tools=Registry([Source(first)])) as w:
        run_id, before, task = await w.start(session_id="s")
        await before.until(RunWaiting)
        store.dead = True
    with pytest.raises(Unavailable):
        await task
    store.live_for(None)
    second = source("second" if other else "first")
    async with world([answer("Done.")], store=store, policy=ASKING, tools=Registry([Source(second)])) as w:
        reader, task = await gone_on(w, run_id, before)
        await w.engine.steering.resolve(CALLER, run_id, asked(before), ONCE)
        await task
    (finished,) = reader.of(ToolCallFinished)
    assert isinstance(finished, ToolCallFinished)
    if not other:
        assert (len(second.calls), finished.result.status) == (1, ToolResultStatus.OK)
        return
    assert (first.calls, second.calls) == ([], [])
    assert finished.result.failure is not None
    assert finished.result.failure.reason is Reason.TOOL_NOT_FOUND
    assert "is another tool now" in finished.result.failure.message
