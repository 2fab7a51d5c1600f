"""Shared by all tests."""

from __future__ import annotations

import pytest
from hypothesis import settings

# A machine that is busy is not a bug: the time of one example says nothing. pytest-timeout bounds the test as a whole.
settings.register_profile("turnwired", deadline=None)
settings.load_profile("turnwired")


@pytest.fixture
def anyio_backend() -> str:
    """The service runs on asyncio (grpc.aio knows no other)."""
    return "asyncio"
