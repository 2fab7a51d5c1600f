"""What a model call may cost before it is made, from the price of its model alone: tokens and, on own hardware, time.

A price is taken for a line over the output: so are all rates there are, for a given input. Knows no account.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from turnwired.domain.errors import FieldViolation, InvalidRequest
from turnwired.domain.failure import Reason
from turnwired.domain.usage import Cost, Usage
from turnwired.policy.budgets import TOKENS, Budget

PriceFn = Callable[[Usage, int], Cost | None]
MANY = 1_000_000
SECOND = 10**9
LEAST_SECONDS = 1.0
"""A call that could not run as long is not made."""
LONGEST_SECONDS = 600.0
"""For which a call is reserved at most where its time is not bounded."""
UNLIMITED = 2**62


class Pricing:
    """Costs of one model in billionths of its currency. ``longest``: seconds that a call may take at most."""

    def __init__(self, price: PriceFn, longest: float | None = None) -> None:
        self._price = price
        self._longest = LONGEST_SECONDS if longest is None else longest
        self._per_many_output = self._nanos(0, MANY) - self._nanos(0, 0)
        self._per_many_input = self._nanos(MANY, 0) - self._nanos(0, 0)
        self._per_second = self._nanos(0, 0, SECOND) - self._nanos(0, 0)
        self._input = (-1, 0)

    @property
    def currency(self) -> str | None:
        """The currency of the price, None when the model has none."""
        cost = self._price(Usage(1, 1), SECOND)
        return None if cost is None else cost.currency_code

    def _nanos(self, input_tokens: int, output: int, duration_ns: int = 0) -> int:
        cost = self._price(Usage(input_tokens, output), duration_ns)
        return 0 if cost is None else cost.amount_nanos

    def input_cost(self, tokens: int) -> int:
        """What so many tokens of input add."""
        return -(-tokens * self._per_many_input // MANY)

    def output_cost(self, tokens: int) -> int:
        """What so many tokens of output add."""
        return -(-tokens * self._per_many_output // MANY)

    def call_cost(self, input_tokens: int, output: int, seconds: float | None) -> int:
        """A whole call. Prices may depend on how large the input is, so that is asked for as it is."""
        if self._input[0] != input_tokens:
            self._input = input_tokens, self._nanos(input_tokens, 0)
        time = 0 if seconds is None else int(seconds * self._per_second) + 1
        return self._input[1] + self.output_cost(output) + time

    def least_cost(self, input_tokens: int, output: int) -> int:
        """A whole call that takes no longer than the least it must be able to."""
        return self.call_cost(input_tokens, output, LEAST_SECONDS if self._per_second else None)

    def affordable_output(self, nanos: int) -> int:
        """How many tokens of output an amount is good for, negative when it is none."""
        if not self._per_many_output:
            return UNLIMITED if nanos >= 0 else -UNLIMITED
        return nanos * MANY // self._per_many_output

    def affordable(self, input_tokens: int, nanos: int) -> int:
        """How many tokens of output there can be beside this input and some time."""
        left = nanos - self.least_cost(input_tokens, 0)
        if self._per_second and self._per_many_output and left > 0:
            left //= 2  # the other half is for the time that they take
        return self.affordable_output(left)

    def affordable_seconds(self, input_tokens: int, output: int, nanos: int) -> float | None:
        """How long a call may take, None where time costs nothing."""
        if not self._per_second:
            return None
        left = nanos - self.call_cost(input_tokens, output, None)
        return max(0.0, min(self._longest, left / self._per_second))


def require_measurable(budgets: Sequence[Budget], price: PriceFn, prefix: str) -> None:
    """Raise InvalidRequest (LIMIT_NOT_MEASURABLE) for budgets of money that the model's price cannot be held against.

    ``prefix`` leads to the policy, such as ``turn.policy``.
    """
    money = [budget for budget in budgets if budget.unit != TOKENS]
    if not money:
        return
    currency = Pricing(price).currency
    found: list[FieldViolation] = []
    for budget in money:
        if currency is None:
            what = (
                "cannot be measured: the model has no price. Set one (providers.<name>.prices), or bound tokens instead"
            )
        elif currency != budget.unit:
            what = f"cannot be measured: it is in {budget.unit} and the model's price is in {currency}"
        else:
            continue
        found.append(FieldViolation(f"{prefix}.{budget.path}", what))
    if found:
        raise InvalidRequest(found, Reason.LIMIT_NOT_MEASURABLE)
