"""What operator tools ask permission for, and that people are asked: held against rules in a whole run."""

from __future__ import annotations

from collections.abc import Mapping
from json import dumps
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tools.operator.kit import OPERATOR, files

from turnwired import Rewound, Runtime
from turnwired.domain.approval import Approval, ApprovalDecision, PermissionRequest
from turnwired.domain.errors import ConfigError, ToolError
from turnwired.domain.event import ApprovalRequested, ApprovalResolved, LoggedEvent, ToolCallFinished
from turnwired.domain.failure import Reason
from turnwired.domain.message import ToolResult, ToolResultStatus
from turnwired.domain.run import Caller
from turnwired.testing import ScriptedProvider, answer, calls
from turnwired.tools.operator.config import OperatorConfig
from turnwired.tools.operator.toolset import OperatorToolset

pytestmark = pytest.mark.anyio

PATCH = "--- a/root/a.txt\n+++ b/root/a.txt\n@@ -1 +1 @@\n-x\n+y\n--- a/root/b*.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
EVERYTHING = {"fetch": {}, "inspector": {"targets": [{"address": "127.0.0.1:9229"}]}}


def asked(root: Path, name: str, arguments: Mapping[str, object], **settings: object) -> PermissionRequest:
    config = OperatorConfig.model_validate({**files(root), **EVERYTHING, **settings})
    request = OperatorToolset(config).asks_for(name, arguments)
    assert request is not None
    return request


@pytest.mark.requirement("OPER-16")
@pytest.mark.parametrize(
    ("name", "arguments", "patterns"),
    [
        ("read_file", {"path": "./root//src/a.py"}, ("root/src/a.py",)),
        ("tail_file", {"path": "root/log"}, ("root/log",)),
        ("write_file", {"path": "root/a", "text": "x"}, ("root/a",)),
        ("list_dir", {}, ("root",)),
        ("grep_files", {"pattern": "x", "path": "root/src"}, ("root/src",)),
        ("apply_patch", {"patch": PATCH}, ("root/a.txt", "root/b*.txt")),
        ("http_fetch", {"url": "https://Docs.Example.com/a?b#c"}, ("docs.example.com",)),
        ("http_fetch", {"url": "http://example.com:443/"}, ("example.com:443",)),
        ("http_fetch", {"url": "https://[2606:4700::1111]:80/"}, ("[2606:4700::1111]:80",)),
        ("evaluate", {"target": "127.0.0.1:9229", "expression": "1"}, ("127.0.0.1:9229",)),
    ],
)
def test_a_tool_asks_about_what_it_would_touch(
    tmp_path: Path, name: str, arguments: dict[str, object], patterns: tuple[str, ...]
) -> None:
    request = asked(tmp_path, name, arguments)
    assert (request.permission, request.patterns) == (name, patterns)
    assert request.always_patterns == tuple(pattern.replace("*", "\\*") for pattern in patterns)
    assert request.title.endswith("?") and not any(pattern in request.title for pattern in patterns)


@pytest.mark.requirement("OPER-16")
@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("read_file", {"path": 5}, "not_text"),
        ("read_file", {"path": "elsewhere/f"}, "not_found"),
        ("apply_patch", {"patch": "no patch"}, "bad_patch"),
        ("apply_patch", {"patch": PATCH.replace("root/a.txt", "root/../a.txt")}, "blocked_path"),
        ("http_fetch", {"url": "ftp://example.com"}, "blocked_scheme"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anybody_is_asked(
    tmp_path: Path, name: str, arguments: dict[str, object], code: str
) -> None:
    with pytest.raises(ToolError) as raised:
        asked(tmp_path, name, arguments)
    assert raised.value.failure.origin_code == code


async def run(root: Path, policy: Mapping[str, Any], *made: tuple[str, str], **operator: object) -> list[object]:
    """What became of the calls, with each question in its place: nobody answers but with "once"."""
    told: list[object] = []

    async def watch(item: LoggedEvent | Rewound) -> None:
        assert isinstance(item, LoggedEvent)
        match item.event:
            case ApprovalRequested(approval):
                told.append(approval)
                await runtime.resolve_approval(approval, ApprovalDecision.ONCE, caller=OPERATOR)
            case ToolCallFinished(result):
                told.append(result.status)
            case _:
                pass

    model = ScriptedProvider([*(calls(call) for call in made), answer("Done.")])
    config = {"operator": {**files(root), **operator}, "policy": {"approval": policy}}
    async with Runtime(config, providers={"scripted": model}) as runtime:
        await runtime.run_turn("Do it.", on_event=watch, caller=OPERATOR)
    return told


WRITE = ("write_file", dumps({"path": "root/f", "text": "new"}))
READ = ("read_file", dumps({"path": "root/f"}))
ALLOW = [{"permission": name, "pattern": "*", "action": "allow"} for name in ("write_file", "read_file")]


@pytest.mark.requirement("OPER-17")
async def test_reading_runs_and_writing_is_asked_about(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old")
    read, written = [await run(tmp_path, {}, call) for call in (READ, WRITE)]
    assert read == [ToolResultStatus.OK]
    question, status = written
    assert isinstance(question, Approval) and question.kind == "DESTRUCTIVE" and question.patterns == ("root/f",)
    assert (question.permission, question.title) == ("write_file", "Write a file?")
    assert status == ToolResultStatus.OK and (tmp_path / "f").read_text() == "new"


@pytest.mark.requirement("OPER-17")
async def test_nothing_is_written_where_destructive_tools_are_not_allowed(tmp_path: Path) -> None:
    assert await run(tmp_path, {"allow_destructive": False, "rules": ALLOW}, WRITE) == [ToolResultStatus.DENIED]
    assert not (tmp_path / "f").exists()


@pytest.mark.requirement("OPER-16")
async def test_a_rule_about_a_path_holds_for_that_path(tmp_path: Path) -> None:
    rules = [*ALLOW, {"permission": "write_file", "pattern": "root/f", "action": "deny"}]
    other = ("write_file", dumps({"path": "root/g", "text": "new"}))
    assert await run(tmp_path, {"rules": rules}, WRITE, other) == [ToolResultStatus.DENIED, ToolResultStatus.OK]


@pytest.mark.requirement("OPER-17")
async def test_a_tool_of_always_ask_is_asked_about_whatever_rules_allow(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old")
    policy = {"auto_approve": True, "rules": ALLOW}
    assert await run(tmp_path, policy, WRITE) == [ToolResultStatus.OK]
    told = await run(tmp_path, policy, READ, READ, WRITE, always_ask=["read_file"])
    questions = [each for each in told if isinstance(each, Approval)]
    assert [question.permission for question in questions] == ["read_file", "read_file"]
    assert [question.always_patterns for question in questions] == [(), ()]
    assert [each for each in told if each not in questions] == [ToolResultStatus.OK] * 3


@pytest.mark.requirement("OPER-17")
async def test_a_rule_that_denies_holds_for_a_tool_of_always_ask_too(tmp_path: Path) -> None:
    policy = {"rules": [{"permission": "read_file", "pattern": "*", "action": "deny"}]}
    assert await run(tmp_path, policy, READ, always_ask=["read_file"]) == [ToolResultStatus.DENIED]


@pytest.mark.requirement("OPER-17")
async def test_an_answer_to_another_question_does_not_settle_one_of_always_ask(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old")
    questions: dict[str, Approval] = {}
    told: list[str] = []

    async def watch(item: LoggedEvent | Rewound) -> None:
        assert isinstance(item, LoggedEvent)
        match item.event:
            case ApprovalRequested(approval):
                questions[approval.permission] = approval
                if len(questions) == 2:
                    always = questions["write_file"]
                    await runtime.resolve_approval(always, ApprovalDecision.ALWAYS, caller=OPERATOR)
            case ApprovalResolved(decision=decision, resolved_by=by):
                told.append(f"{decision} by {by}")
                if len(told) == 1:
                    await runtime.resolve_approval(questions["read_file"], ApprovalDecision.REJECT, caller=OPERATOR)
            case _:
                pass

    model = ScriptedProvider([calls(READ, WRITE), answer("Done.")])
    config = {
        "operator": {**files(tmp_path), "always_ask": ["read_file"]},
        "policy": {"approval": {"rules": [ALLOW[1]]}},
    }
    async with Runtime(config, providers={"scripted": model}) as runtime:
        await runtime.run_turn("Do it.", on_event=watch, caller=OPERATOR)
    assert told == ["ALWAYS by ann", "REJECT by ann"]


@pytest.mark.requirement("OPER-40")
async def test_who_is_no_operator_neither_sees_nor_calls_an_operator_tool(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("SECRET")
    results: list[ToolResult] = []

    async def watch(item: LoggedEvent | Rewound) -> None:
        if isinstance(item, LoggedEvent) and isinstance(item.event, ToolCallFinished):
            results.append(item.event.result)

    model = ScriptedProvider([calls(READ), answer("Done.")])
    config = {"operator": {**files(tmp_path), **EVERYTHING}}
    somebody = Caller(principal="bob", roles=frozenset({"support"}))
    async with Runtime(config, providers={"scripted": model}) as runtime:
        for caller in (None, somebody):
            assert (await runtime.list_tools(caller=caller)).tools == ()
        assert len((await runtime.list_tools(caller=OPERATOR)).tools) == 12
        await runtime.run_turn("Read it.", on_event=watch, caller=somebody)
    assert [result.failure.reason for result in results if result.failure is not None] == [Reason.TOOL_NOT_FOUND]


@pytest.mark.requirement("OPER-20")
@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"files": {"roots": []}}, "at least 1 item"),
        ({"files": {"roots": [{"path": "relative"}]}}, "path must be absolute"),
        ({"files": {"roots": [{"path": "/"}]}}, "needs a name"),
        ({"files": {"roots": [{"path": "/a/x"}, {"path": "/b/x"}]}}, 'two roots are called "x"'),
        ({"files": {"roots": [{"path": "/a", "name": "a/b"}]}}, "String should match pattern"),
        ({"files": {"roots": [{"path": "/a"}], "max_read_bytes": 0}}, "greater than or equal to 1024"),
        ({"fetch": {"allow_hosts": ["https://a"]}}, "is no host"),
        ({"fetch": {"private_hosts": ["*.internal"]}}, "private hosts are named one by one"),
        ({"fetch": {"private_hosts": ["a:99999"]}}, "has no such port"),
        ({"inspector": {"targets": []}}, "at least 1 item"),
        ({"inspector": {"targets": [{"address": "127.0.0.1"}]}}, 'takes "host:port"'),
        ({"inspector": {"targets": [{"address": "10.0.0.1:9229"}]}}, "needs remote = true"),
        ({"always_ask": ["http_fetch"]}, "which is not on"),
        ({"files": {"roots": [{"path": "/a"}]}, "always_ask": ["write_file"]}, "which is not on"),
        ({"shell": {}}, "Extra inputs are not permitted"),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused(config: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError) as raised:
        OperatorConfig.model_validate(config)
    assert words in str(raised.value)


@pytest.mark.requirement("OPER-20")
async def test_a_refusal_names_the_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"operator\.files\.roots\.0: .*path must be absolute"):
        async with Runtime({"operator": {"files": {"roots": [{"path": "here"}]}}}, providers={}):
            pass
