"""Schemas that are made to take forever when they are adapted, and prices that no number holds."""

from __future__ import annotations

import json
import time
from decimal import Decimal
from typing import Any

import pytest

from turnwired.domain.usage import MAX_NANOS, Usage, sum_cost
from turnwired.policy.ratecard import Rate
from turnwired.providers.profiles import SchemaAdaptation
from turnwired.providers.schema_adaptation import strict_form

ALL = frozenset(SchemaAdaptation)


def _twice_each(key: str) -> dict[str, Any]:
    """Forty definitions, each of which leads to the next one twice: 2^40 ways to the last."""
    found: dict[str, Any] = {
        f"d{number}": {key: [{"$ref": f"#/$defs/d{number + 1}"}, {"$ref": f"#/$defs/d{number + 1}"}]}
        for number in range(40)
    }
    found["d40"] = {"type": "object", "properties": {"a": {"type": "string"}}}
    return {"$defs": found, "$ref": "#/$defs/d0"}


SCHEMAS = {
    "anyOf twice": _twice_each("anyOf"),
    "oneOf twice": _twice_each("oneOf"),
    "allOf twice": _twice_each("allOf"),
    "itself": {"type": "object", "properties": {"a": {"$ref": "#"}}, "anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
    "long index": {"$ref": "#/anyOf/" + "9" * 5000, "anyOf": [{}]},
    "all required": {
        "type": "object",
        "properties": {f"k{number}": {"type": "string"} for number in range(15_000)},
        "required": [f"k{number}" for number in range(15_000)],
    },
    "elsewhere": {"$ref": "http://127.0.0.1:9/schema.json"},
    "nonsense": {"type": ["object", {}], "properties": {"a": None, "b": 3}, "anyOf": [None, True], "required": 3},
}


@pytest.mark.requirement("HOSTILE-5")
@pytest.mark.parametrize("without", [None, SchemaAdaptation.INLINE_REFS, SchemaAdaptation.NO_TOP_LEVEL_UNION])
@pytest.mark.parametrize("name", SCHEMAS)
def test_no_schema_takes_long_to_adapt(name: str, without: SchemaAdaptation | None) -> None:
    text = json.dumps(SCHEMAS[name])
    begun = time.process_time()
    adapted, _ = strict_form(text, ALL - {without} if without else ALL)
    assert time.process_time() - begun < 5
    assert isinstance(json.loads(adapted), dict)


@pytest.mark.requirement("HOSTILE-6")
@pytest.mark.parametrize(
    "rate",
    [Rate(Decimal(10**9), Decimal(10**9)), Rate(gpu_ms=Decimal(10**9))],
    ids=["tokens", "time"],
)
def test_an_amount_beyond_all_measure_is_a_lower_bound(rate: Rate) -> None:
    cost = rate.price(Usage(10**12, 10**12), 10**13, "card")
    assert cost is not None
    assert (cost.amount_nanos, cost.complete) == (MAX_NANOS, False)
    total = sum_cost([cost, cost])
    assert total is not None
    assert (total.amount_nanos, total.complete) == (MAX_NANOS, False)
