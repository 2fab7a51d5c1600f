"""What a provider says of its end is told only where it cannot be a piece of text or of a key."""

from __future__ import annotations

import pytest

from turnwired.domain.generation import FinishReason
from turnwired.domain.usage import Usage
from turnwired.turn.answer import Answer
from turnwired.turn.ending import OutputCap, of_cut_answer
from turnwired.turn.ids import Ids


@pytest.mark.requirement("HOSTILE-7")
@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("incomplete:max_messages", True),
        ("incomplete:my diary says so", False),
        ("sk-very-Secret-key1", False),
        ("w" * 100, False),
        ("", False),
    ],
)
def test_a_failure_repeats_a_plain_word_of_the_provider_and_no_other(word: str, told: bool) -> None:
    end = of_cut_answer(Answer(Ids("run"), {}), FinishReason.ERROR, word, OutputCap(None), Usage())
    assert end.failure is not None
    assert (f"({word})" in end.failure.message) is told
    assert told or not word or word not in end.failure.message
