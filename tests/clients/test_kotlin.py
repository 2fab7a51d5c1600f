"""The Kotlin code that a build makes of the contract."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from e2e.provider import answer, provider
from e2e.service import config_text, service

from scripts.clients import kotlin
from scripts.toolchains import Missing, cache

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(900)]

SECONDS = 60.0


@pytest.fixture(scope="module")
def example() -> list[str]:
    """The command of the example. Skips where Java or Maven cannot make it, or are not asked to."""
    if "Kotlin" not in os.environ.get("TURNWIRE_COMPILED", "").split(","):
        pytest.skip("make clients builds the Kotlin code and runs this")
    place = cache("kotlin", *kotlin.sources())
    try:
        kotlin.build(place)
    except Missing as error:
        if ".kt:" in str(error) or "COMPILATION ERROR" in str(error):
            raise
        pytest.skip(f"the Kotlin code cannot be built here: {error}")
    return kotlin.example(place)


@pytest.mark.requirement("CLIENT-KOTLIN-1")
async def test_what_the_build_makes_of_the_contract_compiles_and_asks(example: list[str], tmp_path: Path) -> None:
    async with provider(answer("Drei, ", "natürlich.")) as p, service(tmp_path, config_text(p.url), GATES=p.url) as s:
        asked = (*example, s.address, "Was ist 1 + 2?")
        child = await asyncio.create_subprocess_exec(*asked, stdout=asyncio.subprocess.PIPE)
        try:
            async with asyncio.timeout(SECONDS):
                out, _ = await child.communicate()
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
    assert (child.returncode, out.decode()) == (0, "Drei, natürlich.\nOUTCOME_KIND_ANSWERED\n")
