"""The provider's own limits in the effective policy: shown with their row, cut by the ceiling, never sent."""

from __future__ import annotations

import pytest

from turnwired.domain.policy import (
    ContextPolicy,
    EffectivePolicy,
    LimitMode,
    OutputPolicy,
    Policy,
    PolicyLayer,
    PolicyProvenance,
)
from turnwired.policy.bounds import bounds_of
from turnwired.policy.merge import Layer, merge

NATIVE = Layer(
    PolicyLayer.PROVIDER_NATIVE,
    "profile acme, models big-*",
    Policy(context=ContextPolicy(max_history_tokens=200_000), output=OutputPolicy(max_output_tokens=64_000)),
)
AGENT = Layer(PolicyLayer.AGENT, "a@1", Policy(output=OutputPolicy(max_output_tokens=100)))


def run(output: int | LimitMode) -> Layer:
    """What a request asks for."""
    return Layer(PolicyLayer.RUN, "", Policy(output=OutputPolicy(max_output_tokens=output)))


def ceiling(output: int) -> Layer:
    """A deployment's ceiling."""
    return Layer(PolicyLayer.SAFETY_CEILING, "file", Policy(output=OutputPolicy(max_output_tokens=output)))


def source(effective: EffectivePolicy, path: str) -> PolicyProvenance:
    """Where a leaf comes from."""
    return next(item for item in effective.provenance if item.path == path)


@pytest.mark.requirement("PROFILE-50", "POLICY-7")
def test_what_nobody_set_is_the_providers_number_with_its_row() -> None:
    effective = merge([], native=NATIVE)
    assert effective.policy.context.max_history_tokens == 200_000
    assert effective.policy.output.max_output_tokens == 64_000
    assert source(effective, "context.max_history_tokens") == PolicyProvenance(
        "context.max_history_tokens",
        PolicyLayer.PROVIDER_NATIVE,
        "profile acme, models big-*; chosen by RUNTIME_DEFAULT",
    )


@pytest.mark.requirement("PROFILE-50", "POLICY-7")
def test_a_leaf_that_a_layer_leaves_to_the_provider_names_the_row_and_the_layer() -> None:
    found = source(merge([AGENT, run(LimitMode.PROVIDER_NATIVE)], native=NATIVE), "output.max_output_tokens")
    assert found.layer is PolicyLayer.PROVIDER_NATIVE
    assert found.layer_ref == "profile acme, models big-*; chosen by RUN"
    assert found.overridden == (PolicyLayer.RUNTIME_DEFAULT, PolicyLayer.AGENT)


@pytest.mark.requirement("PROFILE-50")
def test_a_value_that_is_set_stays_and_what_is_not_known_stays_a_mode() -> None:
    assert merge([AGENT], native=NATIVE).policy.output.max_output_tokens == 100
    unknown = Layer(PolicyLayer.PROVIDER_NATIVE, "", Policy())
    effective = merge([], native=unknown)
    assert effective == merge([])
    assert effective.policy.output.max_output_tokens is LimitMode.PROVIDER_NATIVE
    assert effective.policy.context.max_history_tokens is LimitMode.PROVIDER_NATIVE


@pytest.mark.requirement("PROFILE-51", "POLICY-6")
def test_the_ceiling_cuts_the_providers_number_and_leaves_a_lower_one() -> None:
    cut = merge([], ceiling(1000), NATIVE)
    assert cut.policy.output.max_output_tokens == 1000
    found = source(cut, "output.max_output_tokens")
    assert (found.layer, found.requested_json) == (PolicyLayer.SAFETY_CEILING, '{"value":"64000"}')
    kept = merge([], ceiling(100_000), NATIVE)
    assert kept.policy.output.max_output_tokens == 64_000
    assert source(kept, "output.max_output_tokens").layer is PolicyLayer.PROVIDER_NATIVE


@pytest.mark.requirement("PROFILE-51", "POLICY-10")
def test_only_what_somebody_set_or_the_ceiling_cut_is_told_to_the_provider() -> None:
    assert bounds_of(merge([], native=NATIVE)).max_output_tokens is None
    assert bounds_of(merge([])).max_output_tokens is None
    assert bounds_of(merge([], ceiling(1000), NATIVE)).max_output_tokens == 1000
    assert bounds_of(merge([AGENT], native=NATIVE)).max_output_tokens == 100
    assert bounds_of(merge([run(64_000)], native=NATIVE)).max_output_tokens == 64_000
