"""Tools that do what no tool should: end the program, cancel themselves, never end, give what is no value."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable

import pytest
from tools.kit import invocation, run_tool, view_of, view_of_functions, words_of

from turnwired import apart
from turnwired.domain.failure import Reason
from turnwired.domain.message import ToolResultStatus
from turnwired.tools.python import PythonToolset
from turnwired.tools.registry import Source
from turnwired.tools.result import redact

pytestmark = pytest.mark.anyio


class Uncatchable(BaseException):
    """What `except Exception` does not catch."""


async def _exits() -> str:
    sys.exit(3)


async def _interrupts() -> str:
    raise KeyboardInterrupt


async def _closes() -> str:
    raise GeneratorExit


async def _raises() -> str:
    raise Uncatchable("a secret")


async def _raises_a_group() -> str:
    raise BaseExceptionGroup("of", [KeyboardInterrupt()])


def _interrupts_in_a_thread() -> str:
    raise KeyboardInterrupt


def _closes_in_a_thread() -> str:
    raise GeneratorExit


def _raises_in_a_thread() -> str:
    raise Uncatchable("a secret")


def _recurses() -> str:
    return _recurses()


ENDS = [
    _exits,
    _interrupts,
    _closes,
    _raises,
    _raises_a_group,
    _interrupts_in_a_thread,
    _closes_in_a_thread,
    _raises_in_a_thread,
    _recurses,
]


@pytest.mark.requirement("TOOL-15")
@pytest.mark.parametrize("function", ENDS, ids=lambda function: function.__name__)
async def test_whatever_a_tool_raises_is_its_own_failure(function: Callable[[], object]) -> None:
    view = await view_of_functions(function)
    result = await run_tool(view, function.__name__)
    assert result.status is ToolResultStatus.ERROR
    assert result.failure is not None
    assert result.failure.reason is Reason.TOOL_FAILED


@pytest.mark.requirement("TOOL-13")
async def test_a_tool_that_cancels_its_own_task_cancels_nobody_else() -> None:
    async def cancels_itself() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return "never"

    result = await run_tool(await view_of_functions(cancels_itself), "cancels_itself")
    assert result.status is ToolResultStatus.ERROR
    assert "cancelled itself" in words_of(result)


@pytest.fixture
async def stubborn(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PythonToolset]:
    """A source with one tool that goes on whatever it is told, until the test lets it end."""
    monkeypatch.setattr(apart, "UNWIND_SECONDS", 0.05)
    enough = asyncio.Event()

    async def goes_on() -> str:
        while not enough.is_set():
            try:
                await enough.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    source = PythonToolset([goes_on])
    yield source
    enough.set()
    await source.aclose()
    assert not source.nursery.stray


@pytest.mark.requirement("TOOL-16")
async def test_a_tool_that_does_not_heed_its_time_limit_is_left_behind(stubborn: PythonToolset) -> None:
    view = await view_of(Source(stubborn))
    async with asyncio.timeout(5):
        result = await run_tool(view, "goes_on", timeout=0.05)
    assert result.failure is not None
    assert result.failure.reason is Reason.TOOL_TIMEOUT
    assert len(stubborn.nursery.stray) == 1


@pytest.mark.requirement("TOOL-16")
async def test_a_tool_that_does_not_heed_its_cancellation_holds_up_nobody(stubborn: PythonToolset) -> None:
    view = await view_of(Source(stubborn))
    call = asyncio.create_task(view.execute("goes_on", invocation(), None))
    await asyncio.sleep(0)
    call.cancel()
    async with asyncio.timeout(5):
        with pytest.raises(asyncio.CancelledError):
            await call
        await stubborn.aclose()
    assert len(stubborn.nursery.stray) == 1


@pytest.mark.requirement("TOOL-17")
@pytest.mark.parametrize(("value", "words"), [(float("nan"), '"NaN"'), ([float("-inf")], '["-Infinity"]')])
async def test_numbers_that_json_does_not_have_are_words(value: object, words: str) -> None:
    def number() -> object:
        return value

    assert words_of(await run_tool(await view_of_functions(number), "number")) == words


@pytest.mark.requirement("HOSTILE-14")
@pytest.mark.parametrize("words", ["a-", "sk-", "token", "token=", "://", "://a:", "bearer ", "a-token "])
def test_words_about_a_failure_are_redacted_in_no_time_whatever_they_are(words: str) -> None:
    before = time.perf_counter()
    for _ in range(10):
        redact(words * 2000)
    assert time.perf_counter() - before < 1.0


@pytest.mark.requirement("HOSTILE-14")
@pytest.mark.parametrize("name", ["token", "my-api_key", "x.secret", "--db-password", "API-KEY", "/token"])
def test_a_value_behind_the_name_of_a_secret_is_not_told(name: str) -> None:
    assert redact(f"see {name}=hunter2 there") == f"see {name}=[redacted] there"
