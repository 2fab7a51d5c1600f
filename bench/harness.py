"""Runs the shared benchmark harness, which compares agent frameworks, with the service as one of its targets.

The harness is copied: nothing is written where it lies. Its own environment is made from ours, by a path file, and
what only its floors need is installed into it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.child import ROOT, environment

TARGETS = "floor_httpx,grpc_relay_co,grpc_service,grpc_service_sqlite"
MEASURES = "lat,deltas,tool,mcp,ptool,conc200,hist10,hist100,hist1000"
FLOORS_NEED = ("httpx",)
RUN_SECONDS = 1800.0


class HarnessFailure(Exception):
    """Why the harness cannot run here, in one sentence."""


def source() -> Path:
    """Where the harness lies. Raises HarnessFailure."""
    shared = Path(os.environ.get("TURNWIRE_SHARED") or ROOT.parent / "shared")
    if not (shared / "bench" / "bench.py").exists():
        raise HarnessFailure(f"no harness in {shared}: TURNWIRE_SHARED names the directory that has bench/")
    return shared / "bench"


def run(out: Path, *, quick: bool, repetitions: int | None) -> int:
    """Copy, complete and run it; its samples go to ``out``. Returns its exit status. Raises HarnessFailure."""
    with tempfile.TemporaryDirectory(prefix="turnwire-harness-") as name:
        folder = Path(name) / "bench"
        shutil.copytree(source(), folder, ignore=shutil.ignore_patterns("venvs", "logs", "results", "__pycache__"))
        (folder / "logs").mkdir()
        for target in ("grpc_service", "grpc_service_sqlite"):
            shutil.copy(ROOT / "bench" / "target.py", folder / "targets" / f"{target}.py")
        python = _environment(folder)
        _generate(folder, python)
        native = _native_client(folder)
        count = repetitions or (1 if quick else 5)
        command = [python, "bench.py", "--targets", TARGETS, "--measures", "lat,deltas,tool" if quick else MEASURES]
        command += ["--reps", str(count), "--out", str(out.resolve() / "harness.json")]
        environ = environment({"TURNWIRE_REPO": str(ROOT), "BENCH_NATIVE": "1" if native else "0"})
        del environ["PYTHONPATH"]  # the harness has a module named as our package
        return subprocess.run(command, cwd=folder, env=environ, timeout=RUN_SECONDS, check=False).returncode  # noqa: S603


def _environment(folder: Path) -> str:
    """A virtual environment that sees our packages, with what the floors need beside them."""
    venv = folder / "venvs" / "base"
    base = getattr(sys, "_base_executable", sys.executable)
    _call([base, "-m", "venv", "--without-pip", str(venv)], folder, "cannot make its environment")
    python = str(venv / "bin" / "python")
    purelib = next((venv / "lib").glob("python3*")) / "site-packages"
    (purelib / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    absent = "import sys, importlib.util as u; print(*[n for n in sys.argv[1:] if u.find_spec(n) is None])"
    found = subprocess.run([python, "-c", absent, *FLOORS_NEED], stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    missing = found.stdout.split()
    if missing:
        beside = Path(sys.executable).with_name("uv")
        uv = str(beside) if beside.exists() else shutil.which("uv")
        if uv is None:
            raise HarnessFailure(f"its floors need {', '.join(missing)}, and there is no uv to install that")
        _call([uv, "pip", "install", "--quiet", "-p", python, *missing], folder, "cannot install what its floors need")
    return python


def _generate(folder: Path, python: str) -> None:
    command = [python, "-m", "grpc_tools.protoc", "-Iproto", "--python_out=proto", "--grpc_python_out=proto"]
    _call([*command, "proto/bench_relay.proto"], folder, "cannot generate the code of its relay")


def _native_client(folder: Path) -> bool:
    """Build the harness's C++ client where that is possible; without it a Python client measures."""
    if shutil.which("g++") is None or shutil.which("pkg-config") is None:
        return False
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "grpc++"],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    if flags.returncode:
        return False
    command = ["g++", "-O2", "-std=c++17", "native/grpcload.cc", "-o", "native/grpcload", *flags.stdout.split()]
    _call(command, folder, "cannot build its native client")
    return True


def _call(command: Sequence[str], folder: Path, failure: str) -> None:
    result = subprocess.run(command, cwd=folder, check=False)  # noqa: S603
    if result.returncode:
        raise HarnessFailure(f"{failure}: {command[0]} ended with {result.returncode}")
