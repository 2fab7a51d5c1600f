"""Tokens and money. Token counts are None where the provider did not say; 0 means none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class UsageSource(StrEnum):
    """Who counted tokens. UNSPECIFIED: nobody."""

    UNSPECIFIED = "UNSPECIFIED"
    PROVIDER = "PROVIDER"
    ESTIMATED = "ESTIMATED"
    MIXED = "MIXED"


INEXACT = frozenset({UsageSource.ESTIMATED, UsageSource.MIXED})
"""Sources of counts that are no exact ones."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens used. ``input_tokens`` includes cache reads and writes, ``output_tokens`` includes reasoning."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    source: UsageSource = UsageSource.UNSPECIFIED


@dataclass(frozen=True, slots=True)
class Cost:
    """An amount of money in billionths of ``currency_code`` (ISO 4217). Not ``complete``: a lower bound."""

    currency_code: str
    amount_nanos: int
    rate_card: str = ""
    complete: bool = True


MAX_NANOS = 2**63 - 1
"""What an amount can be at most, in events and on the wire."""


def bounded_cost(currency_code: str, nanos: int, rate_card: str, *, complete: bool) -> Cost:
    """A cost; one beyond all that can be told is the highest that can be, as a lower bound."""
    return Cost(currency_code, min(nanos, MAX_NANOS), rate_card, complete and nanos <= MAX_NANOS)


BYTES_PER_TOKEN = 4
"""Of UTF-8, roughly, in the languages and data formats that models are used for."""


def estimated_tokens(size: int) -> int:
    """A rough count of the tokens of ``size`` bytes, where nobody counts better."""
    return -(-size // BYTES_PER_TOKEN)


def _add(a: int | None, b: int | None) -> int | None:
    if a is None:
        return b
    return a if b is None else a + b


def sum_usage(items: Iterable[Usage]) -> Usage:
    """The sum. A count stays None only when no item has it; sources that differ make MIXED."""
    total = Usage()
    for item in items:
        if total.source is UsageSource.UNSPECIFIED:
            source = item.source
        elif item.source in (UsageSource.UNSPECIFIED, total.source):
            source = total.source
        else:
            source = UsageSource.MIXED
        total = Usage(
            _add(total.input_tokens, item.input_tokens),
            _add(total.output_tokens, item.output_tokens),
            _add(total.reasoning_tokens, item.reasoning_tokens),
            _add(total.cache_read_tokens, item.cache_read_tokens),
            _add(total.cache_write_tokens, item.cache_write_tokens),
            source,
        )
    return total


def sum_cost(items: Iterable[Cost | None]) -> Cost | None:
    """The sum, or None when nothing was priced. An unpriced item makes the sum incomplete."""
    total: Cost | None = None
    complete = True
    for item in items:
        if item is None:
            complete = False
        elif total is None:
            total = item
        elif item.currency_code != total.currency_code:
            complete = False  # never add apples to pears; the amount stays a lower bound
        else:
            total = bounded_cost(
                total.currency_code,
                total.amount_nanos + item.amount_nanos,
                total.rate_card if total.rate_card == item.rate_card else "",
                complete=total.complete and item.complete,
            )
    if total is None or (complete and total.complete):
        return total
    return Cost(total.currency_code, total.amount_nanos, total.rate_card, complete=False)
