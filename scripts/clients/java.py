"""How the Java client is built, tested and started: by Maven, outside the tree."""

from __future__ import annotations

import hashlib
from pathlib import Path

from scripts.toolchains import COMPILE_SECONDS, JAVA, ROOT, Missing, program, run

SOURCES = ("src", "conformance", "examples")
STRICT = ("-Xlint:all", "-Xdoclint:all/protected", "-Werror", "-proc:none")


def build(cache: Path) -> None:
    """The client, the runner and the example as classes, and a file with the class path. Raises Missing."""
    mark, sources = _target(cache) / "built", _digest()
    if mark.exists() and mark.read_text(encoding="utf-8") == sources:
        return
    listing = f"-Dmdep.outputFile={_class_path(cache)}"
    goals = ("test-compile", "dependency:build-classpath")
    program("javac")  # a JRE alone has none
    maven = (program("mvn"), "-B", "-q", f"-Doutput={_target(cache)}", listing, *goals)
    try:
        run(*maven, "--offline", cwd=JAVA, seconds=COMPILE_SECONDS)
    except Missing:  # something has not been fetched yet
        run(*maven, cwd=JAVA, seconds=COMPILE_SECONDS)
    mark.write_text(sources, encoding="utf-8")


def runner(cache: Path) -> list[str]:
    """The command that answers cases."""
    return _java(cache, "dev.turnwire.conformance.Main")


def example(cache: Path) -> list[str]:
    """The command that asks; an address and a question go behind it."""
    return _java(cache, "dev.turnwire.examples.Ask")


def unit_tests(cache: Path) -> list[str]:
    """The command that tests what needs no Turnwire server, of what was built: others may be running that."""
    return [program("mvn"), "-B", "-f", str(JAVA / "pom.xml"), f"-Doutput={_target(cache)}", "surefire:test"]


def reports(cache: Path) -> list[Path]:
    """What the last run of the tests came to, for each class of them."""
    return sorted((_target(cache) / "surefire-reports").glob("TEST-*.xml"))


def lint(cache: Path) -> list[list[str]]:
    """The compiler at its strictest, for what is written by hand: warnings and missing documentation are errors."""
    mine = sorted(path for part in ("src/main", "src/test", *SOURCES[1:]) for path in (JAVA / part).rglob("*.java"))
    return [[*compiler(cache, _target(cache) / "lint"), *STRICT, *map(str, mine)]]


def compiler(cache: Path, out: Path) -> list[str]:
    """The command that compiles against the client; sources go behind it."""
    return [program("javac"), "--release", "17", "-encoding", "UTF-8", "-d", str(out), "-cp", _paths(cache)]


def _java(cache: Path, main: str) -> list[str]:
    # It starts faster so, and none of these programs lives long enough for more.
    return [program("java"), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", _paths(cache), main]


def _paths(cache: Path) -> str:
    target = _target(cache)
    return f"{target / 'classes'}:{target / 'test-classes'}:{_class_path(cache).read_text(encoding='utf-8').strip()}"


def _digest() -> str:
    """Of all that a build is made of."""
    paths = [JAVA / "pom.xml", *(path for part in SOURCES for path in (JAVA / part).rglob("*.java"))]
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(bytes(path.relative_to(JAVA)) + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _target(cache: Path) -> Path:
    """One for each checkout: Maven goes by the age of files."""
    return cache / f"target-{hashlib.sha256(bytes(ROOT)).hexdigest()[:8]}"


def _class_path(cache: Path) -> Path:
    return _target(cache) / "class-path"
