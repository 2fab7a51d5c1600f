"""What the repository must not hold, and the lengths that its files keep to."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Broken in the middle, so that this file does not name what it looks for.
REGISTRIES = [
    name.replace("~", "")
    for name in (
        "py~pi.org",
        "python~hosted.org",
        "registry.npm~js.org",
        "registry.yarn~pkg.com",
        "proxy.go~lang.org",
        "crates~.io",
        "repo1.ma~ven",
        "repo.ma~ven.apache.org",
        "deb.deb~ian.org",
        "ru~bygems.org",
    )
]
FORBIDDEN = {
    "the host of a package registry": re.compile("|".join(map(re.escape, REGISTRIES)), re.IGNORECASE),
    "a path of somebody's machine": re.compile(r"(?<![\w.{}$~-])/(work|root|home/[a-z]|Users/[A-Za-z])[\w.-]*/"),
    "a private key": re.compile("-----BEGIN [A-Z ]*PRIVATE " + "KEY-----"),
    "something like a provider's key": re.compile(r"\bsk-(?:proj-|ant-)?[A-Za-z0-9_]{24,}\b"),
    "a merge that was not finished": re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE),
}
GENERATED = re.compile(r"_pb2(_grpc)?\.pyi?$")
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 80


def tracked() -> list[Path]:
    """Files that are in the repository, or would be after `git add`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=30).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is not a git checkout, so nothing says which files are tracked")
    return [path for name in listed.decode().split("\0") if name and (path := ROOT / name).is_file()]


def texts() -> Iterator[tuple[str, str]]:
    for path in tracked():
        try:
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # an image or the contract's image


def findings(name: str, text: str) -> list[str]:
    return [f"{name}: {what}: {found[0]}" for what, pattern in FORBIDDEN.items() if (found := pattern.search(text))]


@pytest.mark.requirement("TOOLING-1")
def test_no_tracked_file_holds_what_the_repository_must_not_hold() -> None:
    found = [finding for name, text in texts() for finding in findings(name, text)]
    assert found == []


@pytest.mark.requirement("TOOLING-1")
@pytest.mark.parametrize(
    "text",
    [
        f"url = https://{REGISTRIES[0]}/simple",
        f'"resolved": "https://{REGISTRIES[2]}/x.tgz"',
        "open('/" + "home/ann/code/x')",
        "cd /" + "work/main/x",
        "-----BEGIN RSA PRIVATE " + "KEY-----",
        "key = 'sk-" + "a1" * 20 + "'",
        "<" * 7 + " HEAD",
    ],
)
def test_the_patterns_find_what_they_are_for(text: str) -> None:
    assert len(findings("sample", text)) == 1


@pytest.mark.requirement("TOOLING-5")
def test_files_and_functions_stay_within_the_lengths_of_the_house() -> None:
    found: list[str] = []
    for path in tracked():
        if path.suffix != ".py" or GENERATED.search(path.name):
            continue
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(ROOT)
        if (lines := text.count("\n")) > MAX_FILE_LINES:
            found.append(f"{name}: {lines} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MAX_FUNCTION_LINES:
                    found.append(f"{name}:{node.lineno} {node.name}: {length} lines")
    assert found == []
