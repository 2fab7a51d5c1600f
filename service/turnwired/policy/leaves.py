"""Every leaf of ``Policy`` in one table: what it may hold, its default, and whether this version enforces it.

The rest of the package, the configuration and the documents read this table and know no leaf by name. It knows no
layer and no merge. A leaf that is not enforced yet may not be set at all: nothing is accepted and ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any

from turnwired.domain.policy import (
    ApprovalPolicy,
    ArgumentValidation,
    BudgetPolicy,
    CompletionMode,
    CompletionPolicy,
    ContextPolicy,
    HistoryOverflowMode,
    LimitMode,
    LoopPolicy,
    MissingAttachmentMode,
    OutputPolicy,
    PermissionAction,
    PermissionRule,
    Policy,
    RetryPolicy,
    TimeoutPolicy,
    ToolErrorMode,
    ToolExecutionMode,
    ToolPolicy,
    WaitExpiryMode,
)
from turnwired.domain.usage import Cost

LeafValue = int | float | bool | str | Cost | tuple[PermissionRule, ...] | Mapping[str, int | LimitMode]
"""A value of some leaf; enums and ``LimitMode`` are strings. Unset is None and not a value."""

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
LONGEST = 365 * 24 * 3600.0
"""Longest duration a leaf takes, in seconds: a year. Longer ones are a slip of the unit, or mean unbounded."""


class LeafKind(StrEnum):
    """What a leaf holds."""

    COUNT = "count"
    DURATION = "duration"
    COST = "cost"
    ENUM = "enum"
    BOOL = "bool"
    TEXT = "text"
    RULES = "rules"
    COUNT_MAP = "counts by name"


CAP_KINDS = frozenset({LeafKind.COUNT, LeafKind.DURATION, LeafKind.COST})

_D = frozenset({LimitMode.RUNTIME_DEFAULT})
_DN = _D | {LimitMode.PROVIDER_NATIVE}
_DU = _D | {LimitMode.UNBOUNDED}
_DNU = _DN | _DU


@dataclass(frozen=True, slots=True)
class Leaf:
    """One leaf. ``modes``: the LimitModes it takes instead of a value; ``minimum`` and ``maximum`` bound a value.

    ``allowed``: the enum words this version acts on. They can be set also while the leaf as a whole is not
    ``enforced``, because the default they name is what happens. ``ceiling``: a lower value is a tighter one, so that
    a safety ceiling can cut it.
    """

    path: str
    kind: LeafKind
    meaning: str
    default: LeafValue
    unit: str = ""
    modes: frozenset[LimitMode] = frozenset()
    minimum: float = 0
    maximum: float = INT32_MAX
    enum: type[StrEnum] | None = None
    allowed: frozenset[str] = frozenset()
    enforced: bool = True
    ceiling: bool = False

    @property
    def section(self) -> str:
        """First word of the path: the field of ``Policy``."""
        return self.path.partition(".")[0]

    @property
    def name(self) -> str:
        """Second word of the path: the field of the section."""
        return self.path.partition(".")[2]


def _count(
    path: str,
    meaning: str,
    default: int | LimitMode,
    modes: frozenset[LimitMode],
    unit: str = "",
    *,
    minimum: int = 1,
    maximum: int = INT32_MAX,
    enforced: bool = True,
    ceiling: bool = True,
) -> Leaf:
    return Leaf(
        path,
        LeafKind.COUNT,
        meaning,
        default,
        unit,
        modes,
        minimum,
        maximum,
        enforced=enforced,
        ceiling=ceiling,
    )


def _tokens(
    path: str, meaning: str, default: int | LimitMode, modes: frozenset[LimitMode], *, enforced: bool = False
) -> Leaf:
    return _count(path, meaning, default, modes, "tokens", maximum=INT64_MAX, enforced=enforced)


def _duration(
    path: str,
    meaning: str,
    default: float | LimitMode,
    modes: frozenset[LimitMode] = _DU,
    *,
    minimum: float = 0.001,
    enforced: bool = True,
) -> Leaf:
    kind = LeafKind.DURATION
    return Leaf(path, kind, meaning, default, "seconds", modes, minimum, LONGEST, enforced=enforced, ceiling=True)


def _cost(path: str, meaning: str) -> Leaf:
    return Leaf(
        path,
        LeafKind.COST,
        meaning,
        LimitMode.UNBOUNDED,
        "money",
        _DU,
        maximum=INT64_MAX,
        ceiling=True,
    )


def _enum(path: str, meaning: str, default: StrEnum, allowed: Iterable[StrEnum] = (), *, enforced: bool = True) -> Leaf:
    words = frozenset(str(word) for word in allowed)
    return Leaf(path, LeafKind.ENUM, meaning, default, enum=type(default), allowed=words, enforced=enforced)


_ALLOW, _ACTIONS = PermissionAction.ALLOW, tuple(PermissionAction)

LEAVES: tuple[Leaf, ...] = (
    _count("loop.max_steps", "Model iterations of one run.", 10, _D, "iterations"),
    _count("loop.max_tool_calls", "Tool calls of one run.", 128, _D, "calls", minimum=0),
    Leaf(
        "loop.max_tool_calls_per_tool",
        LeafKind.COUNT_MAP,
        "Tool calls of one run per tool, by routed name.",
        {},
        "calls",
        _DU,
    ),
    _count(
        "loop.repeated_call_threshold",
        "Equal calls, or rounds of a short cycle, after which a person is asked about the next; 0: never.",
        3,
        _D,
        "calls",
        minimum=0,
        maximum=1000,
        ceiling=False,
    ),
    _count("tool.max_parallel_calls", "Calls of one iteration that run at once; 1 is serial.", 8, _D, "calls"),
    _enum(
        "tool.argument_validation",
        "How arguments are checked against the tool's schema.",
        ArgumentValidation.STRICT,
        tuple(ArgumentValidation),
    ),
    _enum(
        "tool.error_mode",
        "What a failing tool does to the run.",
        ToolErrorMode.RECOVER,
        tuple(ToolErrorMode),
    ),
    _count(
        "tool.max_result_bytes",
        "Size of one tool result that the model may see.",
        64 * 1024,
        _DU,
        "bytes",
        minimum=256,  # the marker of a cut result must fit
        maximum=INT64_MAX,
    ),
    _enum(
        "tool.execution_mode",
        "Who executes tool calls.",
        ToolExecutionMode.EXECUTE,
        tuple(ToolExecutionMode),
    ),
    _tokens(
        "context.max_history_tokens", "History that the model sees.", LimitMode.PROVIDER_NATIVE, _DNU, enforced=True
    ),
    _duration("context.attachment_wait", "Wait for attachments, within the run's own time.", 30.0),
    _enum(
        "context.overflow_mode",
        "What happens to history that does not fit; compact is not built yet.",
        HistoryOverflowMode.FAIL,
        (HistoryOverflowMode.FAIL, HistoryOverflowMode.TRUNCATE),
    ),
    _enum(
        "context.missing_attachments",
        "What happens when the model cannot see an attachment: it is told, or the run fails.",
        MissingAttachmentMode.TELL,
        tuple(MissingAttachmentMode),
    ),
    _tokens("output.max_output_tokens", "Output of one iteration.", LimitMode.PROVIDER_NATIVE, _DN, enforced=True),
    Leaf(
        "output.reasoning_effort",
        LeafKind.TEXT,
        'How much the model should reason, in the provider\'s words, such as "low"; "" sends none.',
        "",
        maximum=64,
    ),
    _tokens("budget.max_total_tokens", "Tokens of the run.", LimitMode.UNBOUNDED, _DU, enforced=True),
    _cost("budget.max_cost", "Cost of the run."),
    _tokens("budget.max_session_tokens", "Tokens of all runs of the session.", LimitMode.UNBOUNDED, _DU, enforced=True),
    _cost("budget.max_session_cost", "Cost of all runs of the session."),
    _tokens(
        "budget.max_tenant_day_tokens", "Tokens of the tenant on one UTC day.", LimitMode.UNBOUNDED, _DU, enforced=True
    ),
    _cost("budget.max_tenant_day_cost", "Cost of the tenant on one UTC day."),
    _duration("timeout.run", "The run, without the time it waits for the caller.", 1800.0),
    _duration("timeout.iteration", "One model call.", 600.0),
    _duration("timeout.first_event", "From the request to the provider's first event.", 120.0),
    _duration("timeout.stream_idle", "Silence in a provider's stream; keep-alives are silence.", 60.0),
    _duration("timeout.thinking_idle", "Silence in a provider's stream while the model reasons.", 300.0),
    _duration("timeout.tool_call", "One tool call.", 120.0),
    _duration("timeout.wait", "Waiting for an approval or a client tool.", 86_400.0),
    _count("retry.max_attempts", "Attempts of one iteration; 1 never tries again.", 8, _D, "attempts"),
    _duration("retry.initial_delay", "Delay before the second attempt; it doubles.", 2.0, _D, minimum=0),
    _duration("retry.max_delay", "Longest delay between attempts.", 30.0, _D, minimum=0),
    _enum("completion.mode", "What is guaranteed at the end of a run.", CompletionMode.NONE, tuple(CompletionMode)),
    _count(
        "completion.reserved_output_tokens",
        "Output of the pass that answers from tool results.",
        1024,
        _DN,
        "tokens",
        maximum=INT64_MAX,
        ceiling=False,
    ),
    Leaf(
        "completion.answer_at_step_bound",
        LeafKind.BOOL,
        "One last call without tools at the step bound; the outcome stays MAX_STEPS.",
        False,
    ),
    Leaf(
        "completion.custom_prompt",
        LeafKind.TEXT,
        "For custom: what the model is told when its answer is missing.",
        "",
        maximum=16_384,
    ),
    Leaf(
        "completion.custom_hook",
        LeafKind.TEXT,
        "For custom: name of a completion hook of the deployment.",
        "",
        maximum=64,
    ),
    Leaf("completion.allow_tools", LeafKind.BOOL, "The pass may call tools, one round of them.", False),
    Leaf("approval.rules", LeafKind.RULES, "Permission rules; the last that matches counts.", (), maximum=1000),
    Leaf("approval.auto_approve", LeafKind.BOOL, "Run without asking where a rule says ASK.", False),
    Leaf("approval.allow_destructive", LeafKind.BOOL, "Let destructive tools be called at all.", True),
    _enum("approval.read_only_action", "For read-only tools that no rule matches.", _ALLOW, _ACTIONS),
    _enum("approval.destructive_action", "For destructive tools that no rule matches.", PermissionAction.ASK, _ACTIONS),
    _enum("approval.default_action", "For all other tools that no rule matches.", _ALLOW, _ACTIONS),
    _enum(
        "approval.wait_expiry",
        "What an unanswered approval or client tool call does to the run.",
        WaitExpiryMode.REJECT,
        tuple(WaitExpiryMode),
    ),
)
"""In the order of the contract. Where a leaf cannot be set yet, its default is what this version does."""

LEAF: Mapping[str, Leaf] = {leaf.path: leaf for leaf in LEAVES}
"""The leaves by path."""

_GETTERS = {leaf.path: attrgetter(leaf.path) for leaf in LEAVES}
_PARTS = {leaf.path: (leaf.section, leaf.name) for leaf in LEAVES}

SECTIONS: Mapping[str, type[Any]] = {
    "loop": LoopPolicy,
    "tool": ToolPolicy,
    "context": ContextPolicy,
    "output": OutputPolicy,
    "budget": BudgetPolicy,
    "timeout": TimeoutPolicy,
    "retry": RetryPolicy,
    "completion": CompletionPolicy,
    "approval": ApprovalPolicy,
}
"""The dataclass of each field of ``Policy``."""


def value_at(policy: Policy, leaf: Leaf) -> LeafValue | None:
    """The value of a leaf, or None when this policy leaves it unset (no rules and an empty map are unset)."""
    value: LeafValue | None = _GETTERS[leaf.path](policy)
    return None if value in ((), {}) else value


def policy_of(values: Mapping[str, LeafValue]) -> Policy:
    """The policy that sets exactly these leaves, by path. Raises KeyError for a path that is no leaf."""
    sections: dict[str, dict[str, LeafValue]] = {}
    for path, value in values.items():
        section, name = _PARTS[path]
        sections.setdefault(section, {})[name] = value
    return Policy(**{name: SECTIONS[name](**members) for name, members in sections.items()})
