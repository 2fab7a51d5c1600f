"""Builds the clients of all languages, looks at their code, tests them, plays the conformance set, and tells.

``--only Go`` is for one language. A language whose toolchain is missing is said and passed over, unless it is named or
``CI`` is set. What is built and fetched is kept below the user's cache directory.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from scripts.clients import results
from scripts.clients.languages import LANGUAGES, cache_of
from scripts.toolchains import Missing

SECONDS = 900.0


def said(name: str, what: str, began: float) -> None:
    """A line of progress."""
    print(f"{name}: {what}, {time.monotonic() - began:.0f} s", flush=True)


def ran(name: str, what: str, command: list[str]) -> bool:
    """Run a command to its end; what it wrote is shown if it failed."""
    began = time.monotonic()
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    said(name, f"{what} {'ok' if ended.returncode == 0 else 'FAILED'}", began)
    if ended.returncode:
        print(ended.stdout[-4000:], ended.stderr[-4000:], sep="\n", flush=True)
    return ended.returncode == 0


def built(name: str, *, needed: bool) -> bool | None:
    """Build a language; None when it cannot be had here and need not be."""
    began = time.monotonic()
    try:
        LANGUAGES[name].build(cache_of(name))
    except Missing as error:
        print(f"{name}: not built: {error}", flush=True)
        return False if needed else None
    said(name, "built", began)
    return True


def main() -> int:
    """1 when something failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=LANGUAGES, help="this language, and fail when it cannot be built")
    only = parser.parse_args().only
    asked = [only] if only else list(LANGUAGES)
    made = {name: built(name, needed=bool(only or os.environ.get("CI"))) for name in asked}
    fine = False not in made.values()
    names = [name for name in asked if made[name]]
    for name in names:
        language, cache = LANGUAGES[name], cache_of(name)
        for command in language.lint(cache):
            fine = ran(name, f"{Path(command[0]).name} {command[1]}", command) and fine
        fine = ran(name, "unit tests", language.unit_tests(cache)) and fine
    tests = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "worksteal", str(ROOT / "tests" / "clients")]
    os.environ["TURNWIRE_CLIENTS"] = ",".join(names)
    os.environ["TURNWIRE_COMPILED"] = "" if only else "Kotlin"
    began = time.monotonic()
    fine = subprocess.run(tests, timeout=2 * SECONDS, check=False).returncode == 0 and fine
    said(", ".join(names), "conformance set and examples", began)
    if names == list(LANGUAGES) and results.write():
        print("The table of the README has changed: commit it.")
        fine = fine and not os.environ.get("CI")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
