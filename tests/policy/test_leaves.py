"""The table of leaves, validation, text forms and bounds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policy.strategies import leaf_values, policies

from turnwired.domain.errors import InvalidRequest
from turnwired.domain.failure import Reason
from turnwired.domain.policy import (
    ApprovalPolicy,
    ArgumentValidation,
    ContextPolicy,
    EffectivePolicy,
    HistoryOverflowMode,
    LimitMode,
    LoopPolicy,
    OutputPolicy,
    Policy,
    PolicyLayer,
    RetryPolicy,
    TimeoutPolicy,
    ToolPolicy,
)
from turnwired.domain.usage import Cost
from turnwired.policy.bounds import Bounds, bounds_of
from turnwired.policy.leaves import CAP_KINDS, LEAF, LEAVES, SECTIONS, Leaf, LeafKind, LeafValue, policy_of
from turnwired.policy.merge import Layer, merge
from turnwired.policy.text import as_text, parse
from turnwired.policy.validate import ceiling_violations, read_policy, require_valid, violations

CONTRACT = Path(__file__).parents[2] / "proto" / "turnwire" / "v1" / "policy.proto"
_MESSAGE = re.compile(r"^message (\w+)Policy \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"((?:  //[^\n]*\n)*)  (?:optional |repeated )?[\w<>, .]+ (\w+) = \d+;")
_MODES = re.compile(r"Modes:\s+((?:[DNU](?:,\s*)?)+)")
_MODE_LETTERS = {"D": LimitMode.RUNTIME_DEFAULT, "N": LimitMode.PROVIDER_NATIVE, "U": LimitMode.UNBOUNDED}


def contract_leaves() -> dict[str, frozenset[LimitMode]]:
    """Paths of the contract with the modes that its comments allow."""
    if not CONTRACT.exists():
        pytest.skip(f"the contract is not in this tree: {CONTRACT.name}")
    found: dict[str, frozenset[LimitMode]] = {}
    for section, body in _MESSAGE.findall(CONTRACT.read_text()):
        if section == "Effective":
            continue
        for comment, name in _FIELD.findall(body):
            words = " ".join(line.strip(" /") for line in comment.splitlines())
            modes = _MODES.search(words)
            letters = re.findall("[DNU]", modes[1]) if modes else []
            found[f"{section.lower()}.{name}"] = frozenset(_MODE_LETTERS[letter] for letter in letters)
    return found


@pytest.mark.requirement("POLICY-1")
def test_the_table_covers_every_leaf_of_the_domain_in_its_order() -> None:
    paths = [f"{name}.{member.name}" for name, section in SECTIONS.items() for member in fields(section)]
    assert [leaf.path for leaf in LEAVES] == paths
    assert [member.name for member in fields(Policy)] == list(SECTIONS)


@pytest.mark.requirement("POLICY-1")
def test_the_table_covers_every_leaf_of_the_contract_with_its_modes() -> None:
    assert {leaf.path: leaf.modes for leaf in LEAVES} == contract_leaves()


@pytest.mark.requirement("POLICY-1")
@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.path)
def test_every_default_is_a_value_that_its_leaf_takes(leaf: Leaf) -> None:
    if isinstance(leaf.default, LimitMode):
        assert leaf.default in leaf.modes - {LimitMode.RUNTIME_DEFAULT}
    elif leaf.kind is LeafKind.ENUM and leaf.allowed:
        assert leaf.default in leaf.allowed
    elif leaf.enforced:
        assert not violations(policy_of({leaf.path: leaf.default}))


@pytest.mark.requirement("POLICY-2", "POLICY-8")
@pytest.mark.parametrize(
    "path",
    ["loop.max_steps", "loop.max_tool_calls", "tool.max_parallel_calls", "retry.max_attempts", "retry.max_delay"],
)
@pytest.mark.parametrize("mode", [LimitMode.UNBOUNDED, LimitMode.PROVIDER_NATIVE])
def test_a_bound_that_must_be_a_number_takes_no_open_mode(path: str, mode: LimitMode) -> None:
    (violation,) = violations(policy_of({path: mode}), "turn.policy")
    assert violation.field == f"turn.policy.{path}"
    assert violation.reason is Reason.INVALID_REQUEST
    assert violation.description.startswith(f"mode {mode.lower()} is not allowed here; takes ")


@pytest.mark.requirement("POLICY-8")
@pytest.mark.parametrize(
    ("path", "mode"),
    [
        (leaf.path, mode)
        for leaf in LEAVES
        if leaf.kind in {*CAP_KINDS, LeafKind.COUNT_MAP}
        for mode in LimitMode
        if mode not in leaf.modes
    ],
)
def test_no_cap_takes_a_mode_that_is_not_its_own(path: str, mode: LimitMode) -> None:
    value: LeafValue = {"note": mode} if LEAF[path].kind is LeafKind.COUNT_MAP else mode
    (violation,) = violations(policy_of({path: value}))
    assert violation.field.startswith(path)
    assert violation.reason is Reason.INVALID_REQUEST
    assert violation.description.startswith(f"mode {mode.lower()} is not allowed here; takes ")


@pytest.mark.requirement("POLICY-8")
@pytest.mark.parametrize(
    ("policy", "field", "description"),
    [
        (
            Policy(loop=LoopPolicy(max_steps=0)),
            "loop.max_steps",
            "0 is out of range; takes 1 or more, or runtime_default",
        ),
        (
            Policy(timeout=TimeoutPolicy(run=0.0)),
            "timeout.run",
            "0 is out of range; takes 0.001s to 31536000s, or runtime_default, or unbounded",
        ),
        (
            Policy(timeout=TimeoutPolicy(stream_idle=float("nan"))),
            "timeout.stream_idle",
            "nan is out of range; takes 0.001s to 31536000s, or runtime_default, or unbounded",
        ),
        (
            Policy(timeout=TimeoutPolicy(tool_call=LimitMode.PROVIDER_NATIVE)),
            "timeout.tool_call",
            "mode provider_native is not allowed here; takes 0.001s to 31536000s, or runtime_default, or unbounded",
        ),
        (
            Policy(output=OutputPolicy(max_output_tokens=LimitMode.UNBOUNDED)),
            "output.max_output_tokens",
            "mode unbounded is not allowed here; takes 1 or more, or runtime_default, or provider_native",
        ),
        (
            Policy(output=OutputPolicy(reasoning_effort="x" * 65)),
            "output.reasoning_effort",
            "is longer than 64 characters",
        ),
    ],
)
def test_a_violation_names_its_path_and_says_what_the_leaf_takes(policy: Policy, field: str, description: str) -> None:
    (violation,) = violations(policy)
    assert (violation.field, violation.description) == (field, description)


@pytest.mark.requirement("POLICY-8")
@given(policies(enforced_only=True))
@settings(max_examples=60, deadline=None)
def test_every_value_in_range_is_taken(policy: Policy) -> None:
    require_valid(policy)


@pytest.mark.requirement("POLICY-9")
@pytest.mark.parametrize(
    "policy",
    [
        Policy(context=ContextPolicy(overflow_mode=HistoryOverflowMode.COMPACT)),
    ],
)
def test_what_is_not_enforced_is_refused_whatever_its_value(policy: Policy) -> None:
    with pytest.raises(InvalidRequest) as refused:
        require_valid(policy)
    assert refused.value.reason is Reason.OPTION_NOT_SUPPORTED


@pytest.mark.requirement("POLICY-9")
def test_a_word_that_names_what_happens_anyway_is_taken() -> None:
    require_valid(Policy(context=ContextPolicy(overflow_mode=HistoryOverflowMode.FAIL)))


@pytest.mark.requirement("POLICY-9")
def test_a_request_that_is_also_wrong_is_an_invalid_request() -> None:
    unbuilt = ContextPolicy(overflow_mode=HistoryOverflowMode.COMPACT)
    policy = Policy(loop=LoopPolicy(max_steps=0), context=unbuilt)
    with pytest.raises(InvalidRequest) as refused:
        require_valid(policy)
    assert refused.value.reason is Reason.INVALID_REQUEST
    assert [item.field for item in refused.value.violations] == ["loop.max_steps", "context.overflow_mode"]


@pytest.mark.requirement("POLICY-8")
def test_a_ceiling_takes_only_values_of_caps() -> None:
    policy = Policy(
        timeout=TimeoutPolicy(run=LimitMode.UNBOUNDED),
        tool=ToolPolicy(argument_validation=ArgumentValidation.STRICT, max_parallel_calls=4),
    )
    assert [item.field for item in ceiling_violations(policy, "ceiling")] == [
        "ceiling.tool.argument_validation",
        "ceiling.timeout.run",
    ]


@pytest.mark.requirement("POLICY-11")
@pytest.mark.parametrize(
    "leaf",
    [leaf for leaf in LEAVES if leaf.kind not in (LeafKind.RULES, LeafKind.COUNT_MAP)],
    ids=lambda leaf: leaf.path,
)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_a_value_written_as_text_reads_back_as_the_same_value(leaf: Leaf, data: st.DataObject) -> None:
    value = data.draw(leaf_values(leaf))
    text: object = as_text(leaf, value)
    if leaf.kind is LeafKind.COUNT and not isinstance(value, LimitMode):
        text = int(str(text))
    if leaf.kind is LeafKind.BOOL:
        text = text == "true"
    assert parse(leaf, text) == value


@pytest.mark.requirement("POLICY-11")
@pytest.mark.parametrize(
    ("path", "data", "value"),
    [
        ("timeout.run", "500ms", 0.5),
        ("timeout.run", "2m", 120.0),
        ("timeout.run", "1.5 h", 5400.0),
        ("timeout.run", 30, 30.0),
        ("timeout.run", "Unbounded", LimitMode.UNBOUNDED),
        ("loop.max_steps", "runtime_default", LimitMode.RUNTIME_DEFAULT),
        ("tool.argument_validation", "strict", ArgumentValidation.STRICT),
        ("budget.max_cost", "0.25 USD", Cost("USD", 250_000_000)),
        ("output.reasoning_effort", "unbounded", "unbounded"),
    ],
)
def test_people_write_values_in_short_forms(path: str, data: object, value: LeafValue) -> None:
    assert parse(LEAF[path], data) == value


@pytest.mark.requirement("POLICY-11")
def test_plain_data_that_is_no_policy_is_told_by_path() -> None:
    data: dict[str, object] = {
        "loop": {"max_step": 3, "max_steps": "ten"},
        "timeout": {"run": True, "idle": 3},
        "rules": 1,
        "max_steps": 3,
        "budget": {"max_steps": 3},
        "approval": {"rules": [{"permission": "tool", "pattern": "*", "action": "never"}]},
        "speed": 1,
        "tool": {"argument_validation": "careful", "max_parallel_calls": True},
    }
    values, found = read_policy(data, "policy")
    assert values == {}
    assert {item.field: item.description for item in found} == {
        "policy.loop.max_step": "is not a policy setting; did you mean loop.max_steps?",
        "policy.loop.max_steps": "takes a whole number or a mode word",
        "policy.timeout.run": 'takes a duration such as "30s", "500ms", "2m", a number of seconds, or a mode word',
        "policy.rules": "is not a policy setting; did you mean approval.rules?",
        "policy.max_steps": "is not a policy setting; did you mean loop.max_steps?",
        "policy.budget.max_steps": "is not a policy setting; did you mean loop.max_steps?",
        "policy.approval.rules": 'takes rules whose action is one of "allow", "ask", "deny", "always_ask"',
        "policy.timeout.idle": "is not a policy setting; did you mean timeout.stream_idle or timeout.thinking_idle?",
        "policy.speed": "is not a policy setting",
        "policy.tool.argument_validation": 'takes one of "strict", "lenient", "none"',
        "policy.tool.max_parallel_calls": "takes a whole number or a mode word",
    }


BOUND_OF = {
    "loop.max_steps": "max_steps",
    "loop.max_tool_calls": "max_tool_calls",
    "loop.max_tool_calls_per_tool": "max_tool_calls_per_tool",
    "loop.repeated_call_threshold": "repeated_call_threshold",
    "tool.max_parallel_calls": "max_parallel_calls",
    "tool.argument_validation": "argument_validation",
    "tool.error_mode": "error_mode",
    "tool.max_result_bytes": "max_result_bytes",
    "output.max_output_tokens": "max_output_tokens",
    "output.reasoning_effort": "reasoning_effort",
    "timeout.run": "run_timeout",
    "timeout.iteration": "iteration_timeout",
    "timeout.first_event": "first_event_timeout",
    "timeout.stream_idle": "stream_idle_timeout",
    "timeout.thinking_idle": "thinking_idle_timeout",
    "timeout.tool_call": "tool_call_timeout",
    "timeout.wait": "wait_timeout",
    "tool.execution_mode": "execution_mode",
    "approval.wait_expiry": "wait_expiry",
    "retry.max_attempts": "max_attempts",
    "retry.initial_delay": "retry_initial_delay",
    "retry.max_delay": "retry_max_delay",
    "completion.mode": "completion_mode",
    "completion.reserved_output_tokens": "reserved_output_tokens",
    "completion.answer_at_step_bound": "answer_at_step_bound",
    "completion.custom_prompt": "completion_prompt",
    "completion.custom_hook": "completion_hook",
    "completion.allow_tools": "completion_tools",
    "context.max_history_tokens": "max_history_tokens",
    "context.overflow_mode": "history_overflow",
    "context.attachment_wait": "attachment_wait",
    "context.missing_attachments": "missing_attachments",
}


@pytest.mark.requirement("POLICY-10")
def test_every_enforced_leaf_has_a_bound_and_every_bound_a_leaf() -> None:
    budgets = {leaf.path for leaf in LEAVES if leaf.section == "budget"}
    ruled = {f"approval.{item.name}" for item in fields(ApprovalPolicy)} - set(BOUND_OF)  # in Permissions, not here
    assert {leaf.path for leaf in LEAVES if leaf.enforced} == set(BOUND_OF) | budgets | ruled
    assert {item.name for item in fields(Bounds)} == {*BOUND_OF.values(), "budgets"}


@pytest.mark.requirement("POLICY-10")
@given(policies(enforced_only=True))
@settings(max_examples=60, deadline=None)
def test_a_value_in_force_is_the_bound_and_an_open_mode_is_none(policy: Policy) -> None:
    effective = merge([Layer(PolicyLayer.RUN, "run-1", policy)])
    bounds = bounds_of(effective)
    for path, name in BOUND_OF.items():
        leaf = LEAF[path]
        value = getattr(getattr(effective.policy, leaf.section), leaf.name)
        if isinstance(value, Mapping):
            entries = cast(Mapping[str, int | LimitMode], value)
            value = {name: None if isinstance(count, LimitMode) else count for name, count in entries.items()}
        expected = None if isinstance(value, LimitMode) or value == "" else value
        assert getattr(bounds, name) == expected
    budgets = {budget.path: budget.limit for budget in bounds.budgets}
    for leaf in (leaf for leaf in LEAVES if leaf.section == "budget"):
        cap = getattr(effective.policy.budget, leaf.name)
        number = cap.amount_nanos if isinstance(cap, Cost) else cap
        assert budgets.get(leaf.path) == (None if isinstance(cap, LimitMode) else number)


@pytest.mark.requirement("POLICY-10")
def test_a_policy_that_was_not_merged_has_no_bounds() -> None:
    with pytest.raises(ValueError, match="not an effective policy"):
        bounds_of(EffectivePolicy(Policy(), ()))
    half = merge([]).policy
    broken = Policy(
        loop=LoopPolicy(max_steps=LimitMode.UNBOUNDED, max_tool_calls=1),
        tool=half.tool,
        approval=half.approval,
        retry=RetryPolicy(),
        completion=half.completion,
    )
    with pytest.raises(ValueError, match=r"loop\.max_steps has no number"):
        bounds_of(EffectivePolicy(broken, ()))
