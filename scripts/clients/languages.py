"""The languages that have a client: each a module beside this one that says how it is built, tested and started.

A new language is one more module and its line here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from scripts.clients import browser, cpp, go, java, python, rust, typescript
from scripts.toolchains import cache


class Language(Protocol):
    """What a module says. ``cache`` is a directory outside the tree that is kept."""

    # A language may have SPEAKS_HTTP, as ``browser`` does: it is given the URL of the HTTP port, which serves Connect.

    def build(self, cache: Path) -> None:
        """Make the runner and the example. Raises Missing where the toolchain or its packages cannot be had."""
        ...

    def runner(self, cache: Path) -> list[str]:
        """The command that answers cases of the conformance set."""
        ...

    def example(self, cache: Path) -> list[str]:
        """The command that asks; an address and a question go behind it."""
        ...

    def unit_tests(self, cache: Path) -> list[str]:
        """The command that tests what needs no server."""
        ...

    def lint(self, cache: Path) -> list[list[str]]:
        """The commands that look at the code alone."""
        ...


LANGUAGES: dict[str, Language] = {
    "Python": python,
    "Go": go,
    "Java": java,
    "Rust": rust,
    "C++": cpp,
    "TypeScript": typescript,
    "Browser": browser,
}


def cache_of(name: str) -> Path:
    """Where a language keeps what it builds."""
    return cache(name.lower().replace("+", "p"))
