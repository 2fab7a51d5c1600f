"""How the Kotlin code of the contract is generated, compiled and started: by Maven, outside the tree."""

from __future__ import annotations

from pathlib import Path

from scripts.toolchains import COMPILE_SECONDS, ROOT, program, run

KOTLIN = ROOT / "clients" / "kotlin"


def sources() -> list[bytes]:
    """All that a build is made of."""
    paths = [*KOTLIN.rglob("*.kt"), KOTLIN / "pom.xml", *(ROOT / "proto").rglob("*.proto")]
    return [path.read_bytes() for path in sorted(paths)]


def build(cache: Path) -> None:
    """Messages, stubs and the example as classes, and a file with the class path. Raises Missing."""
    if _class_path(cache).exists():
        return
    listing = f"-Dmdep.outputFile={_class_path(cache)}"
    goals = ("compile", "dependency:build-classpath")
    run(program("mvn"), "-B", "-q", f"-Doutput={cache}", listing, *goals, cwd=KOTLIN, seconds=COMPILE_SECONDS)


def example(cache: Path) -> list[str]:
    """The command that asks; an address and a question go behind it."""
    class_path = f"{cache / 'classes'}:{_class_path(cache).read_text(encoding='utf-8')}"
    return [program("java"), "-cp", class_path, "dev.turnwire.AskKt"]


def _class_path(cache: Path) -> Path:
    return cache / "class-path"
