"""The budgets that an effective policy sets, as plain numbers, and how amounts are written. Pure; knows no account."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from turnwired.domain.policy import BudgetPolicy, CostLimit, CountLimit, LimitMode
from turnwired.domain.usage import Cost

TOKENS = "tokens"
"""The unit of a budget of tokens; that of money is its currency, by its ISO 4217 code."""
_NANOS = Decimal(10**9)


class BudgetScope(StrEnum):
    """Whose spending a budget bounds."""

    RUN = "RUN"
    SESSION = "SESSION"
    TENANT_DAY = "TENANT_DAY"


@dataclass(frozen=True, slots=True)
class Budget:
    """One budget in force. ``limit`` is in tokens, or in billionths of the currency that ``unit`` names."""

    path: str
    scope: BudgetScope
    unit: str
    limit: int


def budgets_of(policy: BudgetPolicy) -> tuple[Budget, ...]:
    """The budgets of a merged policy, in the order of the contract; none is the default."""
    caps: tuple[tuple[str, BudgetScope, CountLimit | CostLimit | None], ...] = (
        ("budget.max_total_tokens", BudgetScope.RUN, policy.max_total_tokens),
        ("budget.max_cost", BudgetScope.RUN, policy.max_cost),
        ("budget.max_session_tokens", BudgetScope.SESSION, policy.max_session_tokens),
        ("budget.max_session_cost", BudgetScope.SESSION, policy.max_session_cost),
        ("budget.max_tenant_day_tokens", BudgetScope.TENANT_DAY, policy.max_tenant_day_tokens),
        ("budget.max_tenant_day_cost", BudgetScope.TENANT_DAY, policy.max_tenant_day_cost),
    )
    found: list[Budget] = []
    for path, scope, cap in caps:
        if cap is None or isinstance(cap, LimitMode):
            continue
        if isinstance(cap, Cost):
            found.append(Budget(path, scope, cap.currency_code, cap.amount_nanos))
        else:
            found.append(Budget(path, scope, TOKENS, cap))
    return tuple(found)


def amount_text(unit: str, amount: int) -> str:
    """An amount as policies write it: ``1200``, or ``0.25 USD``."""
    if unit == TOKENS:
        return str(amount)
    text = format(Decimal(amount) / _NANOS, "f")
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {unit}"
