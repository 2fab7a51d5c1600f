"""Identifiers: unique, of the contract's form, and in the order of their time."""

from __future__ import annotations

import re

from turnwired.engine.ids import new_message_ids, new_run_id


def test_ids_made_together_are_as_many_as_asked_for_and_all_different() -> None:
    ids = [*new_message_ids(1000), *new_message_ids(1)]
    assert len(set(ids)) == 1001
    assert all(re.fullmatch(r"msg_[0-9a-f]{32}", message_id) for message_id in ids)
    assert list(new_message_ids(0)) == []


def test_ids_made_together_share_nothing_but_their_time() -> None:
    first, second = new_message_ids(2)
    assert first[:16] == second[:16], "msg_ and the milliseconds"
    assert len(set(zip(first[16:], second[16:], strict=True))) > 4, "the rest is random in each"


def test_a_run_id_has_the_form_of_the_contract() -> None:
    assert re.fullmatch(r"run_[0-9a-f]{32}", new_run_id())
