"""How the TypeScript client is built, tested and started on Node.js. Nothing is written below its sources."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from scripts.toolchains import TYPESCRIPT, node_modules, program, run


def build(cache: Path) -> None:
    """The runner of the conformance set, the examples and the tests, compiled once for what they are made of.

    Raises Missing.
    """
    modules, package = node_modules(), package_in(cache)
    if (package / "dist").exists():
        return
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(TYPESCRIPT, package, ignore=shutil.ignore_patterns("node_modules", "dist"))
    (package / "node_modules").symlink_to(modules)
    run(package / "node_modules" / ".bin" / "tsc", "--project", package)


def package_in(cache: Path) -> Path:
    """Where the sources as they are now are built, so that two checkouts can share a cache."""
    digest = hashlib.sha256()
    for path in sorted(TYPESCRIPT.rglob("*")):
        if path.is_file() and not {"node_modules", "dist"} & set(path.relative_to(TYPESCRIPT).parts):
            digest.update(str(path.relative_to(TYPESCRIPT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return cache / digest.hexdigest()[:12]


def runner(cache: Path) -> list[str]:
    """The command that answers cases."""
    return [program("node"), str(package_in(cache) / "dist" / "conformance" / "runner.js")]


def example(cache: Path) -> list[str]:
    """The command that asks; an address and a question go behind it."""
    return [program("node"), str(package_in(cache) / "dist" / "examples" / "ask.js")]


def unit_tests(cache: Path) -> list[str]:
    """The command that tests what needs no server."""
    return [program("node"), "--test", str(package_in(cache) / "dist" / "test")]


def lint(cache: Path) -> list[list[str]]:
    """None: the compiler is strict, and has looked at everything that was built."""
    del cache
    return []
