"""The inspector's tools against a real Node process: values, pauses, lines that are reached, profiles, sessions."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from tools.kit import words_of
from tools.operator.kit import ERROR, OPERATOR, Tools, invocation, seen
from tools.operator.node import PROGRAM, TICK, Node, node
from tools.operator.web import page, web

from turnwired.tools.operator.config import OperatorConfig
from turnwired.tools.operator.inspector.kinship import is_ours, listens_here
from turnwired.tools.operator.inspector.values import described, hottest, short
from turnwired.tools.operator.toolset import OperatorToolset
from turnwired.tools.port import ToolInvocation

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Inspected:
    """A process, and the tools that may look into it."""

    node: Node
    toolset: OperatorToolset
    tools: Tools

    async def value(self, name: str, **arguments: object) -> Any:
        """What a call gives, that must succeed."""
        return json.loads(await self.tools.words(name, target=self.node.address, **arguments))

    async def code(self, name: str, **arguments: object) -> str:
        """The code of a call that must fail."""
        return await self.tools.code(name, target=self.node.address, **arguments)

    async def count(self) -> int:
        """How often the program has gone round: while it grows, the process runs."""
        found = await self.value("set_logpoint", file="program.js", line=TICK, expression="count", max_hits=1)
        return int(found["hits"][0])


@asynccontextmanager
async def toolset_of(address: str, **settings: object) -> AsyncIterator[OperatorToolset]:
    config: dict[str, Any] = {"inspector": {"targets": [{"address": address}], **settings}}
    toolset = OperatorToolset(OperatorConfig.model_validate(config))
    try:
        yield toolset
    finally:
        await toolset.aclose()


@asynccontextmanager
async def inspected(directory: Path, *, attach: bool = True, **settings: object) -> AsyncIterator[Inspected]:
    async with node(directory, PROGRAM) as process, toolset_of(process.address, **settings) as toolset:
        found = Inspected(process, toolset, Tools(await seen(toolset)))
        if attach:
            about = await found.value("inspector_attach")
            assert (about["pid"], about["target"]) == (process.pid, process.address)
            assert about["version"].startswith("v") and about["url"].endswith("program.js")
        with anyio.fail_after(100):
            yield found


@pytest.mark.requirement("OPER-32")
async def test_nothing_but_a_configured_node_process_is_attached_to(tmp_path: Path) -> None:
    async with inspected(tmp_path, attach=False) as found:
        assert await found.code("evaluate", expression="1") == "not_attached"
        for name in ("inspector_attach", "evaluate"):
            more = {"expression": "1"} if name == "evaluate" else {}
            assert await found.tools.code(name, target="127.0.0.1:1", **more) == "blocked_target"


@pytest.mark.requirement("OPER-32")
@pytest.mark.parametrize(
    "listed",
    [b"[]", b"nonsense", b'[{"webSocketDebuggerUrl": "ws://127.0.0.1:1/../x"}]', b"[" + b" " * 300_000 + b"]", b"{}"],
)
async def test_what_is_no_inspector_is_not_attached_to(monkeypatch: pytest.MonkeyPatch, listed: bytes) -> None:
    monkeypatch.setattr("turnwired.tools.operator.inspector.tools.listens_here", lambda port: False)
    async with web({"/json/list": page(listed)}) as site, toolset_of(f"127.0.0.1:{site.port}") as toolset:
        tools = Tools(await seen(toolset))
        assert await tools.code("inspector_attach", target=f"127.0.0.1:{site.port}") == "no_inspector"
    async with toolset_of(f"127.0.0.1:{site.port}") as toolset:
        tools = Tools(await seen(toolset))
        assert await tools.code("inspector_attach", target=f"127.0.0.1:{site.port}") == "no_inspector"


@pytest.mark.requirement("OPER-33")
async def test_the_service_and_what_it_started_are_not_attached_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(tmp_path, child=True) as mine, toolset_of(mine.address) as toolset:
        tools = Tools(await seen(toolset))
        assert is_ours(mine.pid) and is_ours(os.getpid())
        assert await tools.code("inspector_attach", target=mine.address) == "blocked_self"
        # A process that cannot be asked what it listens on is known by its id.
        monkeypatch.setattr("turnwired.tools.operator.inspector.tools.listens_here", lambda port: False)
        assert await tools.code("inspector_attach", target=mine.address) == "blocked_self"
        assert await tools.code("evaluate", target=mine.address, expression="1") == "not_attached"
    async with web({}) as site:
        assert listens_here(site.port)


@pytest.mark.requirement("OPER-34")
async def test_values_come_as_json(tmp_path: Path) -> None:
    wanted: Mapping[str, Mapping[str, object]] = {
        "1 + 1": {"type": "number", "value": 2},
        "'x'": {"type": "string", "value": "x"},
        "-0": {"type": "number", "value": "-0"},
        "10n": {"type": "bigint", "value": "10n"},
        "null": {"type": "null", "value": None},
        "undefined": {"type": "undefined"},
        "(() => 1)": {"type": "function", "description": "() => 1"},
        "({a: [1, {b: 2n}]})": {"type": "object", "value": {"a": [1, {"b": "2n"}]}},
        "const a = {}; a.self = a; a": {"type": "object", "value": {"self": "[seen above]"}},
        "new Map([[1, new Set([2])]])": {"type": "map", "value": [[1, [2]]]},
        "/x/g": {"type": "regexp", "description": "/x/g"},
        "({toJSON() { throw 1 }})": {"type": "object", "description": "Object"},
        "Promise.resolve({a: 1})": {"type": "object", "value": {"a": 1}},
        "require('path').sep": {"type": "string", "value": "/"},
    }
    async with inspected(tmp_path) as found:
        assert {code: await found.value("evaluate", expression=code) for code in wanted} == wanted
        large = await found.value("evaluate", expression="'x'.repeat(100000)")
        assert large["cut"] is True and len(large["value"]) == 65536
        assert (await found.value("evaluate", expression="Array(100000).fill(1)"))["description"] == "Array(100000)"


@pytest.mark.requirement("OPER-34")
async def test_code_that_throws_or_does_not_end_is_an_error_and_the_process_goes_on(tmp_path: Path) -> None:
    async with inspected(tmp_path) as found:
        for code, words in (
            ("nope", "ReferenceError: nope is not defined"),
            ("throw new Error('boom')", "Error: boom"),
            ("Promise.reject('no')", "no"),
            ("(", "SyntaxError"),
            ("while (true) {}", "Execution was terminated"),
        ):
            result = await found.tools.result("evaluate", target=found.node.address, expression=code, max_seconds=0.3)
            assert result.status is ERROR and words in words_of(result)
            assert result.failure is not None and words not in result.failure.message
        assert await found.code("evaluate", expression="new Promise(() => {})", max_seconds=0.1) == "timeout"
        assert (await found.value("evaluate", expression="1"))["value"] == 1


@pytest.mark.requirement("OPER-35")
async def test_a_breakpoint_shows_what_is_there_and_lets_the_process_go_on(tmp_path: Path) -> None:
    async with inspected(tmp_path) as found:
        hit = await found.value(
            "set_breakpoint",
            file="program.js",
            line=TICK,
            condition="count > 2 && count % 2",
            expressions=["label.length", "step + 1", "nope"],
        )
        assert hit["hit"] is True and hit["locations"] == [f"line {TICK}"]
        assert [frame["function"] for frame in hit["call_stack"][:2]] == ["tick", "work"]
        assert hit["call_stack"][0]["file"].endswith("program.js") and hit["call_stack"][0]["line"] == TICK
        count = hit["variables"]["count"]
        assert count % 2 == 1 and hit["variables"]["label"] == f"tick {count}" and hit["variables"]["step"] == 1
        assert hit["expressions"]["step + 1"] == {"type": "number", "value": 2}
        assert hit["expressions"]["nope"]["threw"].startswith("ReferenceError")
        assert await found.count() > count


@pytest.mark.requirement("OPER-35")
async def test_a_line_that_is_not_reached_and_a_condition_that_is_none_hold_nothing(tmp_path: Path) -> None:
    async with inspected(tmp_path) as found:
        missed = await found.value("set_breakpoint", file="program.js", line=TICK, condition="false", wait_seconds=0.2)
        assert missed == {"hit": False, "locations": [f"line {TICK}"]}
        elsewhere = await found.value("set_breakpoint", file="other.js", line=1, wait_seconds=0.2)
        assert elsewhere == {"hit": False, "locations": []}
        assert await found.code("set_breakpoint", file="program.js", line=TICK, condition="(") == "threw"
        assert await found.count() > 0


@pytest.mark.requirement("OPER-35")
async def test_the_process_is_held_within_a_bound(tmp_path: Path) -> None:
    async with inspected(tmp_path, max_pause_seconds=0.5) as found:
        slow = "(() => { const end = Date.now() + 20000; while (Date.now() < end); })()"
        with anyio.fail_after(15):
            hit = await found.value("set_breakpoint", file="program.js", line=TICK, expressions=[slow])
        assert hit["hit"] is True and hit.get("cut") == "the process is held for 0.5 s at most"
        assert await found.count() > 0


@pytest.mark.requirement("OPER-35")
async def test_a_cancelled_call_leaves_the_process_running(tmp_path: Path) -> None:
    async with inspected(tmp_path) as found:
        arguments: dict[str, object] = {"target": found.node.address, "file": "program.js", "line": TICK}
        call = invocation({**arguments, "condition": "false", "wait_seconds": 20}, timeout=None)
        running = asyncio.create_task(found.tools.view.execute("set_breakpoint", call, 1 << 20))
        with anyio.move_on_after(0.5):
            await asyncio.shield(running)
        running.cancel()
        await asyncio.wait([running], timeout=10)
        assert running.cancelled()
        assert await found.count() > 0
        assert (await found.value("evaluate", expression="1"))["value"] == 1


@pytest.mark.requirement("OPER-35")
async def test_a_debugger_statement_does_not_hold_the_process(tmp_path: Path) -> None:
    async with inspected(tmp_path) as found:
        await found.value("evaluate", expression="globalThis.i = setInterval(() => { debugger }, 1); 0")
        missed = await found.value("set_breakpoint", file="program.js", line=TICK, condition="false", wait_seconds=0.3)
        assert missed["hit"] is False
        assert await found.count() > 0


@pytest.mark.requirement("OPER-36")
async def test_a_logpoint_collects_values_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async with inspected(tmp_path) as found:
        point = {"file": "program.js", "line": TICK}
        logged = await found.value("set_logpoint", **point, expression="{count, label}", max_hits=3)
        hits = [json.loads(hit) for hit in logged["hits"]]
        assert len(hits) == 3 and logged["complete"] is False
        assert [hit["label"] for hit in hits] == [f"tick {hit['count']}" for hit in hits]
        assert hits[2]["count"] == hits[0]["count"] + 2, "the process was held"
        thrown = await found.value("set_logpoint", **point, expression="nope", max_hits=1)
        assert thrown["hits"] == ["threw ReferenceError: nope is not defined"]
        assert await found.code("set_logpoint", **point, expression="1 +") == "threw"
        none = await found.value("set_logpoint", file="program.js", line=1, expression="1", wait_seconds=0.2)
        assert none["complete"] is True
        left = "Object.getOwnPropertyNames(globalThis).filter(name => name.includes('turnwire'))"
        assert (await found.value("evaluate", expression=left))["value"] == []


@pytest.mark.requirement("OPER-37")
async def test_a_profile_tells_where_the_time_goes(tmp_path: Path) -> None:
    async with inspected(tmp_path) as found:
        profile, spins = {}, []
        for _ in range(5):  # on a busy machine the program may not get to run within one profile
            profile = await found.value("profile_cpu", seconds=1.0)
            spins = [each for each in profile["functions"] if each["function"] == "spin"]
            if spins:
                break
        (spin,) = spins
        assert profile["measured_ms"] > 500 and spin["file"].endswith("program.js") and spin["line"] == 5
        assert 1 < spin["self_percent"] < 100


@pytest.mark.requirement("OPER-37")
def test_time_is_added_up_by_function_and_a_recursion_counts_once() -> None:
    def called(number: int, name: str, *children: int) -> dict[str, object]:
        frame = {"functionName": name, "url": "f.js", "lineNumber": 1}
        return {"id": number, "callFrame": frame, "children": list(children)}

    nodes = [called(1, "(root)", 2), called(2, "a", 3, 4), called(3, "a"), called(4, "b")]
    found = hottest({"nodes": nodes, "samples": [2, 3, 4, 4], "timeDeltas": [1000, 2000, 3000, 4000]})
    assert found["measured_ms"] == 10 and found["samples"] == 4
    functions = found["functions"]
    assert isinstance(functions, list)
    assert [(each["function"], each["self_ms"], each["total_ms"]) for each in functions] == [("b", 7, 7), ("a", 3, 10)]
    assert hottest({}) == {"measured_ms": 0.0, "samples": 0, "functions": []}


@pytest.mark.requirement("OPER-34")
def test_a_value_is_described_by_what_there_is() -> None:
    assert described({"type": "symbol", "description": "Symbol(a)"}) == {"type": "symbol", "description": "Symbol(a)"}
    assert short({"type": "object", "subtype": "error", "description": "Error: x"}) == "Error: x"
    preview = {"properties": [{"name": "a", "value": "1"}, {"name": "b", "type": "object"}], "overflow": True}
    assert short({"type": "object", "description": "Object", "preview": preview}) == "Object {a: 1, b: object, …}"


def by(principal: str, name: str, target: str, **more: object) -> ToolInvocation:
    caller = replace(OPERATOR, principal=principal)
    return replace(invocation({"target": target, **more}, caller=caller), native_name=name)


@pytest.mark.requirement("OPER-38")
async def test_a_session_is_the_callers_who_attached(tmp_path: Path) -> None:
    async with inspected(tmp_path, attach=False, max_sessions=1) as found:
        address = found.node.address
        code = {"expression": "1"}

        async def reason(principal: str, name: str, **more: object) -> str:
            result = await found.tools.view.execute(name, by(principal, name, address, **more), 1 << 20)
            return "" if result.failure is None else result.failure.origin_code

        assert await reason("ann", "inspector_attach") == ""
        assert await reason("ann", "evaluate", **code) == ""
        assert await reason("bob", "evaluate", **code) == "not_attached"
        assert await reason("bob", "inspector_attach") == "too_many_sessions"
        assert await reason("ann", "inspector_attach") == ""


@pytest.mark.requirement("OPER-38")
async def test_a_session_that_is_idle_ends_by_itself(tmp_path: Path) -> None:
    async with inspected(tmp_path, idle_seconds=0.3) as found:
        assert found.toolset._inspector is not None
        with anyio.fail_after(20):
            while found.toolset._inspector._held:
                await anyio.lowlevel.checkpoint()
        assert await found.code("evaluate", expression="1") == "not_attached"
        assert (await found.value("inspector_attach"))["pid"] == found.node.pid


@pytest.mark.requirement("OPER-38")
async def test_a_session_keeps_no_process_from_ending_and_ends_with_it(tmp_path: Path) -> None:
    async with inspected(tmp_path) as found:
        result = await found.tools.result("evaluate", target=found.node.address, expression="process.exit(0)")
        assert result.failure is not None and result.failure.origin_code in {"session_lost", "timeout"}
        with anyio.fail_after(20):
            while found.node.alive:
                await anyio.lowlevel.checkpoint()
        assert await found.code("evaluate", expression="1") in {"not_attached", "session_lost"}
        assert await found.code("inspector_attach") == "no_inspector"


@pytest.mark.requirement("OPER-38")
async def test_closing_ends_all_sessions_and_lets_go_of_the_process(tmp_path: Path) -> None:
    async with inspected(tmp_path) as found:
        arguments: dict[str, object] = {"target": found.node.address, "file": "program.js", "line": TICK}
        call = invocation({**arguments, "condition": "false", "wait_seconds": 20}, timeout=30)
        running = asyncio.create_task(found.tools.view.execute("set_breakpoint", call, 1 << 20))
        with anyio.move_on_after(0.5):
            await asyncio.shield(running)
        with anyio.fail_after(15):
            await found.toolset.aclose()
            result = await running
        assert result.failure is not None and result.failure.origin_code == "session_lost"
        async with toolset_of(found.node.address) as another:
            tools = Tools(await seen(another))
            await tools.words("inspector_attach", target=found.node.address)
            again = Inspected(found.node, another, tools)
            assert await again.count() > 0
