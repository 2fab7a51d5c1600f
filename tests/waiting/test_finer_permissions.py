"""Tools that ask for something finer than their names: held against rules, shown to people, allowed for good."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from execution.served import served, turn
from waiting.kit import ALWAYS, DENIED, OK, ONCE, REJECT, rules

from turnwire.v1 import approval_pb2, message_pb2, outcome_pb2
from turnwired.domain.approval import PermissionRequest
from turnwired.testing.provider import Step, answer, calls
from turnwired.tools.python import tool
from turnwired.tools.shell import asks_to_run

pytestmark = pytest.mark.anyio

ANSWERED = outcome_pb2.OUTCOME_KIND_ANSWERED


class Shell:
    """Notes what was run."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    @tool(asks=asks_to_run("cmd"))
    def run_shell(self, cmd: str) -> str:
        """Run a command line."""
        self.ran.append(cmd)
        return "ok"


def lines(*commands: str) -> list[list[Step]]:
    """A model that runs these, one by one."""
    return [*(calls(("run_shell", json.dumps({"cmd": command}))) for command in commands), answer("Done.")]


async def played(
    shell: Shell,
    commands: tuple[str, ...],
    wanted: tuple[tuple[str, str, str], ...],
    answers: tuple[approval_pb2.ApprovalDecision.ValueType, ...],
    **approval: bool,
) -> tuple[list[approval_pb2.Approval], list[message_pb2.ToolResult], list[tuple[str, str]]]:
    """The questions, the results, and the rules that were added, of one turn whose questions are answered in order."""
    request = turn()
    request.turn.policy.CopyFrom(rules(*wanted))
    for name, value in approval.items():
        setattr(request.turn.policy.approval, name, value)
    async with served(lines(*commands), shell.run_shell) as s:
        seen, task = s.follow(request)
        for number, decision in enumerate(answers, 1):
            await seen.until("run_waiting", number)
            await s.resolve(seen.asked[-1], decision)
        await task
        assert seen.finished.outcome.kind == ANSWERED
    added = [(rule.permission, rule.pattern) for each in seen.resolutions for rule in each.added_rules]
    return seen.asked, seen.results, added


@pytest.mark.requirement("SCN-105", "APPROVE-63")
async def test_scenario_105_always_for_a_line_of_commands_allows_exactly_those_shown() -> None:
    shell = Shell()
    lines = ("git status && rm -rf ./tmp", "rm -rf ./other", "git status; curl x | sh", "rm -rf ./tmp; git status")
    asked, results, added = await played(shell, lines, (("tool", "run_shell", "ASK"),), (ALWAYS, REJECT, REJECT))
    assert [list(question.patterns) for question in asked] == [
        ["git status", "rm -rf ./tmp"],
        ["rm -rf ./other"],
        ["git status; curl x | sh"],
    ]
    assert list(asked[0].always_patterns) == ["git status", "rm -rf ./tmp"]
    assert added == [("shell", "git status"), ("shell", "rm -rf ./tmp")]
    assert [result.status for result in results] == [OK, DENIED, DENIED, OK]
    assert shell.ran == [lines[0], lines[3]], "what was allowed is not asked about again"


@pytest.mark.requirement("SCN-106", "APPROVE-63")
async def test_scenario_106_what_is_allowed_for_good_is_literal() -> None:
    shell = Shell()
    lines = (
        'grep -n "on.*" f.txt',
        'grep -n "on; cat /etc/passwd; echo" f.txt',
        'python3 -c "print(2)"',
        'python3 -c "print(3)"',
    )
    asked, _, added = await played(shell, lines, (("tool", "run_shell", "ASK"),), (ALWAYS, REJECT, ALWAYS, REJECT))
    assert [list(question.patterns) for question in asked] == [[line] for line in lines]
    assert added == [("shell", r'grep -n "on.\*" f.txt'), ("shell", 'python3 -c "print(2)"')]
    assert shell.ran == [lines[0], lines[2]]


@pytest.mark.requirement("SCN-105", "APPROVE-64")
@pytest.mark.parametrize(
    "line", ["true && rm -rf x", "rm -rf x", "ls; rm  -rf x &", "rm -rf $(ls)", "ls | rm -rf x"], ids=repr
)
async def test_a_denied_command_is_denied_wherever_it_stands_in_a_line(line: str) -> None:
    shell = Shell()
    denied = (("tool", "*", "ALLOW"), ("shell", "*", "ALLOW"), ("shell", "rm *", "DENY"))
    asked, results, _ = await played(shell, (line,), denied, ())
    assert (asked, shell.ran, [result.status for result in results]) == ([], [], [DENIED])


@pytest.mark.requirement("APPROVE-64")
@pytest.mark.parametrize("line", ["echo $(rm -rf x)", "sudo rm -rf x", "X=1 rm -rf x", "r'm' -rf x"], ids=repr)
async def test_what_is_unclear_is_asked_about_although_all_commands_are_allowed(line: str) -> None:
    wanted = (("tool", "*", "ALLOW"), ("shell", "*", "ALLOW"), ("*", "*", "ALLOW"), ("shell", "rm *", "DENY"))
    shell = Shell()
    asked, results, added = await played(shell, (line,), wanted, (ALWAYS,))
    assert [(each.permission, list(each.patterns), list(each.always_patterns)) for each in asked] == [
        ("shell.unclear", [line], [])
    ]
    assert (shell.ran, added, [result.status for result in results]) == ([line], [], [OK])
    for allowed in ((("shell.unclear", "*", "ALLOW"),), ()):
        shell = Shell()
        await played(shell, (line,), (*wanted, *allowed), (), auto_approve=not allowed)
        assert shell.ran == [line]


@pytest.mark.requirement("APPROVE-63")
async def test_a_rule_about_the_tool_counts_where_none_is_about_what_it_asks_for_and_a_lock_always() -> None:
    both = ("git status", "git push")
    for wanted, ran, answers in (
        ((("tool", "run_shell", "ALLOW"),), both, ()),
        ((("tool", "run_shell", "ASK"), ("shell", "git status", "ALLOW")), both, (ONCE,)),
        ((("shell", "git push", "DENY"), ("tool", "run_shell", "ALLOW")), both[:1], ()),
        ((("shell", "*", "ALLOW"), ("tool", "run_shell", "DENY")), (), ()),
        ((("shell", "*", "ALLOW"), ("tool", "run_shell", "ALWAYS_ASK")), both[1:], (REJECT, ONCE)),
    ):
        shell = Shell()
        await played(shell, both, wanted, answers)
        assert tuple(shell.ran) == ran, wanted


@pytest.mark.requirement("APPROVE-63")
@pytest.mark.parametrize(
    ("fault", "words"),
    [("raise", "ZeroDivisionError was raised"), ("unknown", "the permission 'deploy', which no rule can name")],
)
async def test_a_tool_that_cannot_say_what_it_asks_for_is_not_called(fault: str, words: str) -> None:
    ran: list[str] = []

    def asks(arguments: Mapping[str, object]) -> PermissionRequest:
        return PermissionRequest("deploy", (str(1 // (fault != "raise")),))

    @tool(asks=asks)
    def deploy() -> str:
        """Deploy."""
        ran.append("deployed")
        return "ok"

    async with served([calls(("deploy", "{}")), answer("Done.")], deploy) as s:
        told = await s.run("Go")
    assert ran == []
    assert words in told.results[0].failure.message
    assert told.finished.outcome.kind == ANSWERED
