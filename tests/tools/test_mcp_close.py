"""Ends of MCP servers: closing is bounded, and no process is left, whatever the server ignores."""

from __future__ import annotations

import asyncio
import os
import select
import sys
import time
from pathlib import Path
from typing import cast

import anyio
import anyio.to_thread
import pytest
from tools.kit import RecordingTelemetry, misbehaving, run_tool, view_of

from turnwired.domain.failure import Reason
from turnwired.domain.message import ToolResultStatus
from turnwired.tools.mcp.process import ChildProcess, TooLong, _Splitter
from turnwired.tools.mcp.toolset import McpToolset
from turnwired.tools.registry import Source

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's pidfd and parent-death signal")


HUNG = 20.0
"""Seconds after which a server that has at most three of them to end is taken to live for ever."""


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _pids(ledger: Path, count: int) -> list[int]:
    pids = [int(line.split()[-1]) for line in ledger.read_text().splitlines()]
    assert len(pids) == count
    assert all(_alive(pid) for pid in pids)
    return pids


def _wait_for_end(pids: list[int], seconds: float) -> bool:
    """Whether all of these processes end in time. They need not be our children."""
    deadline = time.monotonic() + seconds
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            if not select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return False
        finally:
            os.close(fd)
    return True


@linux
@pytest.mark.requirement("MCP-11", "SCN-129")
@pytest.mark.parametrize("options", [(), ("ignore-eof",), ("ignore-eof", "ignore-term"), ("mute", "ignore-eof")])
async def test_closing_is_bounded_and_leaves_no_child(options: tuple[str, ...], tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    mute = "mute" in options
    config = misbehaving(
        "legacy", *options, f"ledger={ledger}", "start", close_timeout=1, connect_timeout=1 if mute else 20
    )
    toolset = McpToolset("m", config, RecordingTelemetry())
    await view_of(Source(toolset))
    if mute:
        assert toolset.failure is not None
        assert await anyio.to_thread.run_sync(_wait_for_end, _recorded(ledger), HUNG)
        await toolset.aclose()
        return
    pids = _pids(ledger, 1)
    with anyio.fail_after(HUNG):
        await toolset.aclose()
    assert not _alive(pids[0])


def _recorded(ledger: Path) -> list[int]:
    return [int(line.split()[-1]) for line in ledger.read_text().splitlines()]


@linux
@pytest.mark.requirement("MCP-11")
@pytest.mark.parametrize("options", [(), ("ignore-eof", "ignore-term")])
async def test_what_the_child_started_ends_with_it(options: tuple[str, ...], tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    config = misbehaving("legacy", *options, "grandchild", f"ledger={ledger}", "start", close_timeout=1)
    toolset = McpToolset("m", config, RecordingTelemetry())
    await view_of(Source(toolset))
    pids = _pids(ledger, 2)
    await toolset.aclose()
    assert await anyio.to_thread.run_sync(_wait_for_end, pids, 5)


@linux
@pytest.mark.requirement("MCP-11")
async def test_a_crashed_child_takes_its_own_children_along(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    toolset = McpToolset("m", misbehaving("legacy", "grandchild", f"ledger={ledger}"), RecordingTelemetry())
    view = await view_of(Source(toolset))
    pids = _pids(ledger, 1)
    # The grandchild holds the pipes open: the end of the child itself must be enough.
    with anyio.fail_after(5):
        assert (await run_tool(view, "die", timeout=60)).status is ToolResultStatus.OUTCOME_UNKNOWN
    assert await anyio.to_thread.run_sync(_wait_for_end, pids, 5)
    await toolset.aclose()


@pytest.mark.requirement("MCP-11", "MCP-4", "SCN-129")
async def test_closing_settles_the_calls_in_flight_and_refuses_new_ones() -> None:
    toolset = McpToolset("m", misbehaving("legacy"), RecordingTelemetry())
    view = await view_of(Source(toolset))
    results = []
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:

            async def call() -> None:
                results.append(await run_tool(view, "hang", timeout=60))

            group.start_soon(call)
            await run_tool(view, "echo", '{"text":"behind the other call"}')
            await toolset.aclose()
    assert [result.status for result in results] == [ToolResultStatus.OUTCOME_UNKNOWN]
    refused = await run_tool(view, "hang")
    assert refused.status is ToolResultStatus.NOT_EXECUTED
    assert refused.failure is not None
    assert refused.failure.reason is Reason.MCP_UNAVAILABLE
    await toolset.aclose()


@pytest.mark.requirement("MCP-11")
async def test_closing_while_connecting_does_not_wait_for_it() -> None:
    toolset = McpToolset("m", misbehaving("mute", connect_timeout=60, close_timeout=1), RecordingTelemetry())
    await toolset.start()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(toolset.tools)
            await anyio.lowlevel.checkpoint()
            await toolset.aclose()


@pytest.mark.requirement("MCP-11")
async def test_a_server_that_was_never_started_closes() -> None:
    toolset = McpToolset("m", misbehaving("legacy"), RecordingTelemetry())
    await toolset.aclose()
    assert not await toolset.tools()


_OWNER = """
import asyncio, sys
sys.path[:0] = {path!r}
from tools.kit import RecordingTelemetry, misbehaving
from turnwired.tools.mcp.toolset import McpToolset

async def main():
    config = misbehaving("legacy", "ignore-eof", "ignore-term", "ledger={ledger}", "start")
    toolset = McpToolset("m", config, RecordingTelemetry())
    assert await toolset.tools(), toolset.failure
    print("up", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@linux
@pytest.mark.requirement("MCP-12")
async def test_a_server_that_ignores_everything_ends_when_its_owner_is_killed(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    program = _OWNER.format(path=sys.path, ledger=ledger)
    async with await anyio.open_process([sys.executable, "-c", program]) as owner:
        try:
            assert owner.stdout is not None
            with anyio.fail_after(40):
                assert await owner.stdout.receive(2) == b"up"
            pids = _pids(ledger, 1)
        finally:
            owner.kill()
    assert await anyio.to_thread.run_sync(_wait_for_end, pids, 5)


# --- the pipes -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("MCP-10")
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_lines_are_the_same_however_they_arrive(size: int) -> None:
    data = b"one\n\ntwo" + b"x" * 600 + b"tail\nthree\nunfinished"
    splitter, lines = _Splitter(100), []
    for start in range(0, len(data), size):
        lines += splitter.feed(data[start : start + size])
    assert lines[:2] == [b"one", b""]
    assert lines[3:] == [b"three"]
    long = lines[2]
    assert isinstance(long, TooLong)
    assert long.head.startswith(b"twoxxx")
    assert len(long.head) <= 256
    assert long.tail.endswith(b"xxtail")
    assert len(long.tail) <= 256


@pytest.mark.requirement("MCP-10")
async def test_a_child_that_writes_faster_than_it_is_read_is_held_back() -> None:
    script = "import sys\nfor n in range(200000): print(n)"
    child = await ChildProcess.start("c", sys.executable, ["-c", script], dict(os.environ), None, 1000)
    try:
        with anyio.fail_after(20):
            assert await child.receive() == b"0"
            count = 1
            while await child.receive() is not None:
                count += 1
                assert len(child._lines) < 100_000
            assert count == 200_000
    finally:
        await child.aclose(1)


@pytest.mark.requirement("MCP-10", "HOSTILE-36")
async def test_a_child_that_reads_nothing_blocks_only_who_writes_to_it() -> None:
    script = "import signal; signal.pause()"
    child = await ChildProcess.start("c", sys.executable, ["-c", script], dict(os.environ), None, 1000)
    try:
        with anyio.move_on_after(0.2) as scope:
            for _ in range(100):
                await child.send(b"x" * 100_000)
        assert scope.cancelled_caught
        await child.send(b"a cancellation", wait=False)
        for _ in range(1000):
            await child.send(b"x" * 100_000, wait=False)
        stdin = cast("asyncio.WriteTransport", child._started().get_pipe_transport(0))
        assert stdin.get_write_buffer_size() < 2 << 20, "what nobody reads is not kept"
    finally:
        with anyio.fail_after(5):
            await child.aclose(0.3)
    with pytest.raises(BrokenPipeError):
        await child.send(b"x")
