"""Values of policy leaves as text: the short form that people read and write in TOML, and ProtoJSON. Pure.

``as_text`` writes what ``parse`` reads. Durations are ``"1.5s"``, ``"500ms"``, ``"2m"``, ``"1h"`` or a number of
seconds; money is ``"0.25 USD"``; enums and modes are their words in any case (``"unbounded"``, ``"strict"``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import cast

from turnwired.domain.policy import LimitMode, PermissionAction, PermissionRule
from turnwired.domain.usage import Cost
from turnwired.policy.leaves import CAP_KINDS, Leaf, LeafKind, LeafValue

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)")
_MONEY = re.compile(r"(\d+(?:\.\d{1,9})?)\s*([A-Z]{3})")
_SECONDS = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600)}
_NANOS = Decimal(10**9)


def cap_as_json(leaf: Leaf, value: LeafValue) -> str:
    """A cap as the ProtoJSON of ``CountLimit``, ``DurationLimit`` or ``CostLimit``: 64-bit integers are strings."""
    return json.dumps(_cap_json(leaf, value), separators=(",", ":"))


def _cap_json(leaf: Leaf, value: LeafValue) -> dict[str, object]:
    if isinstance(value, LimitMode):
        return {"mode": f"LIMIT_MODE_{value}"}
    if isinstance(value, Cost):
        return {"value": {"currencyCode": value.currency_code, "amountNanos": str(value.amount_nanos)}}
    if leaf.kind is LeafKind.DURATION:
        assert isinstance(value, int | float)
        return {"value": f"{_plain(value)}s"}
    return {"value": str(value)}


def as_text(leaf: Leaf, value: LeafValue) -> str:
    """The value as a person would write it."""
    if isinstance(value, LimitMode):
        return value.lower()
    match leaf.kind:
        case LeafKind.DURATION:
            assert isinstance(value, int | float)
            return f"{_plain(value)}s"
        case LeafKind.COST:
            assert isinstance(value, Cost)
            return f"{_plain(Decimal(value.amount_nanos) / _NANOS)} {value.currency_code}"
        case LeafKind.BOOL:
            return "true" if value else "false"
        case LeafKind.ENUM:
            return str(value).lower()
        case LeafKind.COUNT | LeafKind.TEXT:
            return str(value)
        case LeafKind.RULES:
            rules = cast(tuple[PermissionRule, ...], value)
            return ", ".join(f"{rule.permission} {rule.pattern} {rule.action.lower()}" for rule in rules)
        case LeafKind.COUNT_MAP:
            counts = cast(Mapping[str, int | LimitMode], value)
            return ", ".join(f"{name} {str(count).lower()}" for name, count in sorted(counts.items()))


def _plain(number: float | Decimal) -> str:
    """Digits without an exponent and without needless zeros."""
    text = format(Decimal(str(number)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def parse(leaf: Leaf, data: object) -> LeafValue:
    """Read a value from plain data (TOML, JSON). Raises ValueError with a sentence that says what the leaf takes.

    Reads the form only: whether the leaf takes the value is for ``validate`` to say.
    """
    if leaf.kind in CAP_KINDS and isinstance(data, str):
        mode = _mode(data)
        if mode is not None:
            return mode
    match leaf.kind:
        case LeafKind.COUNT:
            return _parse_count(data)
        case LeafKind.DURATION:
            return _parse_duration(data)
        case LeafKind.COST:
            return _parse_cost(data)
        case LeafKind.BOOL:
            return _parse_bool(data)
        case LeafKind.TEXT:
            return _parse_text(data)
        case LeafKind.ENUM:
            return _parse_word(leaf, data)
        case LeafKind.RULES:
            return _parse_rules(data)
        case LeafKind.COUNT_MAP:
            return _parse_counts(data)


def _mode(data: str) -> LimitMode | None:
    word = data.strip().upper()
    return LimitMode(word) if word in LimitMode.__members__ else None


def _parse_bool(data: object) -> bool:
    if isinstance(data, bool):
        return data
    raise ValueError("takes true or false")


def _parse_text(data: object) -> str:
    if isinstance(data, str):
        return data
    raise ValueError("takes a text")


def _parse_count(data: object) -> int:
    if isinstance(data, int) and not isinstance(data, bool):
        return data
    raise ValueError("takes a whole number or a mode word")


def _parse_duration(data: object) -> float:
    if isinstance(data, int | float) and not isinstance(data, bool):
        return float(data)
    if isinstance(data, str):
        match = _DURATION.fullmatch(data.strip())
        if match is not None:
            return float(Decimal(match[1]) * _SECONDS[match[2]])
    raise ValueError('takes a duration such as "30s", "500ms", "2m", a number of seconds, or a mode word')


def _parse_cost(data: object) -> Cost:
    match = _MONEY.fullmatch(data.strip()) if isinstance(data, str) else None
    if match is None:
        raise ValueError('takes an amount such as "0.25 USD", or a mode word')
    return Cost(match[2], int(Decimal(match[1]) * _NANOS))


def _parse_word(leaf: Leaf, data: object) -> str:
    assert leaf.enum is not None
    word = data.strip().upper() if isinstance(data, str) else ""
    if word in leaf.enum.__members__:
        return leaf.enum(word)
    words = ", ".join(f'"{member.lower()}"' for member in leaf.enum.__members__)
    raise ValueError(f"takes one of {words}")


def _parse_rules(data: object) -> tuple[PermissionRule, ...]:
    if isinstance(data, Sequence) and not isinstance(data, str):
        return tuple(_parse_rule(item) for item in cast(Sequence[object], data))
    raise ValueError("takes a list of tables with permission, pattern and action")


def _parse_rule(data: object) -> PermissionRule:
    item = cast(Mapping[str, object], data) if isinstance(data, Mapping) else {}
    permission, pattern, action = item.get("permission"), item.get("pattern"), item.get("action")
    if len(item) == 3 and isinstance(permission, str) and isinstance(pattern, str) and isinstance(action, str):
        word = action.strip().upper()
        if word in PermissionAction.__members__:
            return PermissionRule(permission, pattern, PermissionAction(word))
        words = ", ".join(f'"{member.lower()}"' for member in PermissionAction.__members__)
        raise ValueError(f"takes rules whose action is one of {words}")
    raise ValueError('takes rules such as {permission = "tool", pattern = "github_*", action = "ask"}')


def _parse_counts(data: object) -> dict[str, int | LimitMode]:
    if isinstance(data, Mapping):
        return {name: _parse_named_count(count) for name, count in cast(Mapping[str, object], data).items()}
    raise ValueError("takes a table of whole numbers or mode words by tool name")


def _parse_named_count(data: object) -> int | LimitMode:
    mode = _mode(data) if isinstance(data, str) else None
    return mode if mode is not None else _parse_count(data)
