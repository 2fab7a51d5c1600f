"""Whether a layer of policy may be taken: every value in its range, every mode allowed, every option enforced. Pure.

Nothing is accepted and ignored: a leaf that this version does not enforce is refused in whatever layer it is set.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import cast

from turnwired.domain.errors import FieldViolation, InvalidRequest
from turnwired.domain.failure import Reason
from turnwired.domain.permission import PERMISSIONS, is_permission
from turnwired.domain.policy import LimitMode, PermissionRule, Policy
from turnwired.domain.usage import Cost
from turnwired.policy.leaves import CAP_KINDS, LEAF, LEAVES, Leaf, LeafKind, LeafValue, value_at
from turnwired.policy.permissions import matches
from turnwired.policy.text import as_text, parse

MOST_RULE_CHARACTERS = 1024
MOST_ENTRIES = 500
"""Of a map from names of tools: each is a line of the policy in force, which every run of it keeps."""
MOST_NAME_CHARACTERS = 256
_CURRENCY = re.compile(r"[A-Z]{3}")


@dataclass(frozen=True, slots=True)
class PolicyViolation:
    """One broken rule. ``reason``: INVALID_REQUEST, or OPTION_NOT_SUPPORTED where this version does not enforce it."""

    field: str
    description: str
    reason: Reason


def violations(policy: Policy, prefix: str = "") -> list[PolicyViolation]:
    """What is wrong with one layer, in the order of the table. ``prefix`` such as ``turn.policy`` opens the paths."""
    found: list[PolicyViolation] = []
    for leaf in LEAVES:
        value = value_at(policy, leaf)
        if value is not None:
            found += _leaf_violations(leaf, value, _join(prefix, leaf.path))
    return found


def ceiling_violations(policy: Policy, prefix: str = "") -> list[PolicyViolation]:
    """What is wrong with a safety ceiling: a layer of plain values, for caps of which less is tighter."""
    found = violations(policy, prefix)
    for leaf in LEAVES:
        value = value_at(policy, leaf)
        if value is None or not leaf.enforced:
            continue
        if not leaf.ceiling:
            found.append(_invalid(_join(prefix, leaf.path), "has no order, so a ceiling cannot cut it; leave it unset"))
        elif isinstance(value, LimitMode):
            found.append(_invalid(_join(prefix, leaf.path), "a ceiling is a value, not a mode; leave it unset"))
    return found


def require_valid(policy: Policy, prefix: str = "") -> None:
    """Raise InvalidRequest with every violation; its reason is OPTION_NOT_SUPPORTED when they are all of that kind."""
    found = violations(policy, prefix)
    if not found:
        return
    unsupported = all(violation.reason is Reason.OPTION_NOT_SUPPORTED for violation in found)
    raise InvalidRequest(
        [FieldViolation(violation.field, violation.description) for violation in found],
        Reason.OPTION_NOT_SUPPORTED if unsupported else Reason.INVALID_REQUEST,
    )


def read_policy(data: Mapping[str, object], prefix: str = "") -> tuple[dict[str, LeafValue], list[PolicyViolation]]:
    """Read plain data (``{"loop": {"max_steps": 10}}``) into values by path. What cannot be read is a violation."""
    values: dict[str, LeafValue] = {}
    found: list[PolicyViolation] = []
    for path, item in _paths(data):
        leaf = LEAF.get(path)
        if leaf is None:
            found.append(_invalid(_join(prefix, path), f"is not a policy setting{_suggestion(path)}"))
            continue
        try:
            values[path] = parse(leaf, item)
        except ValueError as error:
            found.append(_invalid(_join(prefix, path), str(error)))
    return values, found


def _suggestion(path: str) -> str:
    """The setting that was probably meant, by its whole path or by its last word."""
    word = path.rpartition(".")[2]
    names = {known: known.rpartition(".")[2] for known in LEAF}
    whole = [known for known, name in names.items() if word == name]
    within = sorted(known for known, name in names.items() if word and word in name.split("_"))
    close = whole or difflib.get_close_matches(path, LEAF, n=1, cutoff=0.8) or within
    return f"; did you mean {' or '.join(close)}?" if 0 < len(close) <= 3 else ""


def _paths(data: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for section, members in data.items():
        if isinstance(members, Mapping):
            for name, item in cast(Mapping[str, object], members).items():
                yield f"{section}.{name}", item
        else:
            yield section, members


def _join(prefix: str, path: str) -> str:
    return f"{prefix}.{path}" if prefix else path


def _invalid(field: str, description: str) -> PolicyViolation:
    return PolicyViolation(field, description, Reason.INVALID_REQUEST)


def _leaf_violations(leaf: Leaf, value: LeafValue, field: str) -> Iterator[PolicyViolation]:
    if leaf.kind is LeafKind.ENUM and str(value) in leaf.allowed:
        return
    if not leaf.enforced or leaf.kind is LeafKind.ENUM:
        what = f"{as_text(leaf, value)} is" if leaf.allowed else "is"
        hint = f"use {_words(leaf)} or leave it unset" if leaf.allowed else "leave it unset"
        yield PolicyViolation(field, f"{what} not enforced by this version; {hint}", Reason.OPTION_NOT_SUPPORTED)
        return
    if isinstance(value, LimitMode) and leaf.kind in CAP_KINDS:
        if value not in leaf.modes:
            yield _invalid(field, f"mode {value.lower()} is not allowed here; {_takes(leaf)}")
        return
    yield from _value_violations(leaf, value, field)


def _value_violations(leaf: Leaf, value: LeafValue, field: str) -> Iterator[PolicyViolation]:
    match leaf.kind:
        case LeafKind.COUNT | LeafKind.DURATION:
            assert isinstance(value, int | float)
            if not math.isfinite(value) or not leaf.minimum <= value <= leaf.maximum:
                yield _invalid(field, f"{value:g} is out of range; {_takes(leaf)}")
        case LeafKind.COST:
            assert isinstance(value, Cost)
            if not _CURRENCY.fullmatch(value.currency_code) or not 0 <= value.amount_nanos <= leaf.maximum:
                yield _invalid(field, "takes an amount of at least 0 in a currency by its ISO 4217 code")
        case LeafKind.TEXT:
            if len(str(value)) > leaf.maximum:
                yield _invalid(field, f"is longer than {leaf.maximum:g} characters")
        case LeafKind.COUNT_MAP:
            yield from _map_violations(leaf, cast(Mapping[str, int | LimitMode], value), field)
        case LeafKind.RULES:
            yield from _rules_violations(leaf, cast(tuple[PermissionRule, ...], value), field)
        case LeafKind.BOOL | LeafKind.ENUM:
            return


def _map_violations(leaf: Leaf, counts: Mapping[str, int | LimitMode], field: str) -> Iterator[PolicyViolation]:
    if len(counts) > MOST_ENTRIES:
        yield _invalid(field, f"has {len(counts)} entries; at most {MOST_ENTRIES} are allowed")
        return
    takes = _takes(replace(leaf, kind=LeafKind.COUNT))  # each entry does
    for name, count in counts.items():
        entry = f'{field}["{name[:64]}"]'
        if not name:
            yield _invalid(field, "has an entry without a name")
        elif len(name) > MOST_NAME_CHARACTERS:
            yield _invalid(entry, f"its name has {len(name)} characters; at most {MOST_NAME_CHARACTERS} are allowed")
        elif isinstance(count, LimitMode):
            if count not in leaf.modes:
                yield _invalid(entry, f"mode {count.lower()} is not allowed here; {takes}")
        elif not leaf.minimum <= count <= leaf.maximum:
            yield _invalid(entry, f"{count} is out of range; {takes}")


def _rules_violations(leaf: Leaf, rules: tuple[PermissionRule, ...], field: str) -> Iterator[PolicyViolation]:
    if len(rules) > leaf.maximum:
        yield _invalid(field, f"has {len(rules)} rules; at most {leaf.maximum:g} are allowed")
        return
    for index, rule in enumerate(rules):
        for name, words in (("permission", rule.permission), ("pattern", rule.pattern)):
            if not 1 <= len(words) <= MOST_RULE_CHARACTERS:
                yield _invalid(f"{field}[{index}].{name}", f"must be 1 to {MOST_RULE_CHARACTERS} characters")
        if not rule.permission or is_permission(rule.permission):
            continue
        if not any(matches(rule.permission, asked) for asked in PERMISSIONS):
            # A rule that nothing is ever held against would be taken for a lock, and is none.
            words = f"matches no permission that is asked for; there are {', '.join(PERMISSIONS)}, and those of a"
            yield _invalid(f"{field}[{index}].permission", f"{words} deployment's own tools, which have a dot")


def _words(leaf: Leaf) -> str:
    return " or ".join(sorted(word.lower() for word in leaf.allowed))


def _takes(leaf: Leaf) -> str:
    if leaf.kind is LeafKind.COST:
        return f"takes an amount of money{_or_modes(leaf)}"
    most = f" to {as_text(leaf, leaf.maximum)}" if leaf.maximum < 2**31 - 1 else " or more"
    return f"takes {as_text(leaf, leaf.minimum)}{most}{_or_modes(leaf)}"


def _or_modes(leaf: Leaf) -> str:
    return "".join(f", or {mode.lower()}" for mode in LimitMode if mode in leaf.modes)
