"""Who waits for sources that do not answer: whoever starts the service, once, and no run that can do without them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from e2e.provider import answer, calls, provider
from e2e.service import config_text, prompt, service
from tools.kit import FakeToolset, described
from tools.servers.http_server import Body, Kill, Status, Wait, http_mcp

from turnwired.domain.errors import ToolError
from turnwired.domain.run import OPERATOR_ROLE, Caller
from turnwired.domain.tool import Tool, ToolSelection, ToolSource
from turnwired.tools.access import Access, AccessRule
from turnwired.tools.decorators import capped
from turnwired.tools.discovery import FirstDiscovery
from turnwired.tools.naming import pattern_of
from turnwired.tools.port import ToolView
from turnwired.tools.registry import Registry, Source

pytestmark = pytest.mark.anyio
FOREVER = 600.0
"""Seconds of patience that no test waits for: what returns has not waited."""


@dataclass
class Slow(FakeToolset):
    """A source that answers when the test says so."""

    answers: asyncio.Event = field(default_factory=asyncio.Event)
    asked: int = 0

    @property
    def discovering(self) -> bool:
        """Until it has answered."""
        return not self.answers.is_set()

    async def tools(self) -> Sequence[Tool]:
        """Once it answers."""
        self.asked += 1
        await self.answers.wait()
        return self.listed


@dataclass
class Unknown(FakeToolset):
    """One that does not say whether it is still to answer."""

    answers: asyncio.Event = field(default_factory=asyncio.Event)
    asked: int = 0

    async def tools(self) -> Sequence[Tool]:
        """Once it answers."""
        self.asked += 1
        await self.answers.wait()
        return self.listed


def names(view: ToolView) -> list[str]:
    """Of the tools."""
    return [tool.ref.routed_name for tool in view.tools]


async def seen(registry: Registry, caller: Caller | None = None) -> ToolView:
    """A view that comes without waiting for anybody."""
    with anyio.fail_after(20):
        return await registry.view(ToolSelection(), caller or Caller())


@asynccontextmanager
async def discovering(registry: Registry, but: Sequence[str] = ()) -> AsyncIterator[FirstDiscovery]:
    """A registry whose first discovery goes on."""
    discovery = FirstDiscovery(registry, but)
    async with anyio.create_task_group() as group:
        group.start_soon(discovery.run)
        await anyio.lowlevel.checkpoint()
        yield discovery
        group.cancel_scope.cancel()


@pytest.mark.requirement("REG-25")
async def test_a_run_has_the_tools_of_those_that_answered_and_is_told_of_the_others() -> None:
    slow, hangs = Slow("slow", [described("late")]), FakeToolset("hangs", hangs=True)
    sources = [Source(FakeToolset("good", [described("pick")])), Source(capped(slow, 99)), Source(hangs)]
    registry = Registry(sources, discovery_timeout=FOREVER)
    async with discovering(registry) as discovery:
        first = await seen(registry)
        assert names(first) == ["pick"]
        assert {failure.origin for failure in first.failures} == {"slow", "hangs"}
        assert all("has not said yet" in failure.message for failure in first.failures)
        assert slow.asked == 1, "by the discovery, and not again by the run"
        slow.answers.set()
        with anyio.fail_after(20):
            while registry.undiscovered != ["hangs"]:
                await anyio.lowlevel.checkpoint()
        later = await registry.revised(first, ToolSelection(), Caller())
        assert names(later) == ["pick", "late"]
        del discovery


@pytest.mark.requirement("REG-25")
@pytest.mark.parametrize("how", ["required", "lazy"])
async def test_a_run_waits_for_a_source_that_is_required_and_for_one_that_is_connected_for_it(
    how: str,
) -> None:
    slow = Slow("slow", [described("late")])
    registry = Registry([Source(slow, required=how == "required", lazy=how == "lazy")], discovery_timeout=FOREVER)
    found: list[str] = []
    async with discovering(registry, ["slow"] if how == "lazy" else []), anyio.create_task_group() as group:

        async def run() -> None:
            found.extend(names(await registry.view(ToolSelection(), Caller())))

        group.start_soon(run)
        with anyio.fail_after(20):
            while slow.asked < 1 + (how == "required"):
                await anyio.lowlevel.checkpoint()
        assert found == []
        slow.answers.set()
    assert found == ["late"]


@pytest.mark.requirement("REG-25", "REG-27")
@pytest.mark.parametrize("how", ["forbidden", "another tenant's"])
@pytest.mark.parametrize("discovers", [True, False])
async def test_a_source_that_is_connected_when_needed_is_neither_asked_nor_waited_for_by_who_cannot_have_it(
    how: str, discovers: bool
) -> None:
    slow = Slow("slow", [described("late")]) if discovers else Unknown("slow", [described("late")])
    rules = (AccessRule(roles=frozenset({"friend"}), allow=("slow__*",)), AccessRule(allow=("good__*",)))
    sources = [
        Source(FakeToolset("good", [described("pick")]), "good"),
        Source(slow, "slow", lazy=True, tenant="other" if how == "another tenant's" else None),
    ]
    access = Access(rules) if how == "forbidden" else Access()
    registry = Registry(sources, discovery_timeout=FOREVER, access=access)
    await registry.discover(["slow"])
    for _ in range(2):
        view = await seen(registry)
        assert (names(view), view.failures, slow.asked) == (["good__pick"], (), 0)
    friend = Caller("other", roles=frozenset({"friend"}))
    slow.answers.set()
    assert names(await seen(registry, friend)) == ["good__pick", "slow__late"]
    assert names(await seen(registry)) == ["good__pick"]


@pytest.mark.requirement("REG-25")
async def test_what_is_put_together_ahead_connects_nothing_that_no_run_has_needed() -> None:
    slow, hangs = Slow("slow", [described("late")]), Unknown("hangs", [described("never")])
    sources = [
        Source(FakeToolset("good", [described("pick")])),
        Source(slow, lazy=True),
        Source(hangs, lazy=True, required=True),
    ]
    registry = Registry(sources, discovery_timeout=FOREVER)
    await registry.discover(["slow", "hangs"])
    with anyio.fail_after(20):
        await registry.prepare()
    assert (slow.asked, hangs.asked) == (0, 0)


@pytest.mark.requirement("REG-25")
async def test_a_source_that_is_added_later_is_waited_for_by_nobody() -> None:
    registry = Registry([Source(FakeToolset("good", [described("pick")]))], discovery_timeout=FOREVER)
    slow = Slow("slow", [described("late")])
    await registry.add(Source(slow))
    view = await seen(registry)
    assert names(view) == ["pick"]
    assert slow.asked == 0
    slow.answers.set()
    assert names(await registry.revised(view, ToolSelection(), Caller())) == ["pick", "late"]


@pytest.mark.requirement("REG-26")
async def test_whoever_starts_waits_for_all_that_answer_and_is_told_for_whom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwired.tools.discovery.SOON", 0.01)
    slow = Slow("slow", [described("late")])
    registry = Registry([Source(FakeToolset("good", [described("pick")])), Source(slow)], discovery_timeout=FOREVER)
    told: list[Sequence[str]] = []

    def tell(set_ids: Sequence[str]) -> None:
        told.append(list(set_ids))
        slow.answers.set()

    async with discovering(registry) as discovery:
        with anyio.fail_after(20):
            await discovery.wait(tell)
    assert told == [["slow"]]
    assert names(await seen(registry)) == ["pick", "late"]


@pytest.mark.requirement("REG-26")
async def test_whoever_starts_waits_no_longer_than_the_discovery_timeout() -> None:
    registry = Registry([Source(FakeToolset("hangs", hangs=True), required=True)], discovery_timeout=0.01)
    registry.required_timeout = FOREVER
    async with discovering(registry) as discovery:
        with anyio.fail_after(20):
            await discovery.wait()


PICKERS = AccessRule(roles=frozenset({"picker"}), allow=("good__*",))
READERS = AccessRule(roles=frozenset({"reader"}), allow=("*__read", "secret__list"), deny=("hush__*",))


@pytest.mark.requirement("REG-27")
@pytest.mark.parametrize(
    ("role", "told"),
    [("picker", {"good"}), ("reader", {"good", "secret", "plain"}), ("nobody", set()), (OPERATOR_ROLE, {"operator"})],
)
async def test_a_failing_source_is_told_to_those_alone_who_could_have_a_tool_of_it(role: str, told: set[str]) -> None:
    boom = RuntimeError("broken")
    registry = Registry(
        [
            *(Source(FakeToolset(name, error=boom), namespace=name) for name in ("good", "secret", "hush")),
            Source(FakeToolset("plain", error=boom)),
            Source(FakeToolset("operator", error=boom), kind=ToolSource.OPERATOR),
        ],
        access=Access((PICKERS, READERS, AccessRule(roles=frozenset({OPERATOR_ROLE}), allow=("fetch",)))),
    )
    view = await seen(registry, Caller(roles=frozenset({role})))
    told = told | ({"plain"} if role == OPERATOR_ROLE else set()) | ({"plain"} if role == "picker" else set())
    assert {failure.origin for failure in view.failures} == told


@pytest.mark.requirement("REG-27")
async def test_of_a_required_source_that_is_not_theirs_callers_learn_no_name() -> None:
    source = Source(FakeToolset("secret", error=RuntimeError("broken")), namespace="secret", required=True)
    registry = Registry([source], access=Access((PICKERS, READERS)))
    with pytest.raises(ToolError) as theirs:
        await seen(registry, Caller(roles=frozenset({"reader"})))
    assert theirs.value.failure.origin == "secret"
    with pytest.raises(ToolError) as not_theirs:
        await seen(registry, Caller(roles=frozenset({"picker"})))
    assert "secret" not in repr(not_theirs.value.failure)


@pytest.mark.requirement("REG-27")
def test_patterns_tell_what_they_can_cover_and_what_they_cover_whole() -> None:
    for pattern, may, whole in (
        ("a__*", True, True),
        ("*", True, True),
        ("a_*", True, True),
        ("a__read", True, False),
        ("a__re*", True, False),
        ("*__read", True, False),
        ("*_", True, False),
        ("b__*", False, False),
        ("a", False, False),
    ):
        patterns = pattern_of((pattern,))
        assert (patterns.may_match("a__"), patterns.match_all("a__")) == (may, whole), pattern


@pytest.mark.requirement("REG-25", "REG-26", "MCPH-20")
async def test_a_service_with_five_broken_servers_of_twenty_runs_turns_while_two_of_them_are_still_mute(
    tmp_path: Path,
) -> None:
    async with http_mcp() as good, http_mcp() as mute, http_mcp() as failing, http_mcp() as wrong, http_mcp() as deadly:
        mute.always["POST"] = Wait()
        failing.always["POST"] = Status(500)
        wrong.always["tools/list"] = Body(b"{}")
        deadly.always["POST"] = Kill()
        urls = {f"good{number}": good.url for number in range(15)}
        urls |= {"mute": mute.url, "failing": failing.url, "wrong": wrong.url, "deadly": deadly.url}
        patient = "connect_timeout = 600\ndiscovery_grace = 60\n"
        servers = "".join(f'[mcp_servers.{name}]\nurl = "{url}"\n{patient}' for name, url in urls.items())
        silent = json.dumps(["-c", "import sys; sys.stdin.read()"])
        servers += f'[mcp_servers.silent]\ncommand = "{sys.executable}"\nargs = {silent}\n{patient}'
        script = calls(("good14__echo", {"text": "hi"})), answer("Done.")
        async with provider(*script) as p, service(tmp_path, config_text(p.url, more=servers), GATES=p.url) as s:
            assert mute.open, "it is still being asked"
            run = await s.run(prompt("Hello"))
            shown = {tool["function"]["name"] for tool in p.requests[0]["tools"]}
            assert mute.open
            ended = await s.stop()
    assert {f"good{number}__echo" for number in range(15)} <= shown
    assert not [name for name in shown if "__" in name and not name.startswith("good")]
    assert run.view.text == "Done."
    assert "waiting for the tools of mute, silent\n" in ended.stderr
