"""Rules about calls as a program meets them: circles, polling, what tools say of themselves, checks of arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from turnwired import Rewound, Runtime, TurnResult
from turnwired.domain.approval import ApprovalKind
from turnwired.domain.event import ApprovalRequested, LoggedEvent, ToolCallFinished
from turnwired.domain.outcome import OutcomeKind
from turnwired.testing import FakeMcpServer, FakeTool, ScriptedProvider, answer, calls
from turnwired.testing.provider import Step
from turnwired.tools.python import tool

pytestmark = pytest.mark.anyio


def status(job: int) -> str:
    """Say how a job goes."""
    return f"job {job} works"


def price(book: int) -> str:
    """Say what a book costs."""
    return f"book {book} costs 7"


@tool(read_only=True)
def look(shelf: int) -> str:
    """Look at a shelf."""
    return f"shelf {shelf!r}"


def change(shelf: int) -> str:
    """Change a shelf."""
    return f"changed {shelf}"


@tool(destructive=True)
def wipe(shelf: int) -> str:
    """Empty a shelf."""
    return f"emptied {shelf}"


@dataclass
class Told:
    """Who was asked about what, how each call ended, and how the run did."""

    asked: list[tuple[str, ApprovalKind]] = field(default_factory=list[tuple[str, ApprovalKind]])
    ended: dict[str, str] = field(default_factory=dict[str, str])
    words: list[str] = field(default_factory=list[str])
    result: TurnResult | None = None

    @property
    def outcome(self) -> OutcomeKind:
        """How the run ended."""
        assert self.result is not None
        return self.result.outcome.kind


async def played(
    script: Sequence[Sequence[Step]],
    *functions: object,
    config: Mapping[str, object] | None = None,
    policies: Mapping[str, object] | None = None,
    server: FakeMcpServer | None = None,
) -> Told:
    """A turn whose every question is answered with ONCE."""
    told = Told()

    async def hear(item: LoggedEvent | Rewound) -> None:
        match item:
            case LoggedEvent(event=ApprovalRequested(approval=approval)):
                told.asked.append((approval.call.tool.routed_name, approval.kind))
                await runtime.resolve_approval(approval, "ONCE")
            case LoggedEvent(event=ToolCallFinished(result=result)):
                told.ended[result.call_id.rsplit("_", 1)[1]] = result.status.value
                told.words += [str(getattr(part.content, "text", "")) for part in result.content]
            case _:
                pass

    runtime = Runtime(
        config or {},
        tools=functions,
        toolsets=[] if server is None else [server.toolset()],
        providers={"scripted": ScriptedProvider(list(script))},
        environ={},
    )
    async with runtime:
        told.result = await runtime.run_turn("Go on.", on_event=hear, policies=policies)
    return told


@pytest.mark.requirement("PUBLIC-1")
async def test_equal_calls_and_a_short_cycle_of_calls_are_asked_about_from_the_fourth_round() -> None:
    same = await played([calls(("status", '{"job":1}'))] * 5 + [answer("Done.")], status)
    rounds = [calls(("status", '{"job":1}')), calls(("price", '{"book":1}'))] * 4
    cycle = await played([*rounds, answer("Done.")], status, price)
    loop = ApprovalKind.LOOP_DETECTED
    assert same.asked == [("status", loop)] * 2
    assert cycle.asked == [("status", loop), ("price", loop)]
    assert (same.outcome, cycle.outcome) == (OutcomeKind.ANSWERED, OutcomeKind.ANSWERED)


@pytest.mark.requirement("PUBLIC-2")
async def test_only_the_configuration_lets_a_tool_be_polled_and_no_word_of_its_server() -> None:
    polling = {"tools": {"polling": {"names": ["status"]}}}
    named = await played([calls(("status", '{"job":1}'))] * 7 + [answer("Done.")], status, config=polling)

    async def works(arguments: Mapping[str, object]) -> str:
        return "works"

    harmless = FakeTool(works, annotations={"readOnlyHint": True, "idempotentHint": True})
    server = FakeMcpServer("jobs", {"status": harmless})
    trusted = await played([calls(("jobs__status", "{}"))] * 4 + [answer("Done.")], server=server)
    assert named.asked == []
    assert trusted.asked == [("jobs__status", ApprovalKind.LOOP_DETECTED)]


@pytest.mark.requirement("PUBLIC-3")
@pytest.mark.parametrize(
    ("approval", "asked", "ended"),
    [
        ({}, {"wipe": ApprovalKind.DESTRUCTIVE}, ("OK", "OK", "OK")),
        (
            {"read_only_action": "ask", "default_action": "deny"},
            {"look": ApprovalKind.RULE, "wipe": ApprovalKind.DESTRUCTIVE},
            ("OK", "DENIED", "OK"),
        ),
        ({"destructive_action": "allow"}, {}, ("OK", "OK", "OK")),
        ({"auto_approve": True}, {}, ("OK", "OK", "OK")),
        (
            {"destructive_action": "always_ask", "auto_approve": True},
            {"wipe": ApprovalKind.DESTRUCTIVE},
            ("OK", "OK", "OK"),
        ),
        ({"allow_destructive": False}, {}, ("OK", "OK", "DENIED")),
    ],
)
async def test_where_no_rule_matches_the_policy_decides_by_what_a_tool_says_of_itself(
    approval: dict[str, object], asked: dict[str, ApprovalKind], ended: tuple[str, str, str]
) -> None:
    three = calls(("look", '{"shelf":1}'), ("change", '{"shelf":1}'), ("wipe", '{"shelf":1}'))
    told = await played([three, answer("Done.")], look, change, wipe, policies={"approval": approval})
    assert dict(told.asked) == asked
    assert tuple(told.ended[key] for key in sorted(told.ended)) == ended
    assert told.outcome is OutcomeKind.ANSWERED


@pytest.mark.requirement("PUBLIC-4")
@pytest.mark.parametrize(
    ("mode", "status_of_call", "words"),
    [
        ("strict", "ERROR", 'the value is not of type "integer"'),
        ("lenient", "OK", "text became an integer"),
        ("none", "OK", "shelf 7"),
    ],
)
async def test_arguments_of_a_wrong_type_are_refused_repaired_or_left_to_the_function(
    mode: str, status_of_call: str, words: str
) -> None:
    policies = {"tool": {"argument_validation": mode}}
    told = await played([calls(("look", '{"shelf":"7"}')), answer("Done.")], look, policies=policies)
    assert list(told.ended.values()) == [status_of_call]
    assert words in " ".join(told.words)
