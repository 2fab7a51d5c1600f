"""Where the compilers of the clients' languages are, and the packages that they need, kept outside the tree.

What is missing is said in one line, and nothing else of the project depends on it. Caches are below the user's cache
directory, by the content of what they are made of, so that two checkouts share them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GO = ROOT / "clients" / "go"
JAVA = ROOT / "clients" / "java"
RUST = ROOT / "clients" / "rust"
TYPESCRIPT = ROOT / "clients" / "typescript"
GO_PLUGINS = (
    "google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12",
    "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2",
)
JAVA_PLUGINS = (
    "com.google.protobuf:protoc:4.36.2:exe:linux-x86_64",
    "io.grpc:protoc-gen-grpc-java:1.79.0:exe:linux-x86_64",
)
"""protoc has the messages. Stubs of an older generator run with a newer library, and the newest is not everywhere."""
RUST_PLUGINS = ("protoc-gen-prost@0.5.0", "protoc-gen-tonic@0.5.0")
SECONDS = 240.0
COMPILE_SECONDS = 600.0
"""A first build of Rust packages, on a machine that has other work too."""


class Missing(Exception):
    """A toolchain is not there, or its packages cannot be had; the text says which."""


def cache(kind: str, *parts: bytes) -> Path:
    """A directory of its own for what these bytes describe."""
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "turnwire" / f"{kind}-{digest}"


def program(name: str) -> str:
    """The path of a program. Raises Missing."""
    found = shutil.which(name)
    if found is None:
        raise Missing(f"{name} is not installed")
    return found


def run(*arguments: str | Path, cwd: Path | None = None, seconds: float = SECONDS, **environment: str) -> None:
    """Run a command of a toolchain. Raises Missing with the end of what it said."""
    ended = subprocess.run(
        arguments,
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if ended.returncode:
        raise Missing(f"{Path(arguments[0]).name} {arguments[1]} failed: {(ended.stderr or ended.stdout)[-600:]}")


def go_plugins() -> Path:
    """A directory with buf's plugins for Go. Raises Missing."""
    go = program("go")
    place = cache("go-plugins", *(plugin.encode() for plugin in GO_PLUGINS))
    for plugin in GO_PLUGINS:
        if not (place / plugin.partition("@")[0].rpartition("/")[2]).exists():
            run(go, "install", plugin, GOBIN=str(place))
    return place


def java_plugins() -> Path:
    """A directory with protoc and its plug-in for stubs of Java. Raises Missing."""
    maven = program("mvn")
    place = cache("java-plugins", *(plugin.encode() for plugin in JAVA_PLUGINS))
    for plugin in JAVA_PLUGINS:
        name = plugin.split(":")[1]
        if not (place / name).exists():
            fetched = (f"-Dartifact={plugin}", f"-DoutputDirectory={place}", "-Dmdep.stripVersion=true")
            run(maven, "dependency:copy", "-B", "-q", *fetched, cwd=JAVA.parent)
            made = place / f"{name}-linux-x86_64.exe"
            made.chmod(0o755)
            made.rename(place / name)
    return place


def rust_plugins() -> Path:
    """A directory with buf's plugins for Rust. Raises Missing."""
    cargo = program("cargo")
    place = cache("rust-plugins", *(plugin.encode() for plugin in RUST_PLUGINS))
    for plugin in RUST_PLUGINS:
        if not (place / "bin" / plugin.partition("@")[0]).exists():
            run(
                *(cargo, "install", "--locked", "--root", place, plugin),
                seconds=COMPILE_SECONDS,
                CARGO_TARGET_DIR=str(place / "target"),
                CARGO_PROFILE_RELEASE_OPT_LEVEL="0",  # they run for a second: not worth an optimised build
            )
    return place / "bin"


def node_modules() -> Path:
    """The packages of the TypeScript client, the compiler and the generator among them. Raises Missing."""
    program("node")
    manifest = (TYPESCRIPT / "package.json").read_bytes()
    place = cache("node", manifest)
    modules = place / "node_modules"
    if not modules.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        # Whole or not at all: another process may be at the same.
        with tempfile.TemporaryDirectory(dir=place.parent) as made:
            (Path(made) / "package.json").write_bytes(manifest)
            quiet = ("--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--engine-strict=false")
            run(program("npm"), "install", *quiet, cwd=Path(made))
            place.mkdir(exist_ok=True)
            with suppress(OSError):
                (Path(made) / "node_modules").rename(modules)
    return modules
