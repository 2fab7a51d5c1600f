"""Finds the shared corpus of recorded provider exchanges; the repository does not contain it."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

ABSENT = "the shared corpus of recorded exchanges is not here (set TURNWIRE_SHARED to the folder that has corpus/)"


def folder() -> Path | None:
    """The corpus folder, if it is here."""
    shared = os.environ.get("TURNWIRE_SHARED")
    root = Path(shared) if shared else Path(__file__).resolve().parents[3] / "shared"
    found = root / "corpus"
    return found if found.is_dir() else None


@cache
def cases(wire: str) -> dict[str, dict[str, Any]]:
    """All cases of a wire by their id; empty when the corpus is absent."""
    found = folder()
    if found is None:
        return {}
    loaded = {path.stem: json.loads(path.read_text()) for path in sorted(found.glob("*.json"))}
    return {name: case for name, case in loaded.items() if case.get("wire") == wire}
