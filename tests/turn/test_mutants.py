"""The tests of the turn machine notice the faults that scripts/mutants.py seeds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "mutants.py"
EVERY = 30
SECONDS = 900
"""These faults take half a minute on two idle cores, minutes on busy ones; `make mutants` judges them all."""


@pytest.mark.requirement("TURN-28", "REAL-6")
@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 30)
@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_each_thirtieth_seeded_fault_is_noticed() -> None:
    command = [sys.executable, str(SCRIPT), "--turn", "--every", str(EVERY)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.requirement("TURN-28", "REAL-6")
def test_the_table_of_faults_fits_the_code() -> None:
    code = "import mutants; [mutants.faulty_source(each) for each in mutants.MUTANTS]; print(len(mutants.MUTANTS))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=SCRIPT.parent, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 250
