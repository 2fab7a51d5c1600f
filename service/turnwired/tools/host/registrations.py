"""Apps that have made themselves known: each for its lease, for the tenant that registered it, under an id of its own.

It decides which addresses may be called at all. What a registered app has is the registry's, like every other source.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import anyio
from pydantic import ValidationError

from turnwired.domain.errors import Conflict, FieldViolation, InvalidRequest, NotFound, PermissionDenied, Unavailable
from turnwired.domain.failure import Reason
from turnwired.domain.faults import where_raised
from turnwired.domain.run import Caller
from turnwired.domain.tool import ToolSource
from turnwired.domain.tool_host import ToolHost
from turnwired.tools.host.config import ToolHostConfig
from turnwired.tools.host.toolset import HostToolset
from turnwired.tools.naming import pattern_of
from turnwired.tools.registry import Source

_LOG = logging.getLogger(__name__)

MOST_HOSTS: Final = 400
MOST_OF_TENANT: Final = 100
"""Fewer than all, so that no tenant alone keeps the others out."""
_FIRST_ANSWER: Final = 2.0
"""Seconds that a registration waits for what the app has."""
_RETRY: Final = 1.0
_CLOSE_SECONDS: Final = 10.0


class Sources(Protocol):
    """What of a registry is used: sources that come and go while it runs."""

    @property
    def set_ids(self) -> frozenset[str]:
        """Ids of all sources that there are now."""
        ...

    async def add(self, source: Source) -> None:
        """Start one more source."""
        ...

    def remove(self, set_id: str) -> Coroutine[object, object, bool]:
        """Close the sources of this id and forget them."""
        ...


@dataclass(frozen=True, slots=True)
class Admission:
    """Which addresses may be registered: none, those of this machine, and what ``addresses`` (patterns) name besides.

    A Unix socket is never meant by being of this machine: it could be anything's.
    """

    allowed: bool = False
    addresses: tuple[str, ...] = ()

    def admits(self, config: ToolHostConfig) -> bool:
        """Whether the server may connect there."""
        here = config.is_local and not config.address.startswith("unix:")
        return self.allowed and (here or pattern_of(self.addresses).match(config.address))


@dataclass(frozen=True, slots=True)
class _Registration:
    """One app. ``ends``: by the loop's clock, in seconds; ``ends_ns``: the same as Unix time."""

    owner: tuple[str, str]
    toolset: HostToolset
    address: str
    ends: float
    ends_ns: int


class Registrations:
    """Lives in one event loop. ``own``: the hosts of the configuration."""

    def __init__(self, sources: Sources, admission: Admission, own: Sequence[HostToolset] = ()) -> None:
        self._sources = sources
        self._admission = admission
        self._own = tuple(own)
        self._known: dict[str, _Registration] = {}
        self._changing = asyncio.Lock()
        self._earlier = asyncio.Event()
        self._reaper: asyncio.Task[None] | None = None
        self._leaving: set[asyncio.Task[bool]] = set()

    async def register(self, caller: Caller, host_id: str, address: str, lease: float) -> ToolHost:
        """Register an app for ``lease`` seconds, or renew that. An app that has moved is registered anew.

        Raises PermissionDenied for an address that is not allowed, Conflict TOOL_HOST_TAKEN for the id of another,
        InvalidRequest, and Unavailable OVERLOADED when there are too many.
        """
        config = self._checked(address)
        owner = (caller.tenant, caller.principal)
        async with self._changing:
            known = self._known.get(host_id)
            taken = host_id in self._sources.set_ids if known is None else known.owner != owner
            if taken:
                words = f"The id {host_id!r} is another host's, or another source's. Register under another one."
                raise Conflict(Reason.TOOL_HOST_TAKEN, words, {"host_id": host_id})
            if known is None:
                self._require_room(caller.tenant)
            toolset = known.toolset if known is not None and known.address == address else None
            if toolset is None:
                if known is not None:
                    await self._forget(host_id)
                # Whoever registers must not hold up the runs of others: an app is there once it has answered.
                toolset = HostToolset(host_id, config, awaited=False)
                await self._sources.add(Source(toolset, host_id, kind=ToolSource.HOST, tenant=caller.tenant))
                _LOG.info("tool host %s at %s is registered", host_id, address)
            ends, ends_ns = anyio.current_time() + lease, time.time_ns() + round(lease * 1e9)
            self._known[host_id] = _Registration(owner, toolset, address, ends, ends_ns)
            self._begin()
        with anyio.move_on_after(_FIRST_ANSWER):
            await toolset.first_try()
        return _shown(toolset, ends_ns)

    async def unregister(self, caller: Caller, host_id: str) -> None:
        """Forget an app. Raises NotFound, also for what another tenant or principal registered."""
        async with self._changing:
            known = self._known.get(host_id)
            if known is None or known.owner != (caller.tenant, caller.principal):
                words = f"You have registered no host with the id {host_id!r}."
                raise NotFound(Reason.TOOL_HOST_NOT_FOUND, words, {"host_id": host_id})
            await self._forget(host_id)

    def hosts(self, caller: Caller) -> Sequence[ToolHost]:
        """Those of the configuration, and those registered for the caller's tenant, by id."""
        own = [toolset.host for toolset in self._own]
        registered = [_shown(known.toolset, known.ends_ns) for known in self._of(caller.tenant)]
        return sorted((*own, *registered), key=lambda host: host.host_id)

    async def aclose(self) -> None:
        """End the leases. The registry closes the hosts themselves."""
        if self._reaper is not None:
            self._reaper.cancel()
            await asyncio.wait([self._reaper])
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=_CLOSE_SECONDS)

    def _of(self, tenant: str) -> Sequence[_Registration]:
        return [known for known in self._known.values() if known.owner[0] == tenant]

    def _require_room(self, tenant: str) -> None:
        of_tenant = len(self._of(tenant))
        if of_tenant >= MOST_OF_TENANT or len(self._known) >= MOST_HOSTS:
            count, whose = (of_tenant, " of this tenant") if of_tenant >= MOST_OF_TENANT else (len(self._known), "")
            raise Unavailable(Reason.OVERLOADED, f"{count} hosts{whose} are registered, which is the most.", _RETRY)

    def _checked(self, address: str) -> ToolHostConfig:
        if not self._admission.allowed:
            raise PermissionDenied(
                "This deployment lets no tool hosts register; server.allow_tool_host_registration = true would."
            )
        try:
            config = ToolHostConfig(address=address)
        except ValidationError as error:
            words = error.errors(include_url=False, include_input=False)[0]["msg"].removeprefix("Value error, ")
            raise InvalidRequest([FieldViolation("address", words)]) from None
        if not self._admission.admits(config):
            raise PermissionDenied(
                "The address is not of this machine, nor one of those that server.tool_host_addresses allows."
            )
        return config

    def _begin(self) -> None:
        self._earlier.set()
        if self._reaper is None:
            # A context of its own: the caller's span must not become the parent of all that the task does.
            self._reaper = asyncio.get_running_loop().create_task(
                self._reap(), name="tool-host-leases", context=contextvars.Context()
            )

    async def _reap(self) -> None:
        while True:
            self._earlier.clear()
            now = anyio.current_time()
            left = min((known.ends - now for known in self._known.values()), default=None)
            if left is None or left > 0:
                with anyio.move_on_after(left):
                    await self._earlier.wait()
                continue
            try:
                await self._end(now)
            except Exception as error:  # noqa: BLE001  task boundary: nobody awaits it, and other leases go on
                _LOG.warning("ending a lease: %s", where_raised(error))

    async def _end(self, now: float) -> None:
        async with self._changing:
            for host_id in [host_id for host_id, known in self._known.items() if known.ends <= now]:
                _LOG.info("the lease of tool host %s has ended", host_id)
                await self._forget(host_id)

    async def _forget(self, host_id: str) -> None:
        """Close it, to the end: whoever asked may be gone before."""
        del self._known[host_id]
        closing = asyncio.get_running_loop().create_task(self._sources.remove(host_id), name=f"tool-host-end-{host_id}")
        self._leaving.add(closing)
        closing.add_done_callback(self._leaving.discard)
        await asyncio.shield(closing)


def _shown(toolset: HostToolset, ends_ns: int) -> ToolHost:
    return replace(toolset.host, lease_expire_ns=ends_ns)
