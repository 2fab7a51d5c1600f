"""The window of a conversation: whole groups, the oldest left out first, what must stay stays, and prefixes hold."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwired.context.history import Cut, History, Piece, cut_to
from turnwired.domain.message import Role

MODEL = "m"
NUMBERS = count()
ROLES = {"s": Role.SYSTEM, "u": Role.USER, "a": Role.ASSISTANT, "t": Role.TOOL}


def pieces(words: str) -> list[Piece]:
    """Messages from words such as ``u10``: a role and its tokens. The bytes are unique."""
    found = []
    for word in words.split():
        piece = Piece(f"{word}#{next(NUMBERS)}".encode(), ROLES[word[0]])
        piece.counted = MODEL, int(word[1:])
        found.append(piece)
    return found


def history(past: str, asked: str = "u1", own: str = "") -> History:
    made = History()
    made.add(pieces(past))
    made.ask(pieces(asked))
    made.add(pieces(own))
    return made


def sent(made: History) -> str:
    return " ".join(data.decode().partition("#")[0] for data in made.sent())


@pytest.mark.requirement("CTX-1")
def test_a_conversation_that_fits_is_sent_whole() -> None:
    made = history("u10 a10 t10 a10", "u10")
    assert made.fit(MODEL, 50)
    assert sent(made) == "u10 a10 t10 a10 u10"
    assert made.cut() is None


@pytest.mark.requirement("CTX-2")
def test_the_oldest_groups_are_left_out_down_to_three_quarters() -> None:
    made = history("u10 a10 t10 a10 u20 a10", "u31")
    assert made.fit(MODEL, 100)
    assert sent(made) == "u20 a10 u31"
    assert made.cut() == Cut(messages=4, tool_groups=1, tokens_before=101, tokens_after=61)
    assert made.cut() is None


@pytest.mark.requirement("CTX-2")
def test_a_call_and_its_results_go_or_stay_together() -> None:
    made = history("u1 a40 t40 a1", "u40")
    assert made.fit(MODEL, 100)
    assert sent(made) == "u40"


@pytest.mark.requirement("CTX-2")
def test_the_window_begins_with_a_message_of_the_user() -> None:
    made = history("u60 a10 t1 a10", "u30")
    assert made.fit(MODEL, 100)
    assert sent(made) == "u30"


@pytest.mark.requirement("CTX-3")
def test_system_messages_and_the_last_message_of_the_user_stay() -> None:
    made = history("s10 u30 a30", "s5 u10", "a30 t10 a30 t10")
    assert made.fit(MODEL, 100)
    assert sent(made) == "s10 s5 u10 a30 t10"


@pytest.mark.requirement("CTX-3")
def test_the_open_group_of_the_run_stays_even_if_it_alone_is_too_much() -> None:
    made = history("", "u10", "a10 t10 a10 t95")
    assert not made.fit(MODEL, 100)
    assert sent(made) == "u10 a10 t95"


@pytest.mark.requirement("CTX-3")
def test_what_the_run_told_its_model_belongs_to_the_turn_that_it_is_about() -> None:
    made = history("u40 a10", "u10", "a30 u15")
    assert made.fit(MODEL, 100)
    assert sent(made) == "u10 a30 u15"


@pytest.mark.requirement("CTX-3")
def test_a_paused_turn_stays_with_the_one_that_goes_on_with_it() -> None:
    made = history("", "u10", "a30 a30 t5 a30 t10")
    assert made.fit(MODEL, 100)
    assert sent(made) == "u10 a30 t10"


@pytest.mark.requirement("CTX-4")
def test_after_a_cut_the_prefix_holds_until_the_limit_is_passed_again() -> None:
    made = history("u30 a30 u30 a5", "u10")
    assert made.fit(MODEL, 100)
    before = made.sent()
    made.add(pieces("a10 t10"))
    assert made.fit(MODEL, 100)
    assert made.sent()[: len(before)] == before
    assert made.cut() is not None
    assert made.cut() is None


@pytest.mark.requirement("CTX-4")
def test_the_next_turn_of_a_session_cuts_at_the_same_place() -> None:
    past = "u30 a30 u30 a5 u10 a5"
    first, second = history(past, "u5"), history(f"{past} u5 a10", "u5")
    assert first.fit(MODEL, 100)
    assert second.fit(MODEL, 100)
    assert sent(first) == "u30 a5 u10 a5 u5"
    assert sent(second) == f"{sent(first)} a10 u5"


@pytest.mark.requirement("CTX-5")
def test_shortening_leaves_out_a_quarter_of_what_was_sent() -> None:
    made = history("u30 a10 u30 a10", "u20")
    assert made.shorten(MODEL)
    assert sent(made) == "u30 a10 u20"
    assert made.learned == 100
    assert made.shorten(MODEL)
    assert not made.shorten(MODEL)
    assert sent(made) == "u20"


SIZES = st.integers(1, 40)
TURN = st.lists(st.one_of(st.just("a"), st.just("at"), st.just("att"), st.just("u")), max_size=4)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[str, str, list[str]]:
    """A past of turns, an input, and what the run adds in steps, each a turn with its results."""
    past = "".join("u" + "".join(draw(TURN)) for _ in range(draw(st.integers(0, 8))))
    asked = draw(st.sampled_from(["u", "uu", "su", "uau"]))
    own = draw(st.lists(st.sampled_from(["at", "att", "au", "a"]), max_size=5))

    def sized(roles: str) -> str:
        return " ".join(f"{role}{draw(SIZES)}" for role in roles)

    return sized(past), sized(asked), [sized(step) for step in own]


def groups_of(made: History) -> list[list[bytes]]:
    """Calls with their results, by a rule of the test's own."""
    found: list[list[bytes]] = []
    for piece in made.pieces:
        if piece.role is Role.TOOL and found:
            found[-1].append(piece.data)
        else:
            found.append([piece.data])
    return found


@pytest.mark.requirement("CTX-2", "CTX-3", "CTX-4")
@given(conversations(), st.integers(20, 200))
def test_whatever_is_left_out_the_request_is_well_formed(drawn: tuple[str, str, list[str]], limit: int) -> None:
    past, asked, own = drawn
    made = history(past, asked)
    asked_last = next(piece.data for piece in reversed(made.pieces) if piece.role is Role.USER)
    kept_before: set[bytes] | None = None
    for step in ["", *own]:
        made.add(pieces(step))
        fits = made.fit(MODEL, limit)
        kept = set(made.sent())
        total = sum(piece.tokens(MODEL) or 0 for piece in made.pieces if piece.data in kept)
        assert fits is (total <= limit)
        assert asked_last in kept, "the question is lost"
        assert made.pieces[-1].data in kept, "the open group is lost"
        for group in groups_of(made):
            assert kept.issuperset(group) or not kept.intersection(group), "a call without its result"
        for piece in made.pieces:
            assert piece.role is not Role.SYSTEM or piece.data in kept, "framing is lost"
        first = next(piece for piece in made.pieces if piece.data in kept and piece.role is not Role.SYSTEM)
        whole = len(kept) == len(made.pieces)
        assert whole or first.role is Role.USER, "it begins with an answer to what is not there"
        if kept_before is not None:
            known = {piece.data for piece in made.pieces[: -len(pieces(step)) or None]}
            assert kept & known <= kept_before, "what was left out came back"
        kept_before = kept


@pytest.mark.requirement("CTX-4")
@given(conversations(), st.integers(40, 200))
def test_a_cut_goes_far_enough_to_last(drawn: tuple[str, str, list[str]], limit: int) -> None:
    past, asked, _ = drawn
    made = history(past, asked)
    made.fit(MODEL, limit)
    cut = made.cut()
    assert cut is None or cut.tokens_before - cut.tokens_after > 0
    if cut is not None and len(made.pieces) > 3:
        assert cut.tokens_after <= max(limit, cut_to(limit) + 40 * 4)
