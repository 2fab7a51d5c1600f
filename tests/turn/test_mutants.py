"""The tests of the turn machine notice the faults that scripts/mutants.py seeds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "mutants.py"
SECONDS = 900
"""It takes about 100 s of processor time: under a minute on two idle cores, minutes on busy ones."""


@pytest.mark.requirement("TURN-28")
@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 30)
@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_every_seeded_fault_is_noticed_and_most_by_the_property_tests_alone() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
