"""Which calls of an answer may run, before anybody looks at their tools: bounds of the run, of one tool, and circles.

Pure. A call that may not run is settled with a verdict that says so to the model; the run goes on, but for the bound on
all calls, and for a model that keeps going round in circles after it was told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from turnwired.domain.failure import Reason
from turnwired.domain.outcome import Notice
from turnwired.domain.policy import PermissionAction
from turnwired.policy.bounds import Bounds
from turnwired.turn.loops import Loops, Repetition
from turnwired.turn.pieces import Call

PER_TOOL = "loop.max_tool_calls_per_tool"


class Obstacle(Enum):
    """What keeps a call from running."""

    RUN_BOUND = auto()
    TOOL_BOUND = auto()
    LOOP = auto()
    """The one that a person could lift: the same call again."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a call does not run, and what the model is told.

    ``question``: a person may let it run all the same, and is asked with these words. Empty: nobody is.
    """

    obstacle: Obstacle
    reason: Reason
    message: str
    question: str = ""


class Admission:
    """The calls of one run so far. ``judge`` each answer's calls once, and tell what they led to with ``settled``.

    ``in_circles`` says what is done about a call of a tool, by routed name, that goes round in circles.
    """

    def __init__(self, bounds: Bounds, polling: Collection[str], in_circles: Callable[[str], PermissionAction]) -> None:
        self._bounds = bounds
        self._in_circles = in_circles
        self._loops = Loops(bounds.repeated_call_threshold, polling)
        self._by_tool: Counter[str] = Counter()
        self._told: set[str] = set()
        self.counted = 0
        self.circles = 0

    @property
    def lost(self) -> bool:
        """Whether the model went on in circles after it was told as often as it takes to see one."""
        return 0 < self._bounds.repeated_call_threshold <= self.circles

    def judge(self, calls: Sequence[Call]) -> dict[str, Verdict]:
        """The calls, by id, that may not run. Counts them all."""
        room = max(self._bounds.max_tool_calls - self.counted, 0)
        self.counted += len(calls)
        repeated = self._loops.repeated([(call.name, call.arguments) for call in calls])
        verdicts: dict[str, Verdict] = {}
        for position, call in enumerate(calls):
            verdict = _over_all() if position >= room else self._judge(call, repeated[position])
            if verdict is not None:
                verdicts[call.call_id] = verdict
        return verdicts

    def _judge(self, call: Call, repetition: Repetition | None) -> Verdict | None:
        if call.tool is None:
            return None if repetition is None else _in_circles(call.name, repetition)
        name = call.tool.routed_name
        limit = self._limit(name)
        over = limit is not None and self._by_tool[name] >= limit
        if repetition is not None:
            action = self._in_circles(name)
            if over or call.damaged or action is PermissionAction.DENY:
                return _in_circles(name, repetition)
            if action is not PermissionAction.ALLOW:
                self._by_tool[name] += 1  # it may run yet
                return replace(_in_circles(name, repetition), question=f"{_what(name, repetition)}. Call it again?")
        if limit is not None and over:
            return _over_tool(name, limit)
        self._by_tool[name] += 1
        return None

    def _limit(self, name: str) -> int | None:
        limits = self._bounds.max_tool_calls_per_tool
        return limits[name] if name in limits else limits.get("*")

    def notices(self, calls: Sequence[Call], verdicts: Mapping[str, Verdict]) -> list[Notice]:
        """What should be seen of the verdicts: each tool at its own bound, once in a run."""
        found: list[Notice] = []
        for call in calls:
            verdict = verdicts.get(call.call_id)
            if verdict is None or verdict.obstacle is not Obstacle.TOOL_BOUND or call.name in self._told:
                continue
            self._told.add(call.name)
            words = f"The bound on calls of the tool {call.name} in this run ({PER_TOOL}) is reached."
            found.append(Notice(Reason.LIMIT_REACHED, words, {"policy_path": PER_TOOL, "tool": call.name}))
        return found

    def settled(self, calls: Sequence[Call], verdicts: Mapping[str, Verdict]) -> None:
        """All of the calls have their results. A circle is broken by any call that is no part of it."""
        for call in calls:
            verdict = verdicts.get(call.call_id)
            if verdict is not None and verdict.obstacle is Obstacle.LOOP:
                self.circles += 1
            elif call.result is not None:
                self._loops.finished(call.name, call.arguments, call.result)
                self.circles = 0


def _over_all() -> Verdict:
    return Verdict(
        Obstacle.RUN_BOUND,
        Reason.TOOL_NOT_EXECUTED,
        "Not executed: the bound on tool calls of this run (loop.max_tool_calls) is reached.",
    )


def _over_tool(name: str, limit: int) -> Verdict:
    return Verdict(
        Obstacle.TOOL_BOUND,
        Reason.TOOL_NOT_EXECUTED,
        f"Not executed: this run may call {name} {limit} times ({PER_TOOL}), and has. Go on without it.",
    )


def _what(name: str, repetition: Repetition) -> str:
    if repetition.period == 1:
        return f"{name[:64]} was called with these arguments {repetition.times} times in a row, with the same result"
    cycle = f"a cycle of {repetition.period}, {repetition.times} times, nothing changed"
    return f"the last calls, of {name[:64]} and others, went round in {cycle}"


def _in_circles(name: str, repetition: Repetition) -> Verdict:
    return Verdict(
        Obstacle.LOOP,
        Reason.TOOL_LOOP_DETECTED,
        f"Not executed: {_what(name, repetition)}. "
        "Do something else: other arguments, another tool, or answer from what you have.",
    )
