"""Hypothesis strategies for policies: layers that validation takes, and layers of any shape at all."""

from __future__ import annotations

from hypothesis import strategies as st

from turnwired.domain.policy import LimitMode, PermissionAction, PermissionRule, Policy, PolicyLayer
from turnwired.domain.usage import Cost
from turnwired.policy.leaves import LEAVES, Leaf, LeafKind, LeafValue, policy_of
from turnwired.policy.merge import Layer

SETTABLE = (PolicyLayer.DEPLOYMENT, PolicyLayer.AGENT, PolicyLayer.SESSION, PolicyLayer.RUN)

rules = st.lists(
    st.builds(
        PermissionRule,
        st.sampled_from(["tool", "*"]),
        st.text(min_size=1, max_size=8),
        st.sampled_from(PermissionAction),
    ),
    min_size=1,
    max_size=3,
).map(tuple)


def leaf_values(leaf: Leaf) -> st.SearchStrategy[LeafValue]:
    """Values and modes that the leaf takes, whether it is enforced or not."""
    modes = st.sampled_from(sorted(leaf.modes)) if leaf.modes else st.nothing()
    match leaf.kind:
        case LeafKind.COUNT:
            return st.integers(int(leaf.minimum), int(leaf.maximum)) | modes
        case LeafKind.DURATION:
            return st.floats(leaf.minimum, leaf.maximum, allow_nan=False, allow_infinity=False) | modes
        case LeafKind.COST:
            return st.builds(Cost, st.sampled_from(["USD", "EUR"]), st.integers(0, 10**12)) | modes
        case LeafKind.ENUM:
            assert leaf.enum is not None
            return st.sampled_from(list(leaf.enum))
        case LeafKind.BOOL:
            return st.booleans()
        case LeafKind.TEXT:
            return st.text(max_size=16)
        case LeafKind.RULES:
            return rules
        case LeafKind.COUNT_MAP:
            entries = st.integers(0, 100) | st.sampled_from(sorted(leaf.modes))
            return st.dictionaries(st.sampled_from(["a", "b", "*"]), entries, min_size=1)


def policies(*, enforced_only: bool = False) -> st.SearchStrategy[Policy]:
    """Any subset of leaves, each with a value it takes. ``enforced_only``: layers that validation takes as well."""
    chosen: dict[str, st.SearchStrategy[LeafValue]] = {}
    for leaf in LEAVES:
        if leaf.kind is LeafKind.ENUM and leaf.allowed:
            assert leaf.enum is not None
            words = [word for word in leaf.enum if word in leaf.allowed or not enforced_only]
            chosen[leaf.path] = st.sampled_from(words)
        elif leaf.enforced or not enforced_only:
            chosen[leaf.path] = leaf_values(leaf)
    return st.fixed_dictionaries({}, optional=chosen).map(policy_of)


def hostile_policies() -> st.SearchStrategy[Policy]:
    """Policies as a bug could make them: caps with any mode and any number, allowed or not."""
    any_cap: st.SearchStrategy[LeafValue] = st.sampled_from(LimitMode) | st.integers(-(2**63), 2**63 - 1)
    caps = {leaf.path: any_cap for leaf in LEAVES if leaf.kind is LeafKind.COUNT}
    return st.fixed_dictionaries({}, optional=caps).map(policy_of)


def layers(source: st.SearchStrategy[Policy]) -> st.SearchStrategy[list[Layer]]:
    """Up to one layer of each kind that can be set, lowest first."""
    return st.tuples(*(st.none() | source for _ in SETTABLE)).map(
        lambda drawn: [
            Layer(kind, f"{kind.lower()}-1", policy)
            for kind, policy in zip(SETTABLE, drawn, strict=True)
            if policy is not None
        ]
    )
