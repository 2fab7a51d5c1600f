"""Drives a TurnMachine in tests: no network, no clock, no tasks. Keeps what it emitted and asked for."""

from __future__ import annotations

from typing import Any, TypeVar

from turnwired.domain.event import LoggedEvent, RunFinished
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.generation import (
    FinishReason,
    GenerationStopped,
    ModelItem,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallClosed,
    ToolCallOpened,
)
from turnwired.domain.message import Message, Part, Role, Text, ToolCall, ToolResult, ToolResultStatus
from turnwired.domain.model import ModelSelection
from turnwired.domain.outcome import Outcome
from turnwired.domain.policy import (
    ArgumentValidation,
    CompletionMode,
    EffectivePolicy,
    HistoryOverflowMode,
    MissingAttachmentMode,
    PermissionAction,
    PermissionRule,
    Policy,
    ToolErrorMode,
    ToolExecutionMode,
    WaitExpiryMode,
)
from turnwired.domain.tool import ToolRef, ToolSource
from turnwired.policy.bounds import Bounds
from turnwired.policy.permissions import Permissions
from turnwired.turn.effects import Effect, Emitted, ResolveTool, Settle, Step
from turnwired.turn.facts import Begin, Fact, ModelEnded, ModelFailed, ModelProduced, ToolFinished, ToolResolved
from turnwired.turn.machine import TurnMachine
from turnwired.turn.setup import TurnSetup

RUN_ID = "run_0123456789abcdef"
T = TypeVar("T")


def text_of(message: Message) -> str:
    """All text parts, joined."""
    return "".join(part.content.text for part in message.parts if isinstance(part.content, Text))


def ref(name: str) -> ToolRef:
    return ToolRef(name, name, ToolSource.LOCAL)


TOOLS = {name: ref(name) for name in ("look", "write", "slow")}
UNATTENDED = Permissions((PermissionRule("doom_loop", "*", PermissionAction.DENY),))
"""Nobody is there to be asked about a circle."""


def bounds_with(**changes: Any) -> Bounds:
    values: dict[str, Any] = {
        "max_steps": 10,
        "max_tool_calls": 100,
        "max_tool_calls_per_tool": {},
        "repeated_call_threshold": 0,
        "max_parallel_calls": 8,
        "argument_validation": ArgumentValidation.STRICT,
        "error_mode": ToolErrorMode.RECOVER,
        "max_result_bytes": 65536,
        "max_output_tokens": None,
        "reasoning_effort": None,
        "max_attempts": 3,
        "retry_initial_delay": 0.5,
        "retry_max_delay": 8.0,
        "run_timeout": None,
        "iteration_timeout": None,
        "first_event_timeout": None,
        "stream_idle_timeout": None,
        "thinking_idle_timeout": None,
        "tool_call_timeout": None,
        "wait_timeout": None,
        "wait_expiry": WaitExpiryMode.REJECT,
        "execution_mode": ToolExecutionMode.EXECUTE,
        "completion_mode": CompletionMode.NONE,
        "reserved_output_tokens": 1024,
        "answer_at_step_bound": False,
        "completion_prompt": None,
        "completion_hook": None,
        "completion_tools": False,
        "max_history_tokens": None,
        "history_overflow": HistoryOverflowMode.FAIL,
        "attachment_wait": 30.0,
        "missing_attachments": MissingAttachmentMode.TELL,
    }
    return Bounds(**(values | changes))


def setup_with(bounds: Bounds | None = None, **changes: Any) -> TurnSetup:
    values: dict[str, Any] = {
        "run_id": RUN_ID,
        "agent_id": "agent",
        "agent_revision": 1,
        "model": ModelSelection("provider", "model"),
        "effective_policy": EffectivePolicy(Policy(), ()),
        "bounds": bounds if bounds is not None else bounds_with(),
        "tools": TOOLS,
    }
    return TurnSetup(**(values | changes))


def failure(reason: Reason = Reason.PROVIDER_NETWORK, **changes: Any) -> Failure:
    values: dict[str, Any] = {"phase": FailurePhase.TRANSPORT, "reason": reason, "message": "It broke."}
    return Failure(**(values | changes))


CANCELLED = failure(Reason.CANCELLED, message="The caller cancelled the run.")


def stop(reason: FinishReason = FinishReason.STOP) -> GenerationStopped:
    return GenerationStopped(reason, reason.value.lower())


def a_call(index: int, name: str = "look", arguments: str = "{}", provider_id: str = "p") -> list[ModelItem]:
    return [ToolCallOpened(index, provider_id, name), ToolArgumentsChunk(index, arguments), ToolCallClosed(index)]


def ok(call_id: str = "", text: str = "fine") -> ToolResult:
    return ToolResult(call_id, ToolResultStatus.OK, (Part("", Text(text)),))


class Driven:
    """A machine and everything that came out of it, with shorthands for the facts of its current work."""

    def __init__(self, setup: TurnSetup | None = None, *, begin: bool = True) -> None:
        self.machine = TurnMachine(setup if setup is not None else setup_with())
        self.emitted: list[Emitted] = []
        self.effects: list[Effect] = []
        if begin:
            self.feed(Begin())

    def feed(self, fact: Fact) -> Step:
        step = self.machine.feed(fact)
        self.emitted.extend(step.events)
        self.effects.extend(step.effects)
        return step

    def produced(self, *items: ModelItem) -> Step:
        return self.feed(ModelProduced(self.machine.iteration, self.machine.attempt, items))

    def ended(self) -> Step:
        return self.feed(ModelEnded(self.machine.iteration, self.machine.attempt, 1_000, 10))

    def failed(self, fault: Failure, jitter: float = 0.0, remaining_ns: int | None = None) -> Step:
        now = self.machine.iteration, self.machine.attempt
        return self.feed(ModelFailed(*now, fault, jitter, remaining_ns=remaining_ns))

    def answers(self, *items: ModelItem) -> Step:
        """One whole answer: items, then the end of the stream."""
        self.produced(*items)
        return self.ended()

    def says(self, text: str) -> Step:
        return self.answers(TextChunk(0, text), stop())

    def resolves(self, *call_ids: str) -> Step:
        """The registry finds every call that it was asked for (or those named)."""
        step = Step()
        for effect in self.every(ResolveTool):
            if effect.call_id in call_ids or not call_ids:
                step = self.feed(ToolResolved(effect.call_id, ref(effect.requested_name)))
        return step

    def finishes(self, call_id: str, result: ToolResult | None = None) -> Step:
        return self.feed(ToolFinished(call_id, result if result is not None else ok(call_id), 5))

    def runs_all_tools(self) -> None:
        """The registry finds all calls, and they finish as soon as they run."""
        self.resolves()
        for _ in range(1_000):
            if not self.machine.executing:
                return
            self.finishes(self.machine.executing[0])
        raise AssertionError("tools that have finished are still said to run")

    # --- what came out ----------------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        return [type(emitted.event).__name__ for emitted in self.emitted]

    def events(self, kind: type[T]) -> list[T]:
        return [emitted.event for emitted in self.emitted if isinstance(emitted.event, kind)]

    def every(self, kind: type[T]) -> list[T]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    @property
    def finished(self) -> RunFinished:
        (finished,) = self.events(RunFinished)
        return finished

    @property
    def outcome(self) -> Outcome:
        return self.finished.outcome

    @property
    def settled(self) -> tuple[Message, ...]:
        (settle,) = self.every(Settle)
        return settle.messages

    def log(self) -> list[LoggedEvent]:
        return [LoggedEvent(n, n * 1_000, e.iteration, e.event) for n, e in enumerate(self.emitted, 1)]


def assert_well_formed(messages: tuple[Message, ...]) -> None:
    """Each assistant turn with calls is followed by exactly their results, in call order; nothing else has results."""
    expected: list[str] = []
    part_ids: list[str] = []
    for message in messages:
        assert message.parts, "a message without parts"
        part_ids.extend(part.part_id for part in message.parts)
        calls = [part.content.call_id for part in message.parts if isinstance(part.content, ToolCall)]
        results = [part.content.call_id for part in message.parts if isinstance(part.content, ToolResult)]
        if message.role is Role.USER:  # a correction
            assert not expected, f"calls without results: {expected}"
            assert not calls
            assert not results
        elif message.role is Role.ASSISTANT:
            assert not expected, f"calls without results: {expected}"
            assert not results
            expected = calls
        else:
            assert message.role is Role.TOOL
            assert results == expected, "results do not match the calls before them"
            assert len(results) == len(message.parts)
            expected = []
    assert not expected, f"calls without results: {expected}"
    assert len(set(part_ids)) == len(part_ids), "part ids repeat"
    ids = [message.message_id for message in messages]
    assert len(set(ids)) == len(ids), "message ids repeat"
