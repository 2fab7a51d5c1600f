"""What a person sees of a run: in a terminal with a spinner, and in a file without one."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace

import pytest
from rich.console import Console

from turnwired.cli.render import RunView, cost_text, usage_text
from turnwired.cli.tables import policy_table, tool_table
from turnwired.domain.event import (
    Event,
    IterationRetryScheduled,
    PartFinished,
    ReasoningDelta,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolCallArgumentsFinished,
    ToolCallExecuting,
    ToolCallFinished,
    ToolCallStarted,
)
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import Blob, Part, Text, ToolResult, ToolResultStatus
from turnwired.domain.model import ModelSelection
from turnwired.domain.outcome import Notice, Outcome, OutcomeKind
from turnwired.domain.policy import (
    ApprovalPolicy,
    EffectivePolicy,
    LimitMode,
    LoopPolicy,
    PermissionAction,
    PermissionRule,
    Policy,
    PolicyLayer,
)
from turnwired.domain.tool import CollisionResolution, Tool, ToolCollision, ToolRef, ToolSource
from turnwired.domain.usage import Cost, Usage, UsageSource
from turnwired.policy.merge import Layer, merge

HOSTILE = "\x1b]0;owned\x07\x1b[2J[/red]\x9b31m\rgone"


def call(call_id: str, name: str, arguments: str) -> Sequence[Event]:
    """A call up to its execution."""
    ref = ToolRef(name, name, ToolSource.LOCAL)
    return (
        ToolCallStarted(call_id, ref),
        ToolCallArgumentsFinished(call_id, arguments),
        ToolCallExecuting(call_id),
    )


def result(call_id: str, text: str, status: ToolResultStatus = ToolResultStatus.OK) -> ToolCallFinished:
    """The result of a call after 12 ms."""
    return ToolCallFinished(ToolResult(call_id, status, (Part("", Text(text)),)), 12_000_000)


def started() -> RunStarted:
    """The first event."""
    model = ModelSelection("openai", "gpt-x")
    return RunStarted("run_1", "default", 0, model, EffectivePolicy(Policy(), ()), ("add", "search"))


def finished(kind: OutcomeKind = OutcomeKind.ANSWERED, failure: Failure | None = None) -> RunFinished:
    """The last event."""
    usage, cost = Usage(1234, 56), Cost("USD", 1_500_000)
    return RunFinished(Outcome(kind, failure), usage=usage, cost=cost, iteration_count=2, tool_call_count=2)


class Screen:
    """A view and what it has written so far."""

    def __init__(self, *, terminal: bool, show_reasoning: bool = False) -> None:
        self.written = io.StringIO()
        self.console = Console(
            file=self.written, force_terminal=terminal, width=100, highlight=False, color_system=None, record=True
        )
        self.view = RunView(self.console, show_reasoning=show_reasoning)

    @property
    def spinning(self) -> str | None:
        """What the spinner says, while there is one."""
        return None if self.view._status is None else str(self.view._status.status)

    def show(self, *events: Event) -> str:
        """Show events; what was written since the last time."""
        before = len(self.written.getvalue())
        for event in events:
            self.view.show(event)
        return self.written.getvalue()[before:]


@pytest.mark.requirement("CLI-1")
def test_without_a_terminal_a_run_is_plain_lines() -> None:
    screen = Screen(terminal=False)
    events = (
        *(started(), TextDelta("p", "Let me "), TextDelta("p", "see.")),
        *call("c1", "add", '{"a": 1}'),
        *call("c2", "search", '{"q": "x"}'),
        result("c2", "nothing found", ToolResultStatus.ERROR),
        result("c1", "1"),
        *(TextDelta("p2", "It is 1.\n"), finished()),
    )
    screen.show(*events)
    screen.view.close()
    assert screen.written.getvalue().splitlines() == [
        "run run_1  openai/gpt-x, 2 tools",
        "Let me see.",
        '✗ search({"q": "x"})  12 ms  error',
        "  nothing found",
        '✓ add({"a": 1})  12 ms  ok',
        "  1",
        "It is 1.",
        "ANSWERED  2 model calls, 2 tool calls, 1,234 tokens in, 56 out, cost 0.001500 USD",
    ]
    assert screen.view.outcome is OutcomeKind.ANSWERED


@pytest.mark.requirement("CLI-2")
def test_in_a_terminal_a_spinner_names_the_tools_that_run_and_goes_when_they_are_done() -> None:
    screen = Screen(terminal=True)
    screen.show(started(), TextDelta("p", "Let me see."))
    screen.show(*call("c1", "add", '{"a": [1]}'), *call("c2", "search", "{}"))
    assert screen.spinning == 'add({"a": [1]}), search({})'
    screen.show(result("c1", "1"))
    assert screen.spinning == "search({})"
    screen.show(result("c2", "found"))
    still: str | None = screen.spinning
    assert still is None
    assert "It is 1." in screen.show(TextDelta("p2", "It is 1."))
    ended = screen.show(finished())
    assert ended.startswith("\n")
    assert "ANSWERED" in ended


@pytest.mark.requirement("CLI-3")
@pytest.mark.parametrize("terminal", [True, False])
def test_what_models_and_tools_say_can_neither_mark_up_nor_steer_the_terminal(terminal: bool) -> None:
    screen = Screen(terminal=terminal)
    screen.show(
        started(),
        TextDelta("p", HOSTILE),
        *call("c1", "add", HOSTILE),
        result("c1", HOSTILE),
        Notice(Reason.TOOL_QUARANTINED, HOSTILE),
        IterationRetryScheduled(1, 10**9, Failure(FailurePhase.MODEL, Reason.PROVIDER_NETWORK, HOSTILE)),
        finished(OutcomeKind.ERRORED, Failure(FailurePhase.MODEL, Reason.PROVIDER_NETWORK, HOSTILE)),
    )
    screen.view.close()
    text = screen.console.export_text()
    assert "\x07" not in text
    assert "]0;owned[2J[/red]31mgone" in text
    written = screen.written.getvalue()
    for steering in ("\x1b]0;", "\x1b[2J\x1b", "\x9b", "\x07", "\rgone"):
        assert steering not in written
    ref = ToolRef("x", "x", ToolSource.MCP, "server")
    Console(file=screen.written).print(tool_table([Tool(ref, f"{HOSTILE}\nmore", "{}")]))
    assert "\x1b]0;" not in screen.written.getvalue()


@pytest.mark.requirement("CLI-4")
def test_a_run_that_failed_says_where_why_and_what_to_do() -> None:
    screen = Screen(terminal=False)
    failure = Failure(FailurePhase.MODEL, Reason.PROVIDER_AUTH_FAILED, "put a valid key into OPENAI_API_KEY.")
    shown = screen.show(started(), TextDelta("p", "half"), finished(OutcomeKind.ERRORED, failure))
    assert shown.splitlines()[-3:] == [
        "half",
        "ERRORED  2 model calls, 2 tool calls, 1,234 tokens in, 56 out, cost 0.001500 USD",
        "MODEL/PROVIDER_AUTH_FAILED: put a valid key into OPENAI_API_KEY.",
    ]


@pytest.mark.requirement("CLI-5")
def test_reasoning_is_shown_only_when_asked_for_and_a_rewind_is_told() -> None:
    quiet, open_ = Screen(terminal=False), Screen(terminal=False, show_reasoning=True)
    for screen in (quiet, open_):
        screen.show(ReasoningDelta("r", "hmm"), TextDelta("p", "words"))
        screen.view.rewound()
    assert "hmm" not in quiet.written.getvalue()
    assert "hmm" in open_.written.getvalue()
    assert quiet.written.getvalue().splitlines()[-1].startswith("the server was restarted")


@pytest.mark.requirement("CLI-5")
def test_reasoning_and_words_stand_on_lines_of_their_own() -> None:
    screen = Screen(terminal=False, show_reasoning=True)
    shown = screen.show(
        *(ReasoningDelta("r", "h"), ReasoningDelta("r", "m"), TextDelta("p", "Yes"), TextDelta("p", ".")),
        *(ReasoningDelta("r2", "so\n"), TextDelta("p2", "No.")),
    )
    assert shown.splitlines() == ["hm", "Yes.", "so", "No."]


@pytest.mark.requirement("CLI-6")
def test_what_is_not_known_is_said_to_be_unknown() -> None:
    assert usage_text(Usage()) == "tokens not reported"
    assert usage_text(Usage(10)) == "10 tokens in, ? out"
    assert usage_text(Usage(10, 5, source=UsageSource.ESTIMATED)) == "about 10 tokens in, 5 out"
    assert usage_text(Usage(10, 5, source=UsageSource.MIXED)) == "about 10 tokens in, 5 out"
    assert cost_text(None, Usage(10)) == "unknown (no price for the model)"
    assert cost_text(None, Usage()) == "unknown"
    assert cost_text(Cost("EUR", 2_000_000, complete=False), Usage()) == "at least 0.002000 EUR"


@pytest.mark.requirement("CLI-17")
def test_a_tool_whose_name_is_taken_is_told_with_who_has_it() -> None:
    holder, loser = ToolRef("x", "x", ToolSource.LOCAL), ToolRef("x", "x", ToolSource.MCP, "crm")
    collision = ToolCollision("x", holder, (loser,), CollisionResolution.PRIORITY)
    (words,) = collision.sentences()
    assert words.startswith("tool 'x' of mcp crm is left out: the name 'x' belongs to 'x' of local; rename one")


@pytest.mark.requirement("CLI-18")
def test_entries_and_rules_of_a_policy_are_shown_with_the_layer_of_each() -> None:
    rule = PermissionRule("tool", "*", PermissionAction.ASK)
    effective = merge(
        [
            Layer(PolicyLayer.DEPLOYMENT, "a.toml", Policy(loop=LoopPolicy(max_tool_calls_per_tool={"x": 1, "y": 2}))),
            Layer(
                PolicyLayer.RUN,
                "",
                Policy(
                    loop=LoopPolicy(max_tool_calls_per_tool={"y": LimitMode.UNBOUNDED}),
                    approval=ApprovalPolicy(rules=(rule,)),
                ),
            ),
        ]
    )
    out = io.StringIO()
    Console(file=out, width=200).print(policy_table(effective))
    rows = [line.split() for line in out.getvalue().splitlines()]
    assert ['loop.max_tool_calls_per_tool["x"]', "1", "deployment", "a.toml"] in rows
    assert ['loop.max_tool_calls_per_tool["y"]', "unbounded", "run"] in rows
    assert ["approval.rules", "tool", "*", "ask", "run"] in rows


@pytest.mark.requirement("OUT-22", "OUT-3")
def test_a_structured_value_and_a_file_are_shown_as_lines_of_their_own() -> None:
    screen = Screen(terminal=False)
    file = PartFinished(Part("p", Blob(f"image/png{HOSTILE}", b"1234")))
    written = screen.show(TextDelta("t", "x"), file, replace(finished(), structured_output_json='{"n":1}'))
    assert "\x1b" not in written
    lines = written.splitlines()
    assert lines[1].startswith("file  image/png")
    assert lines[1].endswith("4 bytes")
    assert lines[2] == 'structured output  {"n":1}'
