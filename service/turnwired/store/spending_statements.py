"""The statements of totals of spending, beside those of runs and logs. Knows no driver and runs nothing."""

from __future__ import annotations

from typing import Any

from sqlalchemy import CTE, Executable, and_, bindparam, case, delete, exists, insert, literal_column, select, update
from sqlalchemy.types import BigInteger, Integer, String, TypeEngine

from turnwired.store.port import SpendingScope
from turnwired.store.rules import MOST_SPENT
from turnwired.store.schema import spending
from turnwired.store.statements import Rows

_ONE = literal_column("1", Integer)
_MOST = literal_column(str(MOST_SPENT), BigInteger)
_KEY = ("tenant", "scope", "name", "unit")
_COLUMNS: tuple[tuple[str, TypeEngine[Any]], ...] = (*((name, String()) for name in _KEY), ("amount", BigInteger()))


def _add(given: CTE) -> Executable:
    there = exists(_ONE).where(*(spending.c[name] == given.c[name] for name in _KEY))
    rows = select(*(given.c[name] for name in (*_KEY, "amount"))).where(given.c.tenant.is_not(None), ~there)
    return insert(spending).from_select([*_KEY, "amount"], rows, include_defaults=False)


def _raise(given: CTE) -> Executable:
    over = spending.c.amount > _MOST - given.c.amount
    return (
        update(spending)
        .values(amount=case((over, _MOST), else_=spending.c.amount + given.c.amount))
        .where(and_(*(spending.c[name] == given.c[name] for name in _KEY)))
    )


RAISE_TOTALS = Rows("raise_totals", _COLUMNS, _raise)
"""Totals that are there, raised by what is given; each may be given once."""
ADD_TOTALS = Rows("add_totals", _COLUMNS, _add)
"""Totals that are not there yet: after those that are were raised."""

_tenant = bindparam("tenant", type_=String)
SPENT = select(spending.c.unit, spending.c.amount).where(
    spending.c.tenant == _tenant,
    spending.c.scope == bindparam("scope", type_=String),
    spending.c.name == bindparam("name", type_=String),
)
FORGET_SESSION = delete(spending).where(
    spending.c.tenant == _tenant,
    spending.c.scope == literal_column(f"'{SpendingScope.SESSION.value}'", String),
    spending.c.name == bindparam("session_id", type_=String),
)
"""A session's totals, which go with it."""

ALL_ROWS = (ADD_TOTALS, RAISE_TOTALS)
BY_KEY = (SPENT, FORGET_SESSION)
