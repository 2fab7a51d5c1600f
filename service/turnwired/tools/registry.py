"""The registry: all tool sources of a deployment as one list of tools, checked and executed the same way.

It knows sources only as ``Toolset``. What the model may call is decided elsewhere; here it is decided what there is.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import compress
from typing import Final

import anyio

from turnwired.domain.errors import FieldViolation, ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.faults import where_raised
from turnwired.domain.run import Caller
from turnwired.domain.tool import ClientTool, ToolRef, ToolSelection, ToolSource
from turnwired.stray import ANY_FAULT, require_stray
from turnwired.tools.access import Access
from turnwired.tools.catalog import Catalog, CollisionPolicy, Listing, compose
from turnwired.tools.client import client_tool_problems, client_toolsets
from turnwired.tools.decorators import filtered, namespaced
from turnwired.tools.finding import findable
from turnwired.tools.naming import pattern_of
from turnwired.tools.port import Discovers, Toolset, ToolView
from turnwired.tools.selecting import joined, selected
from turnwired.tools.view import Joined, View

_LOG = logging.getLogger(__name__)
_MAX_CACHED_VIEWS: Final = 64
_MAX_CATALOGS: Final = 128
_GRACE: Final = 0.05
"""Seconds that a source may take to say what it knows, when it has held up views for as long as it may."""

_LEAST_WAIT: Final = 0.1
_MOST_WAIT: Final = 2.0
"""Seconds between questions to a source that is required and cannot be used yet."""

WITHHELD: Final = Failure(
    phase=FailurePhase.ROUTING,
    reason=Reason.TOOL_SOURCE_UNAVAILABLE,
    message="a tool source that this deployment requires cannot be used now; operators see which",
    retryable=True,
)
"""For callers who can have nothing of the source."""

_Key = tuple[frozenset[str], tuple[str, ...], tuple[str, ...], tuple[str, ...], frozenset[str], frozenset[str]]


@dataclass(frozen=True, slots=True)
class Source:
    """A toolset and how the deployment uses it.

    ``namespace``: put in front of each name, ``None`` for plain names. ``include`` and ``exclude`` are patterns of
    native names. ``required``: without it no run may start. ``lazy``: it is connected when a run needs it, which then
    waits for it. ``priority``: of two sources that claim one name under
    ``CollisionPolicy.PRIORITY`` the higher one has it. ``kind``: by what reason it is missed.
    ``tenant``: the one whose callers alone have it, None for all.
    """

    toolset: Toolset
    namespace: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    required: bool = False
    lazy: bool = False
    priority: int = 0
    kind: ToolSource = ToolSource.LOCAL
    tenant: str | None = None

    def is_for(self, caller: Caller) -> bool:
        """Whether it is no other tenant's."""
        return self.tenant is None or self.tenant == caller.tenant

    def decorated(self) -> Toolset:
        """The toolset as the deployment uses it."""
        toolset = self.toolset
        if self.include or self.exclude:
            toolset = filtered(toolset, self.include, self.exclude)
        return toolset if self.namespace is None else namespaced(toolset, self.namespace)


@dataclass(slots=True)
class _Member:
    """A source of the registry. ``asked_at``: when it was asked first, by the loop's clock. ``known``: it has answered
    when it was asked last. ``awaited``: ``discover`` waits for its first answer, so that no view does.
    """

    source: Source
    toolset: Toolset
    asked_at: float | None = None
    known: bool = False
    awaited: bool = False

    def holds_up(self, used: bool) -> bool:
        """Whether a view waits for it; ``used``: somebody asks who may have something of it. What there is no run
        without, all wait for.
        """
        return self.source.required or (used and (self.source.lazy or not self.awaited))

    def asked(self, patient: bool, used: bool) -> bool:
        """Whether a view that has no answer of it asks. One that is connected when it is needed is not for others."""
        waited = patient and self.holds_up(used)
        return waited or not (self.silent or (self.source.lazy and not used))

    @property
    def silent(self) -> bool:
        """Whether it has not answered at all yet, and need not be asked to know it."""
        return isinstance(self.toolset, Discovers) and self.toolset.discovering


@dataclass(slots=True)
class Registry:
    """A ``ToolRegistry`` over the sources of a deployment.

    The order of ``sources`` is the order of tools, and ``collisions`` says who has a name that two of them claim.
    ``discovery_timeout`` (seconds) bounds how long ``discover`` waits for each, and views for one that is needed only
    now, all of them together; ``required_timeout`` is for those without which there is no run. No view waits for
    another. The first start of an MCP server on a busy machine takes longer than the former. ``access`` says who may
    have which tools; see ``allow``.

    A selection of more than ``find_above`` tools (0: never) is not shown: the model finds its tools, but for those that
    a selection names without a ``*`` or that match ``pinned``.
    """

    sources: Sequence[Source]
    discovery_timeout: float = 10.0
    required_timeout: float = 60.0
    close_timeout: float = 12.0
    collisions: CollisionPolicy = CollisionPolicy.PRIORITY
    access: Access = field(default_factory=Access)
    find_above: int = 0
    pinned: tuple[str, ...] = ()
    _members: tuple[_Member, ...] = field(init=False)
    _catalogs: dict[frozenset[str], Catalog] = field(init=False, default_factory=dict[frozenset[str], Catalog])
    """By the sources that are a tenant's own: what others have claims none of its names."""
    _views: dict[_Key, View] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._members = tuple(_Member(source, source.decorated()) for source in self.sources)

    async def start(self) -> None:
        """Start all sources, side by side."""
        async with anyio.create_task_group() as group:
            for member in self._members:
                group.start_soon(member.toolset.start)

    @property
    def set_ids(self) -> frozenset[str]:
        """Ids of all sources that there are now."""
        return frozenset(member.toolset.set_id for member in self._members)

    async def add(self, source: Source) -> None:
        """Start one more source. Its tools come last; runs under way get them with their next iteration."""
        member = _Member(source, source.decorated(), awaited=True)
        self._members = (*self._members, member)
        await member.toolset.start()

    async def discover(self, but: Collection[str] = ()) -> None:
        """Have the sources but those of these ids say what they offer, before a run needs it. Bounded."""
        found = [member for member in self._members if member.toolset.set_id not in but]
        for member in found:
            member.awaited = True

        async def ask(member: _Member) -> None:
            with anyio.move_on_after(self._left(member)):
                await _listing(member)
                member.known = True

        async with anyio.create_task_group() as group:
            for member in found:
                group.start_soon(ask, member)

    @property
    def undiscovered(self) -> Sequence[str]:
        """Ids of the sources that ``discover`` still waits for."""
        return [member.toolset.set_id for member in self._members if member.awaited and not member.known]

    async def required_usable(self) -> None:
        """Return when every required source can be used. It is asked again for as long as that takes."""
        async with anyio.create_task_group() as group:
            for member in self._members:
                if member.source.required:
                    group.start_soon(self._usable, member)

    async def _usable(self, member: _Member) -> None:
        """Return when the source can be used, or is no longer here."""
        wait = _LEAST_WAIT
        while member in self._members:
            with anyio.move_on_after(self._patience(member.source)):
                if (await _listing(member)).usable:
                    return
                await anyio.sleep(wait)
                wait = min(_MOST_WAIT, 2 * wait)

    async def remove(self, set_id: str) -> bool:
        """Close the sources of this id and forget them. False when there is none."""
        found = [member for member in self._members if member.toolset.set_id == set_id]
        self._members = tuple(member for member in self._members if member not in found)
        for member in found:
            await member.toolset.aclose()
        return bool(found)

    def allow(self, access: Access) -> None:
        """Other rules from now on. What they deny is not called any more, also by runs that saw it before."""
        self.access = access
        self._views.clear()

    def allows(self, roles: frozenset[str], ref: ToolRef) -> bool:
        """Whether somebody with these roles may see and call a tool now."""
        return self.access.allows(roles, ref)

    async def view(self, selection: ToolSelection, caller: Caller, more: Sequence[Toolset] = ()) -> ToolView:
        """The tools of a run as they are now. Raises ToolError as its port says."""
        roles = self.access.scope(caller.roles)
        view = await self._view(selection, caller, roles)
        beside = (*more, *client_toolsets(selection.client_tools))
        return await joined(view, beside, selection, roles, self.allows) if beside else view

    async def revised(self, view: ToolView, selection: ToolSelection, caller: Caller) -> ToolView:
        """The view as the sources are now; the same object where nothing has changed."""
        more = view.more if isinstance(view, Joined) else None
        before = view.base if isinstance(view, Joined) else view
        try:
            now = await self._view(selection, caller, self.access.scope(caller.roles), patient=False)
        except ToolError:  # a required source went: what was there is what there is
            return view
        if now is before:
            return view
        return now if more is None else Joined(now, more)

    async def prepare(self) -> None:
        """Put together what the first runs will see of the sources that have answered, so that none of them pays."""
        with suppress(ToolError):  # a required source that cannot be used: every run says so
            await self._view(ToolSelection(), Caller(), self.access.scope(frozenset()), patient=False, connects=False)

    async def _view(
        self,
        selection: ToolSelection,
        caller: Caller,
        roles: frozenset[str],
        *,
        patient: bool = True,
        connects: bool = True,
    ) -> View:
        """``patient``: sources that are needed are waited for. ``connects``: lazy ones are for this view."""
        members = self._members
        mine = [member.source.is_for(caller) for member in members]
        hidden = frozenset(
            member.toolset.set_id for member in compress(members, mine) if not self._may_have(member.source, roles)
        )
        uses = [
            its and member.toolset.set_id not in hidden and (connects or not member.source.lazy)
            for its, member in zip(mine, members, strict=True)
        ]
        listings = await self._listings(members, mine, uses, patient=patient)
        for member, listing in compress(zip(members, listings, strict=True), mine):
            if member.source.required and not listing.usable:
                raise ToolError(WITHHELD if member.toolset.set_id in hidden else listing.failures[0])
        own = frozenset(member.toolset.set_id for member in compress(members, mine) if member.source.tenant is not None)
        catalog = self._composed(own, tuple(compress(listings, mine)))
        key = (own, selection.include, selection.exclude, selection.narrow, roles, hidden)
        view = self._views.get(key)
        if view is None:
            if len(self._views) >= _MAX_CACHED_VIEWS:
                self._views.pop(next(iter(self._views)))
            view = self._views[key] = self._selected(catalog, selection, hidden, roles)
        return view

    def _composed(self, own: frozenset[str], listings: tuple[Listing, ...]) -> Catalog:
        """The catalog of a tenant that has the sources ``own`` beside those that all have."""
        catalog = self._catalogs.get(own)
        if catalog is not None and catalog.is_of(listings):
            return catalog
        before = catalog or next(reversed(self._catalogs.values()), None)  # what is compiled is the same for all
        self._catalogs.pop(own, None)
        if len(self._catalogs) >= _MAX_CATALOGS:
            self._catalogs.pop(next(iter(self._catalogs)))
        catalog = self._catalogs[own] = compose(listings, self.collisions, before)
        self._views = {key: view for key, view in self._views.items() if key[0] in self._catalogs and key[0] != own}
        return catalog

    def _selected(
        self, catalog: Catalog, selection: ToolSelection, hidden: frozenset[str], roles: frozenset[str]
    ) -> View:
        view = selected(catalog, selection, hidden, roles, self.allows)
        if not self.find_above or len(view.entries) <= self.find_above:
            return view
        named = (name for name in (*selection.include, *selection.narrow) if "*" not in name)
        return findable(view, pattern_of((*self.pinned, *named)))

    def _may_have(self, source: Source, roles: frozenset[str]) -> bool:
        """Whether these roles can have anything of it; else its caller is not to know that it is there."""
        return self.access.may_have(roles, source.namespace, source.kind)

    def problems(self, tools: Sequence[ClientTool]) -> Sequence[FieldViolation]:
        """What is wrong with a caller's own tools."""
        return client_tool_problems(tools)

    async def aclose(self) -> None:
        """Stop all sources, side by side, within ``close_timeout`` seconds."""
        with anyio.move_on_after(self.close_timeout, shield=True) as scope:
            async with anyio.create_task_group() as group:
                for member in self._members:
                    group.start_soon(member.toolset.aclose)
        if scope.cancelled_caught:
            _LOG.warning("tool sources did not stop within %s s", self.close_timeout)

    def _patience(self, source: Source) -> float:
        return max(self.discovery_timeout, self.required_timeout) if source.required else self.discovery_timeout

    def _left(self, member: _Member) -> float:
        """Seconds that a source may hold up this view: what it has been waited for before, nobody waits again."""
        now = anyio.current_time()
        if member.asked_at is None:
            member.asked_at = now
        return max(member.asked_at + self._patience(member.source) - now, _GRACE)

    async def _listings(
        self, members: Sequence[_Member], mine: Sequence[bool], uses: Sequence[bool], *, patient: bool
    ) -> tuple[Listing, ...]:
        """What each offers. ``mine``: it is no other tenant's, whose sources are not asked for this view; ``uses``: the
        caller may have something of it.
        """
        found: list[Listing | None] = [None] * len(members)

        async def ask(index: int, member: _Member) -> None:
            with anyio.move_on_after(self._left(member) if patient and member.holds_up(uses[index]) else _GRACE):
                found[index] = await _listing(member)

        with anyio.move_on_after(_GRACE):  # those that have answered before do so at once: no tasks for them
            for index, member in enumerate(members):
                if member.known and mine[index]:
                    found[index] = await _listing(member)
        left = [
            index
            for index, member in enumerate(members)
            if mine[index] and found[index] is None and member.asked(patient, uses[index])
        ]
        if left:
            async with anyio.create_task_group() as group:
                for index in left:
                    group.start_soon(ask, index, members[index])
        for index, member in enumerate(members):
            member.known = found[index] is not None if mine[index] else member.known
        return tuple(listing or _not_known(member) for member, listing in zip(members, found, strict=True))


async def _listing(member: _Member) -> Listing:
    toolset, priority = member.toolset, member.source.priority
    try:
        tools = await toolset.tools()
    except ToolError as error:
        return Listing(toolset, failures=(error.failure,), usable=False)
    except ANY_FAULT as error:  # boundary: a source that breaks its port fails alone
        require_stray(error)
        _LOG.warning("tool source %s failed: %s", toolset.set_id, where_raised(error))
        fault = _unavailable(member.source, f"its discovery raised {type(error).__name__}")
        return Listing(toolset, failures=(fault,), usable=False)
    failure = toolset.failure
    failures = (*(() if failure is None else (failure,)), *toolset.left_out)
    return Listing(toolset, tools, failures, usable=failure is None or bool(tools), priority=priority)


def _not_known(member: _Member) -> Listing:
    words = "it has not said yet what it offers; it goes on being asked"
    return Listing(member.toolset, failures=(_unavailable(member.source, words),), usable=False)


def _unavailable(source: Source, why: str) -> Failure:
    set_id = source.toolset.set_id
    return Failure(
        phase=FailurePhase.ROUTING,
        reason=Reason.MCP_UNAVAILABLE if source.kind is ToolSource.MCP else Reason.TOOL_SOURCE_UNAVAILABLE,
        message=f"tool source {set_id!r} is left out: {why}",
        retryable=True,
        origin=set_id,
    )
