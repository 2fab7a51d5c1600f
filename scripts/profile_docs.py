"""Writes the tables of docs/providers.md from profiles.toml and profiles.py; with ``--check`` only says what is old.

Knows the code of the service and opens no connection. The prose of the page is written by hand.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from turnwired.providers import profiles
from turnwired.providers.profile_values import as_toml, hints_of, takes
from turnwired.providers.profiles import Profile, shipped

PAGE = Path(__file__).parents[1] / "docs" / "providers.md"
_BLOCK = "<!-- {name}: made by scripts/profile_docs.py -->\n"
_END = "<!-- end -->"


def page(text: str) -> str:
    """The page with its tables made anew. Raises ValueError when a table has no place in it."""
    for name, lines in (("profiles", profile_lines()), ("fields", field_lines())):
        before, begin, rest = text.partition(_BLOCK.format(name=name))
        _, end, after = rest.partition(_END)
        if not begin or not end:
            raise ValueError(f"docs/providers.md has no place for the table of {name}")
        text = "".join((before, begin, *(f"{line}\n" for line in lines), end, after))
    return text


def profile_lines() -> list[str]:
    """The shipped profiles."""
    lines = ["| profile | wire | base URL | key | default model |", "| --- | --- | --- | --- | --- |"]
    for profile in shipped().values():
        key = f"`{profile.key_env}`" if profile.key_env else ""
        if profile.sign_in is not profiles.SignIn.KEY:
            key = f"sign-in: {profile.sign_in}"
        elif key and not profile.key_required:
            key += ", optional"
        cells = (
            f"`{profile.name}`",
            f"`{profile.wire}`",
            _cell(f"`{profile.base_url}`") if profile.base_url else "",
            key,
            f"`{profile.models[0]}`" if profile.models else "",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def field_lines() -> list[str]:
    """The fields of a profile, with the words below each in the code."""
    meanings = meanings_of(Profile)
    lines = ["| field | takes | default | meaning |", "| --- | --- | --- | --- |"]
    for item in fields(Profile):
        if item.name not in Profile.settable():
            continue
        words = takes(hints_of(Profile)[item.name]).removeprefix("takes ")
        lines.append(f"| `{item.name}` | {words} | {_default(item)} | {_cell(meanings[item.name])} |")
    return lines


def meanings_of(kind: type[Any]) -> dict[str, str]:
    """The texts below the fields of a dataclass, by field."""
    (tree,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for before, after in zip(tree.body, tree.body[1:], strict=False):
        if not (isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name)):
            continue
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            found[before.target.id] = " ".join(str(after.value.value).split())
    return found


def _default(item: Any) -> str:
    if item.default is not MISSING:
        value = item.default
    elif item.default_factory is not MISSING:
        value = item.default_factory()
    else:
        return "the profile's name" if item.name == "telemetry_name" else "required"
    return "" if value in ("", (), frozenset(), {}) else f"`{as_toml(value)}`"


def _cell(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|")


def main() -> int:
    """Write the page, or say whether it is up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page is old")
    arguments = parser.parse_args()
    old = PAGE.read_text(encoding="utf-8")
    new = page(old)
    if arguments.check:
        return int(new != old)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
