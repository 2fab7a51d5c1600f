"""Whether searching for a regular expression takes little time in any text. Knows no error and no provider.

Python's matcher backtracks, so a pattern may take time that is exponential in its own length or cubic in the text's.
What passes here takes at most some tenths of a second in ``MAX_TEXT`` characters; some harmless patterns do not pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_TEXT = 1000
"""Characters of a text in which patterns are searched for."""
MAX_PATTERN = 500
MOST_CHOICES = 10
"""Optional pieces and bars within groups in one alternative without a repeat: each may double the time."""
MOST_CHOICES_BESIDE_A_REPEAT = 4

RULE = (
    f"takes a regular expression of at most {MAX_PATTERN} characters; each alternative may have one of * + {{}} and "
    f"{MOST_CHOICES_BESIDE_A_REPEAT} optional pieces or bars in groups beside it, or {MOST_CHOICES} of these alone, "
    "and no group may repeat"
)


@dataclass(slots=True)
class _Alternative:
    """What one alternative at the top of a pattern can do."""

    choices: int = 0
    repeats: int = 0
    repeated_group: bool = False

    @property
    def is_quick(self) -> bool:
        most = MOST_CHOICES_BESIDE_A_REPEAT if self.repeats else MOST_CHOICES
        return not self.repeated_group and self.repeats <= 1 and self.choices <= most


def is_quick(pattern: str) -> bool:
    """Whether a text is a regular expression for which searching is quick."""
    if len(pattern) > MAX_PATTERN or not all(item.is_quick for item in _alternatives(pattern)):
        return False
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _alternatives(pattern: str) -> list[_Alternative]:
    found = [_Alternative()]
    depth = 0
    before = ""
    for sign in _signs(pattern):
        match sign:
            case "(":
                depth += 1
            case ")":
                depth -= 1
            case "|" if depth <= 0:
                found.append(_Alternative())
            case "|":
                found[-1].choices += 1
            case "?" if before != "(":  # "(?" begins a special group
                found[-1].choices += 1
            case "*" | "+" | "{":
                found[-1].repeats += 1
                found[-1].repeated_group |= before == ")"
            case _:
                pass
        before = sign
    return found


def _signs(pattern: str) -> Iterator[str]:
    """The characters that may mean something; "" for a character class or an escaped one."""
    position = 0
    while position < len(pattern):
        sign = pattern[position]
        if sign == "\\":
            position += 2
            yield ""
        elif sign == "[":
            end = pattern.find("]", position + 2)  # a bracket in the first place is a member
            position = len(pattern) if end < 0 else end + 1
            yield ""
        else:
            position += 1
            yield sign
