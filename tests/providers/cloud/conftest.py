"""Shared by the tests of the cloud sign-ins."""

from __future__ import annotations

from pathlib import Path

import pytest
from providers.cloud.kit import lonely


@pytest.fixture(autouse=True)
def nothing_to_sign_in_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No cloud is known to the machine that runs the tests."""
    lonely(monkeypatch, tmp_path)
