"""What a run has used and what it cost, attempt by attempt. Counts failed attempts: what was spent is spent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from turnwired.domain.usage import INEXACT, Cost, Usage, UsageSource, estimated_tokens, sum_cost, sum_usage


def spent_usage(reported: Usage | None, input_tokens: int | None, written: int, *, cut: bool) -> Usage | None:
    """What an attempt used, as far as it is known. ``written`` are the bytes of its output.

    Without a report it is estimated, if the size of the input is known. What was reported before an answer was ``cut``
    can lack some of the output, and is then no exact number either. A count that a report lacks is estimated.
    """
    if reported is None:
        if input_tokens is None:
            return None
        return Usage(input_tokens, estimated_tokens(written), source=UsageSource.ESTIMATED)
    if reported.input_tokens is None or reported.output_tokens is None:
        lacks_input, output = reported.input_tokens is None, reported.output_tokens
        reported = replace(
            reported,
            input_tokens=input_tokens if lacks_input else reported.input_tokens,
            output_tokens=estimated_tokens(written) if output is None else output,
            source=UsageSource.MIXED,
        )
    if not cut or not written:
        return reported
    output = max(reported.output_tokens or 0, estimated_tokens(written))
    return replace(reported, output_tokens=output, source=UsageSource.MIXED)


class Ledger:
    """Usage and cost of one run. ``price`` is pure: usage and nanoseconds to cost, None when there is no price."""

    def __init__(self, price: Callable[[Usage, int], Cost | None]) -> None:
        self._price = price
        self._usages: list[Usage] = []
        self._costs: list[Cost | None] = []

    def charge(self, usage: Usage | None, duration_ns: int, *, spent: bool) -> Cost | None:
        """Count one attempt and give its cost; ``spent`` that has no price makes the run's cost a lower bound."""
        if usage is not None:
            self._usages.append(usage)
        elif not spent:
            return None
        cost = self._price(usage or Usage(), duration_ns)
        by_time = cost == self._price(Usage(), duration_ns)  # and so exact, whoever counted the tokens
        if cost is not None and usage is not None and usage.source in INEXACT and not by_time:
            cost = replace(cost, complete=False)
        self._costs.append(cost)
        return cost

    def charged(self, usage: Usage, cost: Cost | None, *, spent: bool) -> None:
        """Count an attempt that was charged before this ledger began."""
        self._usages.append(usage)
        if spent:
            self._costs.append(cost)

    def usage(self) -> Usage:
        """The sum of all attempts."""
        return sum_usage(self._usages)

    def cost(self) -> Cost | None:
        """The sum of all attempts, None when nothing was priced."""
        return sum_cost(self._costs)
