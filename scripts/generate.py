"""Writes the Python code that is generated from ``proto/``; with ``--check`` only says whether it is up to date.

Needs grpcio-tools and mypy-protobuf beside the running interpreter, no network and no other tool. The output is a
function of ``proto/`` and the versions of the two, so that CI can ask for "regenerating leaves no diff". It knows
nothing of the service. The image that ``buf breaking`` compares with is made by buf:
``buf build proto --exclude-source-info -o proto/turnwire-v1.binpb``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import grpc_tools  # type: ignore[import-untyped]  # it ships no types

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
CLIENT = ROOT / "clients" / "python"
PACKAGE = Path("turnwire") / "v1"
SUFFIXES = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")


def generate(out: Path) -> None:
    """Runs protoc over every file of the contract, with output below ``out``. Raises CalledProcessError."""
    files = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))
    # protoc finds its plugins on PATH: those of this interpreter come first.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    subprocess.run(
        [
            *(sys.executable, "-m", "grpc_tools.protoc"),
            *("-I", str(PROTO), "-I", str(Path(grpc_tools.__file__).parent / "_proto")),
            f"--python_out={out}",
            f"--grpc_python_out={out}",
            f"--mypy_out=quiet:{out}",
            f"--mypy_grpc_out=quiet:{out}",
            *files,
        ],
        check=True,
        env={**os.environ, "PATH": path},
        timeout=120,
    )


def generated_files(package: Path) -> dict[str, bytes]:
    """Content of the generated files in a package directory, by name."""
    return {path.name: path.read_bytes() for path in sorted(package.glob("*")) if path.name.endswith(SUFFIXES)}


def has_services(stub: bytes) -> bool:
    """Whether a generated ``_pb2_grpc`` file holds a service; those without are noise in every language."""
    return b"Servicer" in stub


def wanted() -> dict[str, bytes]:
    """The files as they should be."""
    with tempfile.TemporaryDirectory() as directory:
        generate(Path(directory))
        files = generated_files(Path(directory) / PACKAGE)
    empty = {name for name, text in files.items() if name.endswith("_grpc.py") and not has_services(text)}
    return {name: text for name, text in files.items() if name.removesuffix("i") not in empty}


def main() -> int:
    """Writes or compares; 1 when ``--check`` finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when something would change")
    check = parser.parse_args().check
    target = CLIENT / PACKAGE
    want, have = wanted(), generated_files(target)
    changed = sorted(name for name in want.keys() | have.keys() if want.get(name) != have.get(name))
    if check:
        for name in changed:
            print(f"not up to date: {PACKAGE / name} (run scripts/generate.py)", file=sys.stderr)
        return 1 if changed else 0
    target.mkdir(parents=True, exist_ok=True)
    for name in changed:
        if name in want:
            (target / name).write_bytes(want[name])
        else:
            (target / name).unlink()
    print(f"{len(want)} generated files, {len(changed)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
