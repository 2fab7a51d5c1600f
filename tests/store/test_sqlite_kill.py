"""A process that writes is killed at any moment: what it acknowledged is there, and what it left can be taken over."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest
from store import children
from store.builders import row, settlement

from turnwired.domain.errors import Fenced
from turnwired.domain.run import RunState
from turnwired.store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio

ROUNDS = 10

_WRITER = """
    import asyncio, sys
    from pathlib import Path
    from store.builders import message, new_run, row, settlement
    from turnwired.store.sqlite import SqliteStore

    async def live(store, run_id):
        while True:
            await store.create_run(new_run(run_id, session_id=run_id.split(".")[0], input_=(message("in"),)))
            print("created", run_id, flush=True)
            for row_no in range(1, 8):
                await store.append(row(run_id, row_no), settlement(message("out")) if row_no == 7 else None)
                print("settled" if row_no == 7 else row_no, run_id, flush=True)
            head, _, number = run_id.partition(".")
            run_id = f"{head}.{int(number) + 1}"

    async def main():
        store = SqliteStore(Path(sys.argv[1]))
        await store.start()
        await asyncio.gather(*(live(store, f"{sys.argv[2]}-{n}.0") for n in range(20)))

    asyncio.run(main())
"""


@pytest.mark.requirement("STORE-18", "STORE-7")
@pytest.mark.slow
async def test_a_killed_process_loses_no_acknowledged_row_and_its_runs_are_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "turnwire.db"
    moments = random.Random(20)
    for round_ in range(ROUNDS):
        child = children.start(_WRITER, str(path), f"round{round_}")
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(moments.randrange(1, 400))]
        child.send_signal(signal.SIGKILL)
        _, rest, errors = children.finish(child)
        assert errors == ""
        await _check(path, "".join(lines) + rest)


async def _check(path: Path, output: str) -> None:
    said = [line.split() for line in output.splitlines() if line.count(" ") == 1]
    if not output.endswith("\n"):
        said = said[:-1]  # cut within a line
    store = SqliteStore(path)
    await store.start()
    try:
        for what, run_id in said:
            run = await store.get_run("default", run_id)
            assert run is not None
            rows = 7 if what == "settled" else 0 if what == "created" else int(what)
            assert run.last_row_no >= rows
            assert (run.state is RunState.SETTLED) == (run.last_row_no == 7)
            if what == "settled":
                messages = await store.load_messages("default", run_id.split(".")[0])
                assert len(messages) >= 2 * (int(run_id.split(".")[1]) + 1)
        taken = await store.take_over_unfinished()
        assert {run.run_id.split("-")[0] for run in taken} <= {said[0][1].split("-")[0]}
        for run in taken:
            assert run.epoch == 2
            stored = await store.read_rows(run.run_id, 0, 1_000_000)
            assert list(stored) == [row(run.run_id, n) for n in range(1, run.last_row_no + 1)]
            with pytest.raises(Fenced):
                await store.append(row(run.run_id, run.last_row_no + 1))
            await store.append(row(run.run_id, run.last_row_no + 1, epoch=2))
        await store.ping()
        await _settle(store)
    finally:
        await store.aclose()


async def _settle(store: SqliteStore) -> None:
    for run in await store.take_over_unfinished():
        await store.append(row(run.run_id, run.last_row_no + 1, epoch=run.epoch), settlement())
    assert await store.take_over_unfinished() == []
