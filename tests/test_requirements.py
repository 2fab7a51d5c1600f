"""Every behaviour that is required has a test, and every mark on a test names a behaviour that is required."""

from __future__ import annotations

import ast
from collections import Counter
from importlib import import_module
from pathlib import Path

TESTS = Path(__file__).parent
AREAS = sorted(path.stem for path in (TESTS / "requirements").glob("*.py") if path.stem != "__init__")


def required() -> Counter[str]:
    """Every id with the number of times that it is listed."""
    ids: Counter[str] = Counter()
    for area in AREAS:
        ids.update(list(import_module(f"requirements.{area}").REQUIREMENTS))
    return ids


def marked() -> dict[str, list[str]]:
    """Every id that a mark names, with the files that name it."""
    found: dict[str, list[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "requirement":
                for argument in node.args:
                    assert isinstance(argument, ast.Constant), f"{path}: a requirement is named by a plain string"
                    found.setdefault(str(argument.value), []).append(path.name)
    return found


def test_each_required_behaviour_is_listed_once() -> None:
    assert [name for name, times in required().items() if times > 1] == []


def test_each_required_behaviour_has_a_test() -> None:
    assert sorted(set(required()) - set(marked())) == []


def test_each_mark_names_a_required_behaviour() -> None:
    assert {name: files for name, files in marked().items() if name not in required()} == {}
