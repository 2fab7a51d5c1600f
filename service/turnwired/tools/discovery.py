"""The first discovery of all tool sources: begun when a service starts, awaited once, before its first run.

No run waits for a source that does not answer, so whoever wants the tools of those that do waits here first. It knows
the registry and neither servers nor terminals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Final

import anyio

from turnwired.tools.registry import Registry

SOON: Final = 3.0
"""Seconds after which whoever waits is told for whom."""


class FirstDiscovery:
    """Of one registry, but for the sources of the ids ``but``, which are connected when a run needs them."""

    def __init__(self, registry: Registry, but: Collection[str] = ()) -> None:
        self._registry = registry
        self._but = but
        self._over = asyncio.Event()

    async def run(self) -> None:
        """Ask all of them. Bounded by the registry, longer for required sources."""
        try:
            await self._registry.discover(self._but)
        finally:
            self._over.set()

    async def wait(self, tell: Callable[[Sequence[str]], None] | None = None) -> None:
        """Return when each source has answered or failed, or has had ``Registry.discovery_timeout`` seconds.

        ``tell``: called once with the ids of those that are still awaited, if that takes more than a moment.
        """
        with anyio.move_on_after(self._registry.discovery_timeout):
            with anyio.move_on_after(SOON):
                await self._over.wait()
            if not self._over.is_set() and tell is not None:
                tell(self._registry.undiscovered)
            await self._over.wait()

    async def required_usable(self) -> None:
        """Return when every source without which there is no run can be used; they are asked until then."""
        await self._registry.required_usable()
