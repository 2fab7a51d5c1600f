"""Writes the code of the clients that is generated from ``proto/`` and committed; ``--check`` writes nothing.

Needs buf (``make buf``) and the toolchain of the language. One that is missing is said and passed over, unless it is
named (``--only go``).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from scripts.toolchains import (
    GO,
    JAVA,
    RUST,
    TYPESCRIPT,
    Missing,
    go_plugins,
    java_plugins,
    node_modules,
    run,
    rust_plugins,
)

BUF = ROOT / "scripts" / "buf" / "buf"
TARGETS = {
    "go": GO / "turnwire",
    "java": JAVA / "src" / "generated" / "java",
    "rust": RUST / "src" / "turnwire",
    "typescript": TYPESCRIPT / "src" / "turnwire",
}


def _plugins_of_go(out: Path) -> list[dict[str, object]]:
    place = go_plugins()
    return [
        {"local": str(place / name), "out": str(out), "opt": ["module=turnwire.dev/go"]}
        for name in ("protoc-gen-go", "protoc-gen-go-grpc")
    ]


def _plugins_of_java(out: Path) -> list[dict[str, object]]:
    place, below = java_plugins(), str(out / "turnwire")
    return [
        {"protoc_builtin": "java", "protoc_path": str(place / "protoc"), "out": below},
        {"local": str(place / "protoc-gen-grpc-java"), "out": below, "opt": ["@generated=omit"]},
    ]


LARGE = ".turnwire.v1.RunEvent.event."
RUST_BOXED = (
    *(
        "approval_requested",
        "attachment_updated",
        "compaction_finished",
        "iteration_finished",
        "iteration_retry_scheduled",
    ),
    *("iteration_started", "part_finished", "run_finished", "run_started", "tool_call_finished"),
)
"""Events of 240 bytes and more. Else each event, a delta of a few letters too, would have the 1.3 kB of the largest."""


def _plugins_of_rust(out: Path) -> list[dict[str, object]]:
    place = rust_plugins()
    return [
        {
            "local": str(place / "protoc-gen-prost"),
            "out": str(out),
            "opt": [f"boxed={LARGE}{case}" for case in RUST_BOXED],
        },
        # The stubs of a client: a server's would bring a web framework along.
        {"local": str(place / "protoc-gen-tonic"), "out": str(out), "opt": ["no_server"]},
    ]


def _plugins_of_typescript(out: Path) -> list[dict[str, object]]:
    plugin = node_modules() / ".bin" / "protoc-gen-es"
    return [{"local": str(plugin), "out": str(out), "opt": ["target=ts", "import_extension=js"]}]


LANGUAGES: dict[str, Callable[[Path], list[dict[str, object]]]] = {
    "go": _plugins_of_go,
    "java": _plugins_of_java,
    "rust": _plugins_of_rust,
    "typescript": _plugins_of_typescript,
}


def wanted(language: str) -> dict[Path, bytes]:
    """The files as they should be, by their paths below the package ``turnwire``. Raises Missing."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory)
        template = json.dumps({"version": "v2", "plugins": LANGUAGES[language](out)})
        run(BUF, "generate", str(ROOT / "proto"), "--template", template)
        top = out / "turnwire"
        return {path.relative_to(top): path.read_bytes() for path in sorted(top.rglob("*")) if path.is_file()}


def update(language: str, *, check: bool) -> list[str]:
    """Write what has changed, unless ``check``; the names of it. Raises Missing."""
    target = TARGETS[language]
    want = wanted(language)
    have = {path.relative_to(target): path.read_bytes() for path in target.rglob("*") if path.is_file()}
    changed = sorted(name for name in want.keys() | have.keys() if want.get(name) != have.get(name))
    for name in () if check else changed:
        if name in want:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes(want[name])
        else:
            (target / name).unlink()
    return [str(name) for name in changed]


def main() -> int:
    """Writes or compares; 1 when ``--check`` finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when something would change")
    parser.add_argument("--only", choices=sorted(LANGUAGES), help="this language, and fail when it cannot be generated")
    given = parser.parse_args()
    different = False
    for language in [given.only] if given.only else LANGUAGES:
        try:
            changed = update(language, check=given.check)
        except Missing as error:
            print(f"{language}: not generated: {error}", file=sys.stderr)
            if given.only:
                return 2
            continue
        different = different or bool(changed)
        for name in changed if given.check else ():
            print(f"not up to date: {TARGETS[language].relative_to(ROOT) / name}", file=sys.stderr)
        print(f"{language}: {len(changed)} files {'differ' if given.check else 'changed'}")
    return 1 if given.check and different else 0


if __name__ == "__main__":
    sys.exit(main())
