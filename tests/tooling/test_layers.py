"""The layers are enforced: each contract breaks when a module imports what it forbids."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS: list[dict[str, object]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "importlinter"
]["contracts"]
# For each contract a package, and what a new module in it imports.
OFFENCES = {
    "layers": ("engine", "turnwired.rpc"),
    "domain": ("domain", "turnwired.policy"),
    "turn": ("turn", "asyncio"),
    "policy": ("context", "turnwired.codec"),
    "codec": ("codec", "turnwired.policy"),
    "ports": ("engine", "turnwired.store.memory"),
    "app": ("rpc", "turnwired.app"),
    "adapters": ("tools", "turnwired.providers"),
    "wire-format": ("store", "turnwire.v1.event_pb2"),
    "protobuf": ("tools", "google.protobuf"),
    "grpc": ("engine", "grpc"),
    "clouds": ("engine", "botocore"),
    "http": ("tools", "aiohttp"),
    "sdks": ("engine", "openai"),
    "mcp": ("providers", "mcp"),
    "asgi": ("rpc", "starlette"),
    "connect": ("rpc", "connectrpc"),
    "http-client": ("engine", "httpx2"),
    "operator": ("rpc", "websockets"),
    "opentelemetry": ("engine", "opentelemetry.trace"),
    "sql": ("engine", "sqlalchemy"),
    "terminal": ("engine", "rich"),
}


def lint(where: Path) -> dict[str, str]:
    """Outcome of each contract by its name, over the package below `where`."""
    script = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run(
        [script, "--no-cache", "--config", ROOT / "pyproject.toml"],
        cwd=where,
        env={"PYTHONPATH": str(where), "COLUMNS": "1000", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    found = re.findall(r"^(.+?) (KEPT|BROKEN)", result.stdout, re.MULTILINE)
    assert found, result.stdout + result.stderr
    return dict(found)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    shutil.copytree(
        ROOT / "service" / "turnwired", tmp_path / "turnwired", ignore=shutil.ignore_patterns("__pycache__")
    )
    return tmp_path


@pytest.mark.requirement("TOOLING-4")
def test_the_code_keeps_every_contract(package: Path) -> None:
    assert lint(package) == {str(contract["name"]): "KEPT" for contract in CONTRACTS}


@pytest.mark.requirement("TOOLING-4")
def test_every_contract_is_broken_by_an_import_that_it_forbids(package: Path) -> None:
    assert {str(contract["id"]) for contract in CONTRACTS} == OFFENCES.keys()
    for number, (folder, module) in enumerate(OFFENCES.values()):
        offender = package / "turnwired" / folder / f"offender{number}.py"
        offender.write_text(f"import {module}\n", encoding="utf-8")
    assert lint(package) == {str(contract["name"]): "BROKEN" for contract in CONTRACTS}
