"""Python processes that a test starts, kills and reads, with the same import path as the test."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    """Run a script in a process of its own, its output piped."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def finish(child: subprocess.Popen[str], seconds: float = 50) -> tuple[int, str, str]:
    """Wait for its end: return code, output, errors. A child that takes longer is killed, and the test fails."""
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise
    return child.returncode, out, err
