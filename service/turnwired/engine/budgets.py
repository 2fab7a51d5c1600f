"""What is spent and reserved of every budget in use: one book for the engine, one purse for each run that has budgets.

All that decides is synchronous, so that a reservation is atomic over all its accounts, whatever runs beside. Totals of
sessions and of a tenant's day are the store's, where each run adds what it spent as it settles; here is what the live
runs have spent beyond that. A run without budgets has no purse and is no concern of this file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from turnwired.domain.failure import Reason
from turnwired.domain.outcome import LimitTrip, Notice
from turnwired.domain.usage import INEXACT, Cost, Usage
from turnwired.engine.pricing import Pricing
from turnwired.engine.totals import day_of, spending_of, tokens_of
from turnwired.policy.budgets import TOKENS, Budget, BudgetScope, amount_text
from turnwired.store.port import Spending, SpendingScope, Store

MIN_OUTPUT = 16
"""Tokens of answer that a call must be able to give, or it is not made."""
UNKNOWN_OUTPUT = 4096
"""Tokens of answer reserved at a time where nobody knows how long an answer may be."""
LEAST_OVERSHOOT = 32
"""Tokens by which all streams together may pass a budget before they are cut, or this share of it if that is more:"""
OVERSHOOT_SHARE = 50
NEAR_SHARE = 5
"""A call that leaves less than this share of a budget is counted with care before it is made."""

BUDGETS_ESTIMATED = Notice(
    Reason.LIMIT_ESTIMATED,
    "The provider reports no usage, so the budgets of this run are held by estimates: of the request by its size or a "
    "tokenizer, of the answer by its size.",
)


@dataclass(frozen=True, slots=True)
class Spender:
    """Who spends: a run, and whose totals it counts in. ``sessions``: its own, and those of the runs above it."""

    run_id: str
    tenant: str
    session_id: str | None
    create_time_ns: int
    sessions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Key:
    scope: BudgetScope
    tenant: str
    name: str
    unit: str
    stored: SpendingScope | None


@dataclass(slots=True, eq=False)
class _Account:
    """``base``: spent as the store knows it; ``live``: by runs that it does not know of yet; ``reserved``: may be.

    ``changes`` counts runs that began to settle, ``settling`` those that have not ended doing so: while there are any,
    nobody can say whether a total that is read has them in it.
    """

    key: _Key
    base: int = 0
    live: int = 0
    reserved: int = 0
    holders: int = 0
    changes: int = 0
    settling: int = 0

    @property
    def total(self) -> int:
        return self.base + self.live + self.reserved


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """An account that binds a run, and by which budget."""

    account: _Account
    budget: Budget

    @property
    def left(self) -> int:
        return self.budget.limit - self.account.total

    def slack(self, pricing: Pricing) -> int:
        least = LEAST_OVERSHOOT if self.budget.unit == TOKENS else pricing.output_cost(LEAST_OVERSHOOT)
        return max(least, self.budget.limit // OVERSHOOT_SHARE)

    def output(self, pricing: Pricing, amount: int) -> int:
        """How many tokens of output an amount is good for."""
        return amount if self.budget.unit == TOKENS else pricing.affordable_output(amount)


@dataclass(slots=True)
class Hold:
    """What one model call may use. ``told``: the output limit to send, where it is lower than without a budget.

    ``trip`` is the budget that binds first; ``seconds``: how long the call may take, where time has a price.
    """

    input: int
    output: int
    told: int | None
    trip: LimitTrip
    seconds: float | None = None


class Purse:
    """The budgets of one run: its own, and for a child those of its ancestors. One model call at a time."""

    def __init__(
        self, book: BudgetBook, spender: Spender, lines: Sequence[Line], pricing: Pricing, most_output: int | None
    ) -> None:
        self.most_output = most_output
        self.spent: dict[str, int] = {}
        self._book = book
        self._spender = spender
        self._lines = tuple(lines)
        self._pricing = pricing
        self._held: dict[str, int] = {}
        self._exact = True  # as far as this run has spent
        self._settling = self._closed = False

    # --- before a call ------------------------------------------------------------------------------------------------

    def is_near(self, input_tokens: int, most: int | None) -> bool:
        """Whether a call of this size comes near a limit, so that its input should be counted with care.

        Of an answer that may be very long only so much is looked at: most are not.
        """
        output = UNKNOWN_OUTPUT if most is None else min(most, UNKNOWN_OUTPUT)
        return any(
            line.left - self._amount(line, input_tokens, output) < line.budget.limit // NEAR_SHARE
            for line in self._lines
        )

    def reserve(self, input_tokens: int, most: int | None, *, exact: bool) -> Hold | LimitTrip:
        """Reserve input and the most output in every account, or in none and say which budget does not last.

        ``most``: output tokens that the answer may have, None if nobody knows. ``exact``: the provider counted.
        """
        assert not self._held, "one model call at a time"
        least = MIN_OUTPUT if most is None else min(MIN_OUTPUT, most)
        tight, room = self._tightest(input_tokens)
        exact = exact and self._exact and not tight.account.reserved
        if room < least:
            return self._trip(tight, self._amount(tight, input_tokens, least), exact=exact)
        wanted = UNKNOWN_OUTPUT if most is None else most
        output = min(wanted, room)
        seconds = self._seconds(input_tokens, output)
        for unit in {line.budget.unit for line in self._lines}:
            tokens = unit == TOKENS
            self._hold(
                unit, input_tokens + output if tokens else self._pricing.call_cost(input_tokens, output, seconds)
            )
        told = output if (room <= wanted if most is None else room < most) else None
        trip = replace(self._trip(tight, 0, exact=exact), observed=amount_text(tight.budget.unit, tight.budget.limit))
        return Hold(input_tokens, output, told, trip, seconds)

    def _tightest(self, input_tokens: int) -> tuple[Line, int]:
        """The budget that leaves least output beside this input, and how much."""
        found: tuple[Line, int] | None = None
        for line in self._lines:
            if line.budget.unit == TOKENS:
                room = line.left - input_tokens
            else:
                room = self._pricing.affordable(input_tokens, line.left)
            if found is None or room < found[1]:
                found = line, room
        assert found is not None, "a purse has budgets"
        return found

    def _seconds(self, input_tokens: int, output: int) -> float | None:
        """How long the call may take: what is left beside its tokens, where time has a price."""
        left = [line.left for line in self._lines if line.budget.unit != TOKENS]
        return self._pricing.affordable_seconds(input_tokens, output, min(left)) if left else None

    # --- during a call ------------------------------------------------------------------------------------------------

    def more(self, hold: Hold, need: int) -> int:
        """Reserve more output: at least ``need`` and some more if the budgets have it, else what is left of them and
        of the one overshoot that all streams share. Gives what there is.
        """
        room = min(line.output(self._pricing, line.left) for line in self._lines)
        if room < need:
            room = min(line.output(self._pricing, line.left + line.slack(self._pricing)) for line in self._lines)
            room = min(max(0, room), need)
        granted = min(room, max(need, UNKNOWN_OUTPUT // 4))
        self._grow(granted)
        hold.output += granted
        return granted

    def input_is(self, hold: Hold, input_tokens: int, used: int) -> None:
        """The provider has counted the input; ``used`` are the output tokens so far.

        Where it is more than was reserved, less is left for the rest of the answer.
        """
        extra = input_tokens - hold.input
        hold.input = input_tokens
        for unit in self._held:
            self._hold(unit, extra if unit == TOKENS else self._pricing.input_cost(extra))
        over = max(-line.output(self._pricing, line.left) for line in self._lines)
        if over > 0 and (cut := min(over, hold.output - used)) > 0:
            self._grow(-cut)
            hold.output -= cut

    def _grow(self, output: int) -> None:
        for unit in self._held:
            self._hold(unit, output if unit == TOKENS else self._pricing.output_cost(output))

    def cut(self) -> LimitTrip:
        """Why the answer is cut here: whatever came next would be too much."""
        tight = min(self._lines, key=lambda line: line.output(self._pricing, line.left))
        return self._trip(tight, max(0, tight.left + 1), exact=False)

    # --- after a call -------------------------------------------------------------------------------------------------

    def charge(self, usage: Usage, cost: Cost | None) -> None:
        """An attempt has ended: what it used takes the place of what was reserved for it."""
        self.release()
        self._exact = self._exact and usage.source not in INEXACT and (cost is None or cost.complete)
        for line in self._lines:
            line.account.live += self._charged(line.budget.unit, usage, cost)
        for unit in {line.budget.unit for line in self._lines}:
            self.spent[unit] = self.spent.get(unit, 0) + self._charged(unit, usage, cost)

    def _charged(self, unit: str, usage: Usage, cost: Cost | None) -> int:
        if unit == TOKENS:
            return tokens_of(usage)
        return cost.amount_nanos if cost is not None and cost.currency_code == unit else 0

    def spent_below(self, usage: Usage, cost: Cost | None) -> None:
        """A run below ended in an earlier process: stored totals have it, what is this run's alone has not."""
        for line in self._lines:
            if line.account.key.stored is None and line.account.key.name == self._spender.run_id:
                line.account.base += self._charged(line.budget.unit, usage, cost)

    def release(self) -> None:
        """Give back what is reserved."""
        for unit, amount in self._held.items():
            for line in self._lines:
                if line.budget.unit == unit:
                    line.account.reserved -= amount
        self._held.clear()

    def settling(self) -> None:
        """The run is about to be stored with what it spent."""
        if not self._settling:
            self._settling = True
            for line in self._lines:
                line.account.changes += 1
                line.account.settling += 1

    def close(self) -> None:
        """The run has ended: nothing stays reserved, and what it spent is the store's to know. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self.release()
        for line in self._lines:
            account, spent = line.account, self.spent.get(line.budget.unit, 0)
            account.live -= spent
            account.base += spent
            if self._settling:
                account.settling -= 1
            self._book.leave(account)

    @property
    def lines(self) -> tuple[Line, ...]:
        """What binds the run; a child run is bound by it too, beside its own budgets (``BudgetBook.open``)."""
        return self._lines

    def spending(self, usage: Usage, cost: Cost | None) -> tuple[Spending, ...]:
        """What the run adds to stored totals: those of its own, and those of the runs that it is a child of."""
        who = self._spender
        own = spending_of(who.tenant, who.sessions, who.create_time_ns, usage, cost)
        known = {(item.scope, item.name, item.unit) for item in own}
        keys = {line.account.key for line in self._lines}
        return own + tuple(
            Spending(key.tenant, key.stored, key.name, key.unit, amount)
            for key in sorted(keys, key=lambda key: (key.name, key.unit))
            if key.stored is not None
            and (key.stored, key.name, key.unit) not in known
            and (amount := self._charged(key.unit, usage, cost)) > 0
        )

    # --- the accounts -------------------------------------------------------------------------------------------------

    def _hold(self, unit: str, amount: int) -> None:
        self._held[unit] = self._held.get(unit, 0) + amount
        for line in self._lines:
            if line.budget.unit == unit:
                line.account.reserved += amount

    def _amount(self, line: Line, input_tokens: int, output: int) -> int:
        if line.budget.unit == TOKENS:
            return input_tokens + output
        return self._pricing.least_cost(input_tokens, output)

    def _trip(self, line: Line, more: int, *, exact: bool) -> LimitTrip:
        budget = line.budget
        observed = amount_text(budget.unit, line.account.total + more)
        return LimitTrip(budget.path, amount_text(budget.unit, budget.limit), observed, estimated=not exact)


class BudgetBook:
    """All accounts that a live run is bound by. Everything else is in the store, or forgotten."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._accounts: dict[_Key, _Account] = {}

    @property
    def open_accounts(self) -> int:
        """How many accounts live runs use."""
        return len(self._accounts)

    @property
    def reserved(self) -> Mapping[str, int]:
        """What is reserved now by unit, over all accounts."""
        found: dict[str, int] = {}
        for account in self._accounts.values():
            found[account.key.unit] = found.get(account.key.unit, 0) + account.reserved
        return found

    async def open(
        self,
        spender: Spender,
        budgets: Sequence[Budget],
        pricing: Pricing,
        most_output: int | None,
        inherited: Sequence[Line] = (),
    ) -> Purse | None:
        """The purse of a run, None when nothing binds it. Raises StoreError."""
        lines: dict[_Account, Budget] = {}
        for account, budget in [
            *((self._account(self._key(spender, budget)), budget) for budget in budgets),
            *((line.account, line.budget) for line in inherited),
        ]:
            known = lines.get(account)
            if known is None or budget.limit < known.limit:
                lines[account] = budget
        if not lines:
            return None
        for account in lines:
            account.holders += 1
        try:
            for account in lines:
                await self._read(account)
        except BaseException:
            for account in lines:
                self.leave(account)
            raise
        return Purse(self, spender, [Line(*line) for line in lines.items()], pricing, most_output)

    def leave(self, account: _Account) -> None:
        """One run less uses it; the last one closes it."""
        account.holders -= 1
        if not account.holders:
            self._accounts.pop(account.key, None)

    def _key(self, spender: Spender, budget: Budget) -> _Key:
        tenant, unit = spender.tenant, budget.unit
        match budget.scope:
            case BudgetScope.RUN:
                return _Key(budget.scope, tenant, spender.run_id, unit, None)
            case BudgetScope.SESSION:
                if spender.session_id is None:  # a session of this one run
                    return _Key(budget.scope, tenant, spender.run_id, unit, None)
                return _Key(budget.scope, tenant, spender.session_id, unit, SpendingScope.SESSION)
            case BudgetScope.TENANT_DAY:
                return _Key(budget.scope, tenant, day_of(spender.create_time_ns), unit, SpendingScope.DAY)

    def _account(self, key: _Key) -> _Account:
        account = self._accounts.get(key)
        if account is None:
            account = self._accounts[key] = _Account(key)
        return account

    async def _read(self, account: _Account) -> None:
        """Take the store's total, unless a run settled meanwhile that may or may not be in it: the book's own counts
        then, and the next run that begins reads again.
        """
        stored = account.key.stored
        if stored is None:
            return
        before, settling = account.changes, account.settling  # one that ends while this reads may be in it, or not
        amounts = await self._store.spent(account.key.tenant, stored, account.key.name)
        if account.changes == before and not settling and not account.settling:
            account.base = amounts.get(account.key.unit, 0)
