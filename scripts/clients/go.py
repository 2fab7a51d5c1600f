"""How the Go client is built, tested and started. Nothing is written below ``clients/go``."""

from __future__ import annotations

from pathlib import Path

from scripts.toolchains import COMPILE_SECONDS, GO, program, run


def build(cache: Path) -> None:
    """The runner of the conformance set and the example. Raises Missing."""
    cache.mkdir(parents=True, exist_ok=True)
    go = program("go")
    run(go, "build", "-o", str(cache), "./conformance", "./examples/ask", cwd=GO, seconds=COMPILE_SECONDS)


def runner(cache: Path) -> list[str]:
    """The command that answers cases."""
    return [str(cache / "conformance")]


def example(cache: Path) -> list[str]:
    """The command that asks; an address and a question go behind it."""
    return [str(cache / "ask")]


def unit_tests(cache: Path) -> list[str]:
    """The command that tests what needs no server."""
    del cache
    return [program("go"), "test", "-C", str(GO), ".", "-race"]


def lint(cache: Path) -> list[list[str]]:
    """The commands that look at the code alone."""
    del cache
    return [[program("go"), "vet", "-C", str(GO), "./..."]]
