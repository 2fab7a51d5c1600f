"""How the Rust client is built, tested and started. Nothing is written below ``clients/rust`` but Cargo's lock file,
which is not part of the repository.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from scripts.toolchains import COMPILE_SECONDS, ROOT, RUST, program, run

BUF = ROOT / "scripts" / "buf" / "buf"
NO_SYMBOLS = ("--config", "profile.dev.debug=0")
"""They are half of the time of a build, and nobody debugs what is made here."""


def build(cache: Path) -> None:
    """The runner of the conformance set and the example. Raises Missing."""
    run(program("cargo"), "build", *_options(cache), "--examples", cwd=RUST, seconds=COMPILE_SECONDS)
    run(BUF, "build", str(ROOT / "proto"), "-o", str(_contract(cache)))


def runner(cache: Path) -> list[str]:
    """The command that answers cases."""
    return [str(_target(cache) / "debug" / "examples" / "conformance"), str(_contract(cache))]


def example(cache: Path) -> list[str]:
    """The command that asks; an address and a question go behind it."""
    return [str(_target(cache) / "debug" / "examples" / "ask")]


def unit_tests(cache: Path) -> list[str]:
    """The command that tests what needs no server."""
    return [program("cargo"), "test", "--manifest-path", str(RUST / "Cargo.toml"), *_options(cache)]


def lint(cache: Path) -> list[list[str]]:
    """The commands that look at the code alone."""
    manifest = ("--manifest-path", str(RUST / "Cargo.toml"))
    strict = ("--", "-D", "warnings")
    return [
        [program("cargo"), "fmt", *manifest, "--check"],
        [program("cargo"), "clippy", *manifest, *_options(cache), "--all-targets", *strict],
    ]


def _options(cache: Path) -> tuple[str, ...]:
    return ("--target-dir", str(_target(cache)), *NO_SYMBOLS)


def _target(cache: Path) -> Path:
    """One for each checkout: Cargo names what it makes by the package, and goes by the age of files alone."""
    return cache / f"target-{hashlib.sha256(bytes(ROOT)).hexdigest()[:8]}"


def _contract(cache: Path) -> Path:
    return _target(cache) / "turnwire-v1.binpb"
