"""Shared by all tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from hypothesis import settings

import turnwired

assert turnwired.__version__  # imported before gRPC is, whose handlers around fork it turns off

# A machine that is busy is not a bug: the time of one example says nothing. pytest-timeout bounds the test as a whole.
settings.register_profile("turnwired", deadline=None)
settings.load_profile("turnwired")


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """The loop that the service runs on."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="session", autouse=True)
async def one_loop(anyio_backend: tuple[str, dict[str, bool]]) -> AsyncIterator[None]:
    """Keeps one event loop for all tests of the process.

    gRPC has one completion queue a process: what a finished call leaves in it is delivered to the loop of that call,
    and a loop that is closed by then fails the test that runs at that moment.
    """
    yield  # noqa: PT022 - without a teardown the loop would not be kept
