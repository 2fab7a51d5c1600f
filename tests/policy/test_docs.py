"""docs/policy.md lists every leaf as the table of the code has it, and its examples hold."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from turnwired.domain.policy import LimitMode
from turnwired.policy.leaves import LEAVES, Leaf, LeafKind, policy_of
from turnwired.policy.text import as_text
from turnwired.policy.validate import read_policy, require_valid

DOCS = Path(__file__).parents[2] / "docs" / "policy.md"


def row(leaf: Leaf) -> str:
    """The line of a leaf in the document."""
    takes = leaf.unit if leaf.kind in (LeafKind.COUNT, LeafKind.COST) else leaf.kind.value
    if leaf.enum is not None:
        takes = ", ".join(f"`{word.lower()}`" for word in leaf.enum.__members__)
    modes = ", ".join(f"`{mode.lower()}`" for mode in LimitMode if mode in leaf.modes)
    default = as_text(leaf, leaf.default)
    allowed = ", ".join(f"`{word.lower()}`" for word in leaf.enum or () if word in leaf.allowed)
    settable = allowed or ("yes" if leaf.enforced else "not yet")
    shown = f"`{default}`" if default else ""
    return f"| `{leaf.path}` | {leaf.meaning} | {takes} | {modes} | {shown} | {settable} |".replace("  ", " ")


@pytest.mark.requirement("POLICY-12")
def test_the_document_lists_every_leaf_as_the_table_has_it() -> None:
    listed = [line for line in DOCS.read_text().splitlines() if re.match(r"\| `\w+\.\w+` \|", line)]
    assert listed == [row(leaf) for leaf in LEAVES]


@pytest.mark.requirement("POLICY-12")
def test_the_examples_of_the_document_are_taken() -> None:
    examples = re.findall(r"^```toml\n(.*?)^```$", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    assert examples
    for example in examples:
        for layer in tomllib.loads(example).values():
            values, found = read_policy(layer)
            assert found == []
            require_valid(policy_of(values))
