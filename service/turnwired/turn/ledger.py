"""What a run has used and what it cost, attempt by attempt. Counts failed attempts: what was spent is spent."""

from __future__ import annotations

from collections.abc import Callable

from turnwired.domain.usage import Cost, Usage, sum_cost, sum_usage


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
        self._costs.append(cost)
        return cost

    def usage(self) -> Usage:
        """The sum of all attempts."""
        return sum_usage(self._usages)

    def cost(self) -> Cost | None:
        """The sum of all attempts, None when nothing was priced."""
        return sum_cost(self._costs)
