"""The surroundings in which the state machine over the real engine runs: small windows, the loop's clock, no log."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from engine.stepping import SteppedLoop
from turnwired.engine import log as engine_log
from turnwired.engine import progress as engine_progress


class LoopTime:
    """Unix time by the clock of the loop, so that what expires does so at the same step each time."""

    def time_ns(self) -> int:
        """In nanoseconds."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SteppedLoop)
        return loop.now_ns


@contextmanager
def hurried() -> Iterator[None]:
    """A small window, so that readers fall behind, and nothing that depends on the system's clock."""
    changes: dict[tuple[ModuleType, str], object] = {(engine_log, "WINDOW_BYTES"): 4000}
    changes[engine_log, "BACKLOG_BYTES"] = 2000
    changes[engine_progress, "PROGRESS_NS"] = 0
    changes[engine_log, "time"] = LoopTime()
    before = {key: getattr(*key) for key in changes}
    for (module, name), value in changes.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name), value in before.items():
            setattr(module, name, value)


@contextmanager
def quiet() -> Iterator[None]:
    """Without the log of a service to which everything happens, and the complaints about tasks that died unborn."""
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            yield
    finally:
        logging.disable(logging.NOTSET)
