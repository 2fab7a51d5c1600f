"""What may be logged of an unexpected exception: its type and where it was raised, never what it says.

The text of an exception may quote a secret or a prompt, and so may the text of its causes.
"""

from __future__ import annotations

import traceback


def where_raised(error: BaseException) -> str:
    """Types and frames of an exception, its causes and, for a group, its members; without any of their texts."""
    lines: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        name = type(current).__qualname__
        lines += [name, *map(_place, traceback.extract_tb(current.__traceback__))]
        if isinstance(current, BaseExceptionGroup):
            lines += [f"in {name}: {where_raised(member)}" for member in current.exceptions]
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return "\n".join(lines)


def _place(frame: traceback.FrameSummary) -> str:
    return f"  at {frame.filename}:{frame.lineno} in {frame.name}"
