"""One event loop for the tests of a file, so that a service may serve several of them."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The service runs on asyncio (grpc.aio knows no other)."""
    return "asyncio"
