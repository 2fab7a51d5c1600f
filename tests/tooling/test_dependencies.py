"""Dependencies: declared, explained, used and locked, all four or none."""

from __future__ import annotations

import ast
import functools
import re
import sys
import tomllib
from collections.abc import Mapping
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKS = ["requirements.lock", "requirements-dev.lock", "requirements-bootstrap.lock", "requirements-model.lock"]
OURS = {"turnwire", "turnwired"}
# Modules that a package brings for others to use.
PARTS = {"pydantic-core": "pydantic", "mcp-types": "mcp", "googleapis-common-protos": "grpcio-status"}
PARTS |= {"protobuf-py-pure": "protobuf-py", "protobuf-py-ext": "protobuf-py"}
# Started as a program, never imported.
PROGRAMS = {"mcp-server-time"}


def names(requirements: list[str]) -> set[str]:
    return {normal(re.split(r"[\s;<>=!\[]", requirement, maxsplit=1)[0]) for requirement in requirements}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared_to_run() -> set[str]:
    extras = PROJECT["project"]["optional-dependencies"].values()
    return names(PROJECT["project"]["dependencies"]).union(*map(names, extras)) - OURS


def locked_to_run() -> set[str]:
    """What `make run` installs: the extras that it needs, and not the large ones."""
    extras = PROJECT["project"]["optional-dependencies"]
    return names(PROJECT["project"]["dependencies"]).union(names(extras["local"]), names(extras["demo"])) - OURS


def declared() -> set[str]:
    return declared_to_run().union(*map(names, PROJECT["dependency-groups"].values()))


def imported(folder: str) -> set[str]:
    """Distributions whose modules the code below `folder` imports."""
    modules: set[str] = set()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Import(found):
                    modules.update(alias.name for alias in found)
                case ast.ImportFrom(module=str(module), level=0):
                    modules.add(module)
                case _:
                    pass
    return {distribution for module in modules for distribution in distributions_of(module)}


def distributions_of(module: str) -> set[str]:
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top in OURS:
        return set()
    if top == "google":  # a namespace that several share
        if module.startswith("google.auth"):
            return {"google-auth"}
        return {"grpcio-status"} if module.startswith(("google.api", "google.rpc")) else {"protobuf"}
    if top == "azure":  # a namespace too
        return {"azure-identity"}
    if module.startswith("opentelemetry"):
        exporter = module.startswith("opentelemetry.exporter")
        return {"opentelemetry-exporter-otlp-proto-grpc" if exporter else "opentelemetry-sdk"}
    found = {normal(name) for name in installed().get(top, [top])}
    return {PARTS.get(name, name) for name in found}


@functools.cache
def installed() -> Mapping[str, list[str]]:
    """Distributions by the modules that they bring. It looks at every installed file, so once is enough."""
    return packages_distributions()


def explained() -> set[str]:
    """Every package that has a row of its own or shares one."""
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.requirement("TOOLING-2")
def test_every_dependency_has_its_reason_and_no_reason_is_without_its_dependency() -> None:
    assert explained() == declared()


@pytest.mark.requirement("TOOLING-2")
def test_what_is_imported_is_declared_and_what_is_declared_is_imported() -> None:
    assert imported("service") | imported("clients/python") == declared_to_run() - PROGRAMS


@pytest.mark.requirement("TOOLING-2")
def test_the_client_needs_grpcio_and_protobuf_only() -> None:
    client = tomllib.loads((ROOT / "clients" / "python" / "pyproject.toml").read_text(encoding="utf-8"))
    assert names(client["project"]["dependencies"]) == {"grpcio", "protobuf"}
    assert imported("clients/python") <= {"grpcio", "protobuf", "typing-extensions"}


@pytest.mark.requirement("TOOLING-3")
@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_file_pins_every_package_with_hashes_and_names_no_index(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text
    requirements = [line for line in text.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
    assert requirements
    for requirement in requirements:
        assert re.match(r"[a-z0-9-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", requirement), requirement


@pytest.mark.requirement("TOOLING-3")
def test_the_locks_hold_what_is_declared_and_agree_with_each_other() -> None:
    def pinned(lock: str) -> dict[str, str]:
        text = (ROOT / lock).read_text(encoding="utf-8")
        return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE))

    run, dev = pinned("requirements.lock"), pinned("requirements-dev.lock")
    assert locked_to_run() <= run.keys()
    assert not (declared_to_run() - locked_to_run()) & run.keys()
    assert declared() <= dev.keys()
    assert {name: dev.get(name) for name in run} == run


@pytest.mark.requirement("TOOLING-3")
def test_the_npm_lock_holds_integrity_hashes_and_no_address() -> None:
    text = (ROOT / "scripts" / "buf" / "package-lock.json").read_text(encoding="utf-8")
    assert "resolved" not in text
    assert "://" not in text
    assert text.count('"integrity"') == text.count('"node_modules/')
