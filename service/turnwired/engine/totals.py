"""What a run adds to the stored totals of its session and of its tenant's day. Pure; knows no budget."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import lru_cache

from turnwired.domain.usage import MAX_NANOS, Cost, Usage
from turnwired.policy.budgets import TOKENS
from turnwired.store.port import Spending, SpendingScope

_DAY_NS = 86_400 * 10**9
_EPOCH_DAY = date(1970, 1, 1).toordinal()


@lru_cache(maxsize=64)
def _date(days: int) -> str:
    return date.fromordinal(_EPOCH_DAY + days).isoformat()


def day_of(time_ns: int) -> str:
    """The UTC day of a Unix time in nanoseconds, as ``2026-11-30``."""
    return _date(time_ns // _DAY_NS)


def tokens_of(usage: Usage) -> int:
    """What usage counts against a budget: input with all that is cached, and output with reasoning."""
    return (usage.input_tokens or 0) + (usage.output_tokens or 0)


def spending_of(
    tenant: str, sessions: Sequence[str], create_time_ns: int, usage: Usage, cost: Cost | None
) -> tuple[Spending, ...]:
    """What a run adds to totals: of its session and those of the runs above it, and of the day on which it began."""
    amounts = [(TOKENS, tokens_of(usage))]
    if cost is not None:
        amounts.append((cost.currency_code, cost.amount_nanos))
    names = [(SpendingScope.DAY, day_of(create_time_ns))]
    names.extend((SpendingScope.SESSION, session_id) for session_id in dict.fromkeys(sessions))
    return tuple(
        Spending(tenant, scope, name, unit, min(amount, MAX_NANOS))
        for scope, name in names
        for unit, amount in amounts
        if amount > 0
    )
