"""The book of budgets under any interleaving of runs: limits hold but for one overshoot, and nothing is lost."""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from budgets.kit import PER_TOKEN, used
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from turnwired.domain.generation import (
    FinishReason,
    GenerationStopped,
    ModelItem,
    ReasoningChunk,
    TextChunk,
    ToolArgumentsChunk,
)
from turnwired.domain.outcome import LimitTrip
from turnwired.domain.usage import Usage, estimated_tokens
from turnwired.engine.budgets import BudgetBook, Hold, Purse, Spender
from turnwired.engine.pricing import Pricing
from turnwired.engine.spending import BudgetedCall
from turnwired.policy.budgets import TOKENS, Budget, BudgetScope
from turnwired.store.port import SpendingScope, Store

DAY = 1_796_083_200 * 10**9
PRICING = Pricing(lambda usage, ns: PER_TOKEN.price(usage, ns, "test"))
RUN, SESSION, TENANT_DAY = BudgetScope.RUN, BudgetScope.SESSION, BudgetScope.TENANT_DAY
LIMITS = st.fixed_dictionaries(
    {
        (RUN, TOKENS): st.sampled_from([None, 700, 3000]),
        (RUN, "USD"): st.sampled_from([None, 900_000]),
        (SESSION, TOKENS): st.sampled_from([None, 1500]),
        (SESSION, "USD"): st.sampled_from([None, 2_500_000]),
        (TENANT_DAY, TOKENS): st.sampled_from([2500, 9000, None]),
        (TENANT_DAY, "USD"): st.sampled_from([None, 6_000_000]),
    }
)


class Pause:
    """One turn of the loop."""

    def __await__(self) -> Generator[None, None, None]:
        yield


@dataclass
class Totals:
    """The part of a store that the book reads. A read tells what was there before its pause, or behind it."""

    amounts: dict[tuple[SpendingScope, str], dict[str, int]] = field(default_factory=dict)
    early: bool = True

    async def spent(self, tenant: str, scope: SpendingScope, name: str) -> Mapping[str, int]:
        del tenant
        early, before = self.early, dict(self.amounts.get((scope, name), {}))
        await Pause()
        return before if early else dict(self.amounts.get((scope, name), {}))


@dataclass
class Live:
    """A run with a purse."""

    purse: Purse
    hold: Hold | None = None
    call: BudgetedCall | None = None
    said: int = 0
    spent: list[Usage] = field(default_factory=list)
    settling: bool = False
    committed: bool = False


class Runs(RuleBasedStateMachine):
    """Runs of one tenant that come, call models and go."""

    @initialize(limits=LIMITS)
    def begin(self, limits: dict[tuple[BudgetScope, str], int | None]) -> None:
        self.totals = Totals()
        self.book = BudgetBook(cast(Store, self.totals))
        self.budgets = [
            Budget(f"{scope}.{unit}", scope, unit, limit)
            for (scope, unit), limit in limits.items()
            if limit is not None
        ]
        self.opening: list[Coroutine[Any, Any, Purse | None]] = []
        self.live: list[Live] = []
        self.runs = 0

    def some(self, **wanted: object) -> list[Live]:
        """The runs that are so."""
        found = [run for run in self.live if run.settling == wanted.get("settling", False)]
        if "calling" in wanted:
            found = [run for run in found if (run.hold is not None) == wanted["calling"]]
        return found

    @precondition(lambda self: len(self.live) + len(self.opening) < 4)
    @rule(session=st.sampled_from(["a", "a", "b", None]), early=st.booleans(), child=st.booleans(), data=st.data())
    def a_run_comes(self, session: str | None, early: bool, child: bool, data: st.DataObject) -> None:
        self.runs += 1
        self.totals.early = early
        own = () if session is None else (session,)
        spender = Spender(f"run_{self.runs}", "t", session, DAY, own)
        parents = self.some()
        lines = data.draw(st.sampled_from(parents)).purse.lines if child and parents else ()
        self.opening.append(self.book.open(spender, self.budgets, PRICING, None, lines))
        self.go_on(len(self.opening) - 1)

    @precondition(lambda self: self.opening)
    @rule(data=st.data())
    def a_read_ends(self, data: st.DataObject) -> None:
        self.go_on(data.draw(st.integers(0, len(self.opening) - 1)))

    def go_on(self, place: int) -> None:
        try:
            self.opening[place].send(None)
        except StopIteration as end:
            del self.opening[place]
            if end.value is not None:
                self.live.append(Live(end.value))

    @precondition(lambda self: self.some(calling=False))
    @rule(data=st.data(), size=st.integers(0, 600), most=st.sampled_from([None, 8, 100, 400]))
    def a_call_is_asked_for(self, data: st.DataObject, size: int, most: int | None) -> None:
        run = data.draw(st.sampled_from(self.some(calling=False)))
        before = dict(self.book.reserved)
        hold = run.purse.reserve(size, most, exact=True)
        if isinstance(hold, LimitTrip):
            assert self.book.reserved == before, "a refused call reserved something"
            limit = next(budget for budget in self.budgets if budget.path == hold.policy_path)
            assert hold.observed.split()[0] != hold.limit.split()[0], limit
            return
        run.hold, run.call, run.said = hold, BudgetedCall(run.purse, hold), 0
        for line in run.purse.lines:
            assert line.left >= 0, "more was reserved than there is"
        assert hold.told is None or hold.told <= (hold.told if most is None else most)

    @precondition(lambda self: self.some(calling=True))
    @rule(data=st.data(), sizes=st.lists(st.sampled_from([1, 3, 40, 900, 30_000]), max_size=3), end=st.booleans())
    def a_read_of_the_stream(self, data: st.DataObject, sizes: list[int], end: bool) -> None:
        run = data.draw(st.sampled_from(self.some(calling=True)))
        assert run.call is not None
        kinds = (TextChunk, ReasoningChunk, ToolArgumentsChunk)
        items: list[ModelItem] = [kinds[n % 3](n, "x" * size) for n, size in enumerate(sizes)]
        if end:
            items.append(GenerationStopped(FinishReason.STOP, "stop"))
        taken = run.call.take(items)
        for item in taken:
            match item:
                case TextChunk(text=text) | ReasoningChunk(text=text) | ToolArgumentsChunk(fragment=text):
                    run.said += len(text)
                case _:
                    pass
        if run.call.trip is not None:
            self.over(run)
        else:
            assert list(taken) == items, "cut, and nobody is told"

    @precondition(lambda self: self.some(calling=True))
    @rule(data=st.data(), share=st.sampled_from([1.0, 0.5, 0.0]), reported=st.booleans())
    def a_call_ends(self, data: st.DataObject, share: float, reported: bool) -> None:
        run = data.draw(st.sampled_from(self.some(calling=True)))
        self.over(run, share=share if reported else 1.0)

    def over(self, run: Live, *, share: float = 1.0) -> None:
        """The call is over: an honest provider reports no more than was written."""
        assert run.hold is not None
        output = estimated_tokens(run.said)
        assert output <= run.hold.output, "more was let through than was reserved"
        usage = used(run.hold.input, int(output * share))
        run.purse.charge(usage, PER_TOKEN.price(usage, 0, "test"))
        run.spent.append(usage)
        run.hold = run.call = None

    @precondition(lambda self: self.some(calling=False))
    @rule(data=st.data())
    def a_run_begins_to_settle(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(self.some(calling=False)))
        run.purse.settling()
        run.settling = True

    @precondition(lambda self: any(not run.committed for run in self.some(settling=True)))
    @rule(data=st.data())
    def the_store_has_it(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from([run for run in self.some(settling=True) if not run.committed]))
        run.committed = True
        total = used(sum(u.input_tokens or 0 for u in run.spent), sum(u.output_tokens or 0 for u in run.spent))
        for spent in run.purse.spending(total, PER_TOKEN.price(total, 0, "test")):
            amounts = self.totals.amounts.setdefault((spent.scope, spent.name), {})
            amounts[spent.unit] = amounts.get(spent.unit, 0) + spent.amount

    @precondition(lambda self: any(run.committed for run in self.live))
    @rule(data=st.data())
    def the_run_is_told(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from([run for run in self.live if run.committed]))
        run.purse.close()
        self.live.remove(run)

    @precondition(lambda self: self.some())
    @rule(data=st.data())
    def a_run_dies(self, data: st.DataObject) -> None:
        """Its process goes on: what it had spent stays known to those beside it."""
        run = data.draw(st.sampled_from(self.some()))
        if run.hold is not None:
            self.over(run)
        self.a_run_is_recovered(run)

    def a_run_is_recovered(self, run: Live) -> None:
        run.purse.settling()
        run.settling = True
        run.committed = True
        total = used(sum(u.input_tokens or 0 for u in run.spent), sum(u.output_tokens or 0 for u in run.spent))
        for spent in run.purse.spending(total, PER_TOKEN.price(total, 0, "test")):
            amounts = self.totals.amounts.setdefault((spent.scope, spent.name), {})
            amounts[spent.unit] = amounts.get(spent.unit, 0) + spent.amount

    @invariant()
    def no_limit_is_passed_by_more_than_one_overshoot(self) -> None:
        for run in getattr(self, "live", []):
            for line in run.purse.lines:
                assert line.left >= -line.slack(PRICING), "passed by more than one overshoot"

    @invariant()
    def everything_spent_is_counted_once(self) -> None:
        for run in getattr(self, "live", []):
            for line in run.purse.lines:
                account = line.account
                beside = [other for other in self.live if any(own.account is account for own in other.purse.lines)]
                uncommitted = sum(other.purse.spent.get(account.key.unit, 0) for other in beside if not other.committed)
                stored = account.key.stored
                if stored is None:
                    continue
                known = self.totals.amounts.get((stored, account.key.name), {}).get(account.key.unit, 0)
                assert account.base + account.live == known + uncommitted
                assert account.reserved >= 0

    def teardown(self) -> None:
        for opening in getattr(self, "opening", []):
            opening.close()
        for run in getattr(self, "live", []):
            run.purse.close()
        if hasattr(self, "book"):
            assert self.book.open_accounts == 0, "an account stays open that nobody uses"


@pytest.mark.requirement("BUDGET-16", "BUDGET-8", "BUDGET-9")
def test_any_runs_side_by_side_keep_to_their_budgets() -> None:
    run_state_machine_as_test(Runs, settings=settings(max_examples=150, stateful_step_count=40, deadline=None))
