"""Python functions that block: threads, their bound, and what is given up."""

from __future__ import annotations

import asyncio
import functools
import threading

import anyio
import anyio.to_thread
import pytest
from tools.kit import blocking, invocation, run_tool, view_of, view_of_functions, words_of

from turnwired.domain.failure import Reason
from turnwired.domain.message import ToolResultStatus
from turnwired.tools.python import (
    PythonToolset,
    ToolContext,
)
from turnwired.tools.registry import Source
from turnwired.tools.threads import CallState, WorkerPool


@pytest.mark.requirement("PYTHON-2", "TOOL-9")
async def test_a_blocking_function_times_out_while_the_loop_goes_on_and_its_late_result_is_dropped() -> None:
    release = threading.Event()
    toolset = PythonToolset([blocking(release)])
    view = await view_of(Source(toolset))
    result = await run_tool(view, "block", timeout=1.0)
    assert result.failure is not None
    assert result.failure.reason is Reason.TOOL_TIMEOUT
    assert (toolset.pool.stuck, toolset.pool.late) == (1, 0)
    release.set()
    # The same pool's next result comes after the late one, whose thread was released before.
    with anyio.fail_after(5):
        while toolset.pool.late == 0:
            await toolset.pool.run(lambda: None, CallState())
    assert (toolset.pool.stuck, toolset.pool.late) == (0, 1)
    await toolset.aclose()


@pytest.mark.requirement("PYTHON-2", "SCN-050")
async def test_threads_are_bounded_and_calls_beyond_stuck_ones_fail_at_once() -> None:
    release = threading.Event()
    toolset = PythonToolset([blocking(release)], pool=WorkerPool(max_workers=2))
    view = await view_of(Source(toolset))
    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(functools.partial(run_tool, view, "block", timeout=1.0))
    result = await run_tool(view, "block", timeout=5)
    assert result.status is ToolResultStatus.NOT_EXECUTED
    assert result.failure is not None
    assert result.failure.reason is Reason.OVERLOADED
    release.set()
    await toolset.aclose()


@pytest.mark.requirement("PYTHON-2")
async def test_a_call_that_waits_for_a_thread_and_times_out_is_never_made() -> None:
    release, calls = threading.Event(), []

    def count() -> str:
        """Count."""
        calls.append(1)
        return "counted"

    toolset = PythonToolset([blocking(release), count], pool=WorkerPool(max_workers=1))
    view = await view_of(Source(toolset))
    async with anyio.create_task_group() as group:
        group.start_soon(functools.partial(run_tool, view, "block", timeout=10))
        await anyio.lowlevel.checkpoint()
        await run_tool(view, "count", timeout=0.02)
        release.set()
    assert words_of(await run_tool(view, "count")) == "counted"
    assert calls == [1]
    await toolset.aclose()


@pytest.mark.requirement("PYTHON-2")
async def test_blocking_functions_run_side_by_side_and_see_that_they_are_given_up() -> None:
    barrier, seen = threading.Barrier(2, timeout=5), threading.Event()

    def meet() -> str:
        """Need another one to go on."""
        barrier.wait()
        return threading.current_thread().name

    def patient(context: ToolContext) -> str:
        """Wait to be given up."""
        while not context.cancelled:
            threading.Event().wait(0.001)
        seen.set()
        return "gone"

    view = await view_of_functions(meet, patient)
    results: list[str] = []

    async def call() -> None:
        results.append(words_of(await run_tool(view, "meet")))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        group.start_soon(call)
    assert len(set(results)) == 2
    await run_tool(view, "patient", timeout=0.02)
    assert await anyio.to_thread.run_sync(seen.wait, 5)


@pytest.mark.requirement("PYTHON-2")
async def test_progress_from_a_thread_arrives_on_the_loop() -> None:
    told: list[tuple[float, float | None, str, int]] = []

    def work(context: ToolContext) -> str:
        """Work."""
        context.progress(1, 2, "half")
        return "done"

    async def work_too(context: ToolContext) -> str:
        """Work."""
        context.progress(1, 2, "half")
        return "done"

    view = await view_of_functions(work, work_too)
    call = invocation(on_progress=lambda done, total, words: told.append((done, total, words, threading.get_ident())))
    for name in ("work", "work_too"):
        await view.execute(name, call, None)
    assert told == [(1, 2, "half", threading.get_ident())] * 2


@pytest.mark.requirement("PYTHON-2")
async def test_a_thread_whose_loop_has_been_closed_ends_quietly() -> None:
    release, pool, loop = threading.Event(), WorkerPool(), asyncio.new_event_loop()

    ours: list[threading.Thread] = []

    async def abandon() -> None:
        with anyio.CancelScope() as scope:

            def block() -> None:
                ours.append(threading.current_thread())
                loop.call_soon_threadsafe(scope.cancel)
                release.wait(5)

            await pool.run(block, CallState())

    def other_loop() -> None:
        loop.run_until_complete(abandon())
        loop.close()

    await anyio.to_thread.run_sync(other_loop)
    (thread,) = ours
    release.set()
    await anyio.to_thread.run_sync(thread.join, 5)
    assert not thread.is_alive()
