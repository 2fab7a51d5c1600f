"""How the Python client is tested and started. There is nothing to build: it is in the environment of the tests."""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.toolchains import ROOT

PYTHON = ROOT / "clients" / "python"


def build(cache: Path) -> None:
    """Nothing."""
    del cache


def runner(cache: Path) -> list[str]:
    """The command that answers cases."""
    del cache
    return [sys.executable, str(PYTHON / "conformance" / "runner.py")]


def example(cache: Path) -> list[str]:
    """The command that asks; an address and a question go behind it."""
    del cache
    return [sys.executable, str(PYTHON / "examples" / "ask.py")]


def unit_tests(cache: Path) -> list[str]:
    """The command that tests what needs no server."""
    del cache
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(ROOT / "tests" / "client")]


def lint(cache: Path) -> list[list[str]]:
    """None of its own: ``make lint types`` look at all Python code."""
    del cache
    return []
