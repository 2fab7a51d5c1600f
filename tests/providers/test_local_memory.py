"""The embedded model's process has a bound of memory that it cannot pass."""

from __future__ import annotations

import os
import sys

import psutil
import pytest

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Reason
from turnwired.providers.local.process import ModelServer
from turnwired.providers.local.provider import MEMORY_MIB, server_command
from turnwired.providers.local.weights import EMBEDDED, models_directory, problem_with

WEIGHTS = models_directory() / EMBEDDED.file

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(bool(problem_with(EMBEDDED, models_directory())), reason="the weights are not here: make model"),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts private memory"),
]


@pytest.mark.requirement("LOCAL-6")
async def test_a_server_that_needs_more_than_its_bound_ends_and_is_reported() -> None:
    server = ModelServer(server_command(WEIGHTS, memory_mib=64), origin="local")
    with pytest.raises(ProviderError) as raised:
        await server.endpoint()
    assert raised.value.failure.reason is Reason.PROVIDER_UNAVAILABLE
    await server.aclose()


@pytest.mark.requirement("LOCAL-6")
async def test_the_bound_is_set_on_the_process_that_serves() -> None:
    server = ModelServer(server_command(WEIGHTS), origin="local")
    before = {child.pid for child in psutil.Process(os.getpid()).children()}
    await server.endpoint()
    (child,) = (child for child in psutil.Process(os.getpid()).children() if child.pid not in before)
    assert child.rlimit(psutil.RLIMIT_DATA)[0] == MEMORY_MIB << 20
    await server.aclose()
