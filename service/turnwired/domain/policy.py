"""The policy of a run: every bound and behaviour, as the layers set it.

A field that is None inherits from the layer below. A cap is a value or a ``LimitMode``; durations are seconds, sizes
bytes. Field names and paths (``loop.max_steps``) are those of the contract's ``Policy``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from turnwired.domain.usage import Cost


class LimitMode(StrEnum):
    """Who decides a cap that has no value of its own."""

    RUNTIME_DEFAULT = "RUNTIME_DEFAULT"
    PROVIDER_NATIVE = "PROVIDER_NATIVE"
    UNBOUNDED = "UNBOUNDED"


CountLimit = int | LimitMode
DurationLimit = float | LimitMode
CostLimit = Cost | LimitMode


class ArgumentValidation(StrEnum):
    """How arguments are checked against the tool's schema."""

    STRICT = "STRICT"
    LENIENT = "LENIENT"
    NONE = "NONE"


class ToolErrorMode(StrEnum):
    """What a failing tool does to the run."""

    RECOVER = "RECOVER"
    ABORT = "ABORT"


class ToolExecutionMode(StrEnum):
    """Who executes tool calls: the source of each tool, or the caller for every tool."""

    EXECUTE = "EXECUTE"
    RETURN = "RETURN"


class HistoryOverflowMode(StrEnum):
    """What happens to history that does not fit."""

    FAIL = "FAIL"
    TRUNCATE = "TRUNCATE"
    COMPACT = "COMPACT"


class MissingAttachmentMode(StrEnum):
    """What happens when the model cannot see an attachment: too late, or of a kind that it does not take."""

    TELL = "TELL"
    FAIL = "FAIL"


class CompletionMode(StrEnum):
    """What is guaranteed at the end of a run."""

    NONE = "NONE"
    REQUIRE_TEXT_AFTER_TOOLS = "REQUIRE_TEXT_AFTER_TOOLS"
    CUSTOM = "CUSTOM"


class PermissionAction(StrEnum):
    """What a permission rule says."""

    ALLOW = "ALLOW"
    ASK = "ASK"
    DENY = "DENY"
    ALWAYS_ASK = "ALWAYS_ASK"


class WaitExpiryMode(StrEnum):
    """What an unanswered approval or client tool call does to the run."""

    REJECT = "REJECT"
    ABORT = "ABORT"


@dataclass(frozen=True, slots=True)
class PermissionRule:
    """One rule; the last one that matches counts."""

    permission: str
    pattern: str
    action: PermissionAction


@dataclass(frozen=True, slots=True)
class LoopPolicy:
    """Bounds of the loop: model iterations, tool calls in all and per tool, equal calls in a row.

    The first two end the loop and cannot be turned off. ``max_tool_calls_per_tool`` is keyed by routed name; ``*``
    stands for each tool that is not named. Layers replace its entries one by one.
    """

    max_steps: CountLimit | None = None
    max_tool_calls: CountLimit | None = None
    max_tool_calls_per_tool: Mapping[str, CountLimit] = field(default_factory=dict[str, CountLimit])
    repeated_call_threshold: CountLimit | None = None


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """How tools are called."""

    max_parallel_calls: CountLimit | None = None
    argument_validation: ArgumentValidation | None = None
    error_mode: ToolErrorMode | None = None
    max_result_bytes: CountLimit | None = None
    execution_mode: ToolExecutionMode | None = None


@dataclass(frozen=True, slots=True)
class ContextPolicy:
    """What the model sees of the past."""

    max_history_tokens: CountLimit | None = None
    attachment_wait: DurationLimit | None = None
    overflow_mode: HistoryOverflowMode | None = None
    missing_attachments: MissingAttachmentMode | None = None


@dataclass(frozen=True, slots=True)
class OutputPolicy:
    """What the model may produce in one iteration. ``reasoning_effort`` "" sends none, whatever a lower layer says."""

    max_output_tokens: CountLimit | None = None
    reasoning_effort: str | None = None


@dataclass(frozen=True, slots=True)
class BudgetPolicy:
    """What may be spent, per run, per session, and per tenant and day."""

    max_total_tokens: CountLimit | None = None
    max_cost: CostLimit | None = None
    max_session_tokens: CountLimit | None = None
    max_session_cost: CostLimit | None = None
    max_tenant_day_tokens: CountLimit | None = None
    max_tenant_day_cost: CostLimit | None = None


@dataclass(frozen=True, slots=True)
class TimeoutPolicy:
    """How long things may take, in seconds."""

    run: DurationLimit | None = None
    iteration: DurationLimit | None = None
    first_event: DurationLimit | None = None
    stream_idle: DurationLimit | None = None
    thinking_idle: DurationLimit | None = None
    tool_call: DurationLimit | None = None
    wait: DurationLimit | None = None


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Trying a model call again, only before its first output. Delays in seconds."""

    max_attempts: CountLimit | None = None
    initial_delay: DurationLimit | None = None
    max_delay: DurationLimit | None = None


@dataclass(frozen=True, slots=True)
class CompletionPolicy:
    """The guarantee of a final answer."""

    mode: CompletionMode | None = None
    reserved_output_tokens: CountLimit | None = None
    answer_at_step_bound: bool | None = None
    custom_prompt: str | None = None
    custom_hook: str | None = None
    allow_tools: bool | None = None


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """Who may do what. Rules of a higher layer come later; the actions are for tools that no rule matches."""

    rules: tuple[PermissionRule, ...] = ()
    auto_approve: bool | None = None
    allow_destructive: bool | None = None
    read_only_action: PermissionAction | None = None
    destructive_action: PermissionAction | None = None
    default_action: PermissionAction | None = None
    wait_expiry: WaitExpiryMode | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """One layer of policy, or the merged one."""

    loop: LoopPolicy = field(default_factory=LoopPolicy)
    tool: ToolPolicy = field(default_factory=ToolPolicy)
    context: ContextPolicy = field(default_factory=ContextPolicy)
    output: OutputPolicy = field(default_factory=OutputPolicy)
    budget: BudgetPolicy = field(default_factory=BudgetPolicy)
    timeout: TimeoutPolicy = field(default_factory=TimeoutPolicy)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    completion: CompletionPolicy = field(default_factory=CompletionPolicy)
    approval: ApprovalPolicy = field(default_factory=ApprovalPolicy)


NO_POLICY = Policy()
"""A layer that sets nothing. Most turns have this one, and it is told by identity before it is compared."""


class PolicyLayer(StrEnum):
    """Layers of policy, lowest first."""

    RUNTIME_DEFAULT = "RUNTIME_DEFAULT"
    DEPLOYMENT = "DEPLOYMENT"
    AGENT = "AGENT"
    SESSION = "SESSION"
    RUN = "RUN"
    PROVIDER_NATIVE = "PROVIDER_NATIVE"
    SAFETY_CEILING = "SAFETY_CEILING"


@dataclass(frozen=True, slots=True)
class PolicyProvenance:
    """Where one value comes from.

    ``requested_json`` is what was asked for when the ceiling cut it, as ProtoJSON. ``layer_ref`` names which one of
    the layer; for a value that a layer left to the runtime or to the provider it says which layer did.
    """

    path: str
    layer: PolicyLayer
    layer_ref: str = ""
    overridden: tuple[PolicyLayer, ...] = ()
    requested_json: str | None = None


@dataclass(frozen=True, slots=True)
class EffectivePolicy:
    """The policy in force: every leaf set, and for each leaf where it comes from."""

    policy: Policy
    provenance: tuple[PolicyProvenance, ...]
