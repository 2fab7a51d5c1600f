"""Layers, ceilings and provenance: what must hold for every combination of layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policy.strategies import hostile_policies, layers, policies

from turnwired.domain.policy import (
    ApprovalPolicy,
    BudgetPolicy,
    LimitMode,
    LoopPolicy,
    OutputPolicy,
    PermissionAction,
    PermissionRule,
    Policy,
    PolicyLayer,
    PolicyProvenance,
    RetryPolicy,
    TimeoutPolicy,
)
from turnwired.domain.usage import Cost
from turnwired.policy.leaves import CAP_KINDS, LEAVES, LeafKind, LeafValue, policy_of, value_at
from turnwired.policy.merge import BUILT_IN_CEILING, Layer, merge

Rules = tuple[PermissionRule, ...]
Counts = Mapping[str, int | LimitMode]
FEWER = settings(max_examples=60, deadline=None)


def source_of(provenance: tuple[PolicyProvenance, ...], path: str) -> PolicyProvenance:
    return next(item for item in provenance if item.path == path)


def layer(kind: PolicyLayer, policy: Policy) -> Layer:
    return Layer(kind, f"{kind.lower()}-1", policy)


def overlay(lower: Policy, upper: Policy) -> Policy:
    """Two layers as one, by what the contract says of layers: what merging is held against."""
    values: dict[str, LeafValue] = {}
    for leaf in LEAVES:
        below, above = value_at(lower, leaf), value_at(upper, leaf)
        if leaf.kind is LeafKind.RULES:
            value = cast(LeafValue | None, (*cast(Rules, below or ()), *cast(Rules, above or ())) or None)
        elif leaf.kind is LeafKind.COUNT_MAP:
            value = cast(LeafValue | None, {**cast(Counts, below or {}), **cast(Counts, above or {})} or None)
        else:
            value = below if above is None else above
        if value is not None:
            values[leaf.path] = value
    return policy_of(values)


def ceilings() -> st.SearchStrategy[Layer | None]:
    """Ceilings as validation takes them: values of caps only."""

    def keep_values(policy: Policy) -> Layer:
        values = {leaf.path: value_at(policy, leaf) for leaf in LEAVES if leaf.ceiling}
        kept = {path: value for path, value in values.items() if value is not None}
        plain = {path: value for path, value in kept.items() if not isinstance(value, LimitMode)}
        return Layer(PolicyLayer.SAFETY_CEILING, "ceiling", policy_of(plain))

    return st.none() | policies().map(keep_values)


@pytest.mark.requirement("POLICY-2")
@given(layers(hostile_policies()), ceilings())
@FEWER
def test_no_combination_of_layers_turns_a_loop_bound_off(stack: list[Layer], ceiling: Layer | None) -> None:
    loop = merge(stack, ceiling).policy.loop
    own = LoopPolicy() if ceiling is None else ceiling.policy.loop
    for value, highest, path in (
        (loop.max_steps, own.max_steps, "loop.max_steps"),
        (loop.max_tool_calls, own.max_tool_calls, "loop.max_tool_calls"),
    ):
        limit = BUILT_IN_CEILING[path] if highest is None else highest
        assert isinstance(limit, int)
        assert isinstance(value, int)
        assert value <= limit


@pytest.mark.requirement("POLICY-3")
@given(layers(policies()), ceilings())
@FEWER
def test_every_leaf_is_set_and_has_exactly_one_provenance(stack: list[Layer], ceiling: Layer | None) -> None:
    effective = merge(stack, ceiling)
    paths = [item.path for item in effective.provenance]
    assert len(paths) == len(set(paths))
    for leaf in LEAVES:
        if leaf.kind is LeafKind.COUNT_MAP:
            names = effective.policy.loop.max_tool_calls_per_tool
            assert {f'{leaf.path}["{name}"]' for name in names} or {leaf.path} <= set(paths)
        else:
            assert getattr(getattr(effective.policy, leaf.section), leaf.name) is not None
            assert leaf.path in paths


@pytest.mark.requirement("POLICY-3")
@given(layers(policies()))
@FEWER
def test_the_layer_named_is_the_highest_that_set_the_leaf(stack: list[Layer]) -> None:
    effective = merge(stack)
    for leaf in LEAVES:
        if leaf.kind in (LeafKind.RULES, LeafKind.COUNT_MAP):
            continue
        setters = [item for item in stack if value_at(item.policy, leaf) is not None]
        source = source_of(effective.provenance, leaf.path)
        chosen = value_at(setters[-1].policy, leaf) if setters else leaf.default
        if isinstance(chosen, LimitMode) and chosen is not LimitMode.UNBOUNDED:
            continue  # resolved elsewhere; its own tests say how
        expected = setters[-1].layer if setters else PolicyLayer.RUNTIME_DEFAULT
        below = tuple(item.layer for item in setters[:-1])
        if source.layer is PolicyLayer.SAFETY_CEILING:
            assert source.overridden[-1] is expected
        else:
            assert value_at(effective.policy, leaf) == chosen
            assert source.layer is expected
            assert source.overridden == ((PolicyLayer.RUNTIME_DEFAULT, *below) if setters else ())


@pytest.mark.requirement("POLICY-5")
@given(layers(policies()), ceilings())
@FEWER
def test_the_same_layers_give_the_same_policy(stack: list[Layer], ceiling: Layer | None) -> None:
    assert merge(stack, ceiling) == merge(list(stack), ceiling)


@pytest.mark.requirement("POLICY-5")
@given(policies(), policies(), policies())
@FEWER
def test_overlaying_is_associative_and_unset_is_its_identity(a: Policy, b: Policy, c: Policy) -> None:
    assert overlay(overlay(a, b), c) == overlay(a, overlay(b, c))
    assert overlay(Policy(), a) == a == overlay(a, Policy())


@pytest.mark.requirement("POLICY-5")
@given(policies(), policies())
@FEWER
def test_merging_two_layers_first_gives_the_same_policy(lower: Policy, upper: Policy) -> None:
    apart = merge([layer(PolicyLayer.AGENT, lower), layer(PolicyLayer.RUN, upper)])
    together = merge([layer(PolicyLayer.RUN, overlay(lower, upper))])
    assert apart.policy == together.policy


@pytest.mark.requirement("POLICY-6")
@given(layers(policies()), ceilings())
@FEWER
def test_the_ceiling_is_never_exceeded(stack: list[Layer], ceiling: Layer | None) -> None:
    effective = merge(stack, ceiling)
    for leaf in LEAVES:
        limit = value_at(ceiling.policy, leaf) if ceiling else None
        if limit is None:
            limit = BUILT_IN_CEILING.get(leaf.path)
        if limit is None:
            continue
        value = value_at(effective.policy, leaf)
        source = source_of(effective.provenance, leaf.path)
        assert (source.layer is PolicyLayer.SAFETY_CEILING) == (source.requested_json is not None)
        if isinstance(limit, Cost):
            assert isinstance(value, Cost)
            assert value.amount_nanos <= limit.amount_nanos
            assert value.currency_code == limit.currency_code
        else:
            assert isinstance(value, int | float)
            assert isinstance(limit, int | float)
            assert value <= limit


@pytest.mark.requirement("POLICY-6")
def test_a_value_above_the_ceiling_is_cut_and_says_what_was_asked_for() -> None:
    ceiling = Layer(PolicyLayer.SAFETY_CEILING, "turnwire.toml", Policy(loop=LoopPolicy(max_steps=20)))
    agent = layer(PolicyLayer.AGENT, Policy(loop=LoopPolicy(max_steps=5)))
    run = layer(PolicyLayer.RUN, Policy(loop=LoopPolicy(max_steps=100)))
    effective = merge([agent, run], ceiling)
    assert effective.policy.loop.max_steps == 20
    assert source_of(effective.provenance, "loop.max_steps") == PolicyProvenance(
        "loop.max_steps",
        PolicyLayer.SAFETY_CEILING,
        "turnwire.toml",
        (PolicyLayer.RUNTIME_DEFAULT, PolicyLayer.AGENT, PolicyLayer.RUN),
        '{"value":"100"}',
    )


@pytest.mark.requirement("POLICY-6")
@pytest.mark.parametrize(
    ("asked", "ceiling", "requested"),
    [
        (Policy(timeout=TimeoutPolicy(run=90.5)), Policy(timeout=TimeoutPolicy(run=60.0)), '{"value":"90.5s"}'),
        (
            Policy(timeout=TimeoutPolicy(run=LimitMode.UNBOUNDED)),
            Policy(timeout=TimeoutPolicy(run=60.0)),
            '{"mode":"LIMIT_MODE_UNBOUNDED"}',
        ),
        (
            Policy(output=OutputPolicy(max_output_tokens=LimitMode.PROVIDER_NATIVE)),
            Policy(output=OutputPolicy(max_output_tokens=4096)),
            '{"mode":"LIMIT_MODE_PROVIDER_NATIVE"}',
        ),
    ],
)
def test_what_was_asked_for_is_protojson(asked: Policy, ceiling: Policy, requested: str) -> None:
    effective = merge([layer(PolicyLayer.RUN, asked)], Layer(PolicyLayer.SAFETY_CEILING, "c", ceiling))
    cut = [item for item in effective.provenance if item.layer is PolicyLayer.SAFETY_CEILING]
    assert [item.requested_json for item in cut] == [requested]


@pytest.mark.requirement("POLICY-6")
def test_money_in_another_currency_than_the_ceiling_is_cut_because_it_cannot_be_compared() -> None:
    run = layer(PolicyLayer.RUN, Policy(budget=BudgetPolicy(max_cost=Cost("JPY", 5))))
    limit = Cost("USD", 10)
    ceiling = Layer(PolicyLayer.SAFETY_CEILING, "c", Policy(budget=BudgetPolicy(max_cost=limit)))
    effective = merge([run], ceiling)
    assert effective.policy.budget.max_cost == limit
    requested = source_of(effective.provenance, "budget.max_cost").requested_json
    assert requested == '{"value":{"currencyCode":"JPY","amountNanos":"5"}}'


@pytest.mark.requirement("POLICY-6")
def test_the_built_in_ceiling_holds_where_the_deployment_sets_none() -> None:
    run = layer(PolicyLayer.RUN, Policy(loop=LoopPolicy(max_steps=10**6)))
    effective = merge([run])
    assert effective.policy.loop.max_steps == BUILT_IN_CEILING["loop.max_steps"]
    assert source_of(effective.provenance, "loop.max_steps").layer_ref == "built-in"


@pytest.mark.requirement("POLICY-6")
def test_a_default_above_the_ceiling_is_cut_too() -> None:
    ceiling = Layer(PolicyLayer.SAFETY_CEILING, "c", Policy(loop=LoopPolicy(max_steps=3)))
    effective = merge([], ceiling)
    assert effective.policy.loop.max_steps == 3
    assert source_of(effective.provenance, "loop.max_steps").overridden == (PolicyLayer.RUNTIME_DEFAULT,)


@pytest.mark.requirement("POLICY-7")
def test_runtime_default_lifts_a_lower_layer_and_says_who_chose_it() -> None:
    deployment = layer(PolicyLayer.DEPLOYMENT, Policy(loop=LoopPolicy(max_steps=3)))
    run = layer(PolicyLayer.RUN, Policy(loop=LoopPolicy(max_steps=LimitMode.RUNTIME_DEFAULT)))
    effective = merge([deployment, run])
    assert effective.policy.loop.max_steps == 10
    assert source_of(effective.provenance, "loop.max_steps") == PolicyProvenance(
        "loop.max_steps", PolicyLayer.RUNTIME_DEFAULT, "chosen by RUN run-1", (PolicyLayer.DEPLOYMENT,)
    )


@pytest.mark.requirement("POLICY-7")
def test_a_delegated_value_stays_a_mode_and_its_layer_is_the_provider() -> None:
    agent = layer(PolicyLayer.AGENT, Policy(output=OutputPolicy(max_output_tokens=100)))
    run = layer(PolicyLayer.RUN, Policy(output=OutputPolicy(max_output_tokens=LimitMode.PROVIDER_NATIVE)))
    effective = merge([agent, run])
    assert effective.policy.output.max_output_tokens is LimitMode.PROVIDER_NATIVE
    assert source_of(effective.provenance, "output.max_output_tokens") == PolicyProvenance(
        "output.max_output_tokens",
        PolicyLayer.PROVIDER_NATIVE,
        "chosen by RUN run-1",
        (PolicyLayer.RUNTIME_DEFAULT, PolicyLayer.AGENT),
    )


@pytest.mark.requirement("POLICY-7")
@given(layers(policies()))
@FEWER
def test_no_runtime_default_mode_is_left_in_the_policy_in_force(stack: list[Layer]) -> None:
    policy = merge(stack).policy
    assert not [leaf.path for leaf in LEAVES if value_at(policy, leaf) is LimitMode.RUNTIME_DEFAULT]
    assert LimitMode.RUNTIME_DEFAULT not in policy.loop.max_tool_calls_per_tool.values()
    assert all(value_at(policy, leaf) is not None for leaf in LEAVES if leaf.kind in CAP_KINDS)


@pytest.mark.requirement("POLICY-4")
def test_rules_append_and_entries_of_a_map_replace_one_by_one() -> None:
    ask = PermissionRule("tool", "*", PermissionAction.ASK)
    deny = PermissionRule("tool", "rm", PermissionAction.DENY)
    agent = Policy(approval=ApprovalPolicy(rules=(ask,)), loop=LoopPolicy(max_tool_calls_per_tool={"a": 1, "b": 2}))
    run = Policy(approval=ApprovalPolicy(rules=(deny,)), loop=LoopPolicy(max_tool_calls_per_tool={"b": 3}))
    effective = merge([layer(PolicyLayer.AGENT, agent), layer(PolicyLayer.RUN, run)])
    assert effective.policy.approval.rules == (ask, deny)
    assert effective.policy.loop.max_tool_calls_per_tool == {"a": 1, "b": 3}
    entry = source_of(effective.provenance, 'loop.max_tool_calls_per_tool["b"]')
    assert (entry.layer, entry.overridden) == (PolicyLayer.RUN, (PolicyLayer.AGENT,))


@pytest.mark.requirement("POLICY-4")
def test_a_mode_replaces_a_value_as_a_whole_and_the_other_way_round() -> None:
    agent = layer(PolicyLayer.AGENT, Policy(timeout=TimeoutPolicy(run=LimitMode.UNBOUNDED, iteration=5.0)))
    run = layer(PolicyLayer.RUN, Policy(timeout=TimeoutPolicy(run=7.0, iteration=LimitMode.UNBOUNDED)))
    timeout = merge([agent, run]).policy.timeout
    assert (timeout.run, timeout.iteration) == (7.0, LimitMode.UNBOUNDED)


@pytest.mark.requirement("POLICY-4")
@pytest.mark.parametrize(
    "kinds",
    [
        (PolicyLayer.RUN, PolicyLayer.AGENT),
        (PolicyLayer.RUNTIME_DEFAULT,),
        (PolicyLayer.AGENT, PolicyLayer.SAFETY_CEILING),
    ],
)
def test_layers_out_of_order_are_a_bug_of_the_caller(kinds: tuple[PolicyLayer, ...]) -> None:
    with pytest.raises(ValueError, match="lowest first"):
        merge([layer(kind, Policy(retry=RetryPolicy(max_attempts=2))) for kind in kinds])
