"""How the C++ client is built, tested and started: by CMake, outside the tree."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.toolchains import COMPILE_SECONDS, ROOT, program, run

CPP = ROOT / "clients" / "cpp"
PARTS = ("TESTS", "SANITIZED", "EXAMPLES", "CONFORMANCE")
FORMATTER = "clang-format-14"
"""Another version has another idea of the one format."""


def build(cache: Path) -> None:
    """The library, the runner of the conformance set, the example and the tests. Raises Missing."""
    for needed in ("c++", "ninja", "protoc", "grpc_cpp_plugin"):
        program(needed)
    options = (f"-DTURNWIRE_{part}=ON" for part in PARTS)
    with _alone(cache):
        # No build type: neither optimised nor with symbols, which takes half of the time.
        run(program("cmake"), "-S", CPP, "-B", _place(cache), "-G", "Ninja", "-Wno-dev", *options)
        jobs = str(os.cpu_count() or 1)  # each takes half a gigabyte, and Ninja would have two more
        run(program("cmake"), "--build", _place(cache), "--parallel", jobs, seconds=COMPILE_SECONDS)


def runner(cache: Path) -> list[str]:
    """The command that answers cases."""
    return [str(_place(cache) / "conformance")]


def example(cache: Path) -> list[str]:
    """The command that asks; an address and a question go behind it."""
    return [str(_place(cache) / "ask")]


def unit_tests(cache: Path) -> list[str]:
    """The command that tests what needs no server, as it is and with sanitizers."""
    return [program("ctest"), "--test-dir", str(_place(cache)), "--output-on-failure", "-V"]


def lint(cache: Path) -> list[list[str]]:
    """The commands that look at the code alone; warnings are errors of the build already."""
    del cache
    formatter = shutil.which(FORMATTER)
    files = [str(path) for kind in ("*.h", "*.cc") for path in sorted(CPP.rglob(kind))]
    return [[formatter, "--dry-run", "-Werror", *files]] if formatter else []


def install(cache: Path, place: Path) -> None:
    """Put the headers, the libraries and what CMake finds them by into a directory. Raises Missing."""
    run(program("cmake"), "--install", _place(cache), "--prefix", place)


@contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """Ninja is confused by another of its kind in the same place."""
    _place(cache).mkdir(parents=True, exist_ok=True)
    with (_place(cache) / "alone").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _place(cache: Path) -> Path:
    """One for each checkout: a build goes by the paths and the age of its files."""
    return cache / f"build-{hashlib.sha256(bytes(ROOT)).hexdigest()[:8]}"
