"""Shared by all tests."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """The service runs on asyncio (grpc.aio knows no other)."""
    return "asyncio"
