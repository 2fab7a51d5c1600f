"""Imports what is costly when it is first needed, by one thread after the other. Knows nothing of what it imports.

Python lets two threads that import the same packages from different ends see each other's half-made modules rather than
wait for ever; the SDK of MCP has such circles, and an ``ImportError`` would then be the failure of a server that works.
"""

from __future__ import annotations

import importlib
import threading

import anyio

_ONE_AT_A_TIME = threading.Lock()


async def load(*modules: str) -> None:
    """Import the modules, in a thread: the event loop goes on. Raises what their code raises."""
    await anyio.to_thread.run_sync(_load, modules)


def _load(modules: tuple[str, ...]) -> None:
    with _ONE_AT_A_TIME:
        for module in modules:
            importlib.import_module(module)
