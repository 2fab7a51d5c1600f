"""Who asked for a run is kept with it, by every store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from store.builders import new_run

from turnwired.domain.run import Caller

if TYPE_CHECKING:
    from turnwired.store.port import Store

pytestmark = pytest.mark.anyio

SHOP = Caller("acme", "shop ☂", frozenset(("support", "night shift", '"')))


@pytest.mark.requirement("IDENT-9")
async def test_a_stored_run_has_the_caller_that_asked_for_it(store: Store) -> None:
    created = await store.create_run(replace(new_run("r1"), caller=SHOP))
    plain = await store.create_run(new_run("r2", tenant="acme"))
    assert (created.run.caller, plain.run.caller) == (SHOP, Caller("acme"))
    read = [await store.get_run("acme", run_id) for run_id in ("r1", "r2")]
    assert [run and run.caller for run in read] == [SHOP, Caller("acme")]
    taken = await store.take_over_unfinished()
    assert {run.run_id: run.caller for run in taken} == {"r1": SHOP, "r2": Caller("acme")}
