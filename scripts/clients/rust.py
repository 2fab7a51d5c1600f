"""How the Rust client is built, tested and started. Nothing is written below ``clients/rust`` but Cargo's lock file,
which is not part of the repository.
"""

from __future__ import annotations

from pathlib import Path

from scripts.toolchains import COMPILE_SECONDS, ROOT, RUST, program, run

BUF = ROOT / "scripts" / "buf" / "buf"
NO_SYMBOLS = ("--config", "profile.dev.debug=0")
"""They are half of the time of a build, and nobody debugs what is made here."""


def build(cache: Path) -> None:
    """The runner of the conformance set and the example. Raises Missing."""
    cache.mkdir(parents=True, exist_ok=True)
    run(program("cargo"), "build", *_options(cache), "--examples", cwd=RUST, seconds=COMPILE_SECONDS)
    run(BUF, "build", str(ROOT / "proto"), "-o", str(_contract(cache)))


def runner(cache: Path) -> list[str]:
    """The command that answers cases."""
    return [str(cache / "target" / "debug" / "examples" / "conformance"), str(_contract(cache))]


def example(cache: Path) -> list[str]:
    """The command that asks; an address and a question go behind it."""
    return [str(cache / "target" / "debug" / "examples" / "ask")]


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
    return ("--target-dir", str(cache / "target"), *NO_SYMBOLS)


def _contract(cache: Path) -> Path:
    return cache / "turnwire-v1.binpb"
