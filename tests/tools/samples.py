"""Functions that the loading tests name."""

from __future__ import annotations


async def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}"


def shout(name: str) -> str:
    """Greet somebody loudly."""
    return f"HELLO {name}"


def untyped(name) -> str:  # type: ignore[no-untyped-def]
    """A function that cannot be a tool."""
    return str(name)


SEVERAL = [greet, shout]
NUMBER = 3
