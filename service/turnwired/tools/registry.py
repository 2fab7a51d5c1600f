"""The registry: all tool sources of a deployment as one list of tools, checked and executed the same way.

It knows sources only as ``Toolset``. What the model may call is decided elsewhere; here it is decided what there is.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import anyio

from turnwired.domain.errors import FieldViolation, ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.faults import where_raised
from turnwired.domain.run import Caller
from turnwired.domain.tool import (
    ClientTool,
    CollisionResolution,
    Tool,
    ToolCollision,
    ToolRef,
    ToolSelection,
    ToolSource,
)
from turnwired.stray import ANY_FAULT, require_stray
from turnwired.tools.client import client_tool_problems, client_toolsets
from turnwired.tools.naming import pattern_of, routed_name
from turnwired.tools.port import AsksPermission, Toolset, ToolView
from turnwired.tools.schema import compile_schema
from turnwired.tools.view import Entry, Joined, View

_LOG = logging.getLogger(__name__)
_MAX_CACHED_VIEWS: Final = 64


@dataclass(frozen=True, slots=True)
class Source:
    """A toolset and how the deployment uses it.

    ``namespace``: put in front of each name, ``None`` for plain names. ``include`` and ``exclude`` are patterns of
    native names. ``required``: without it no run may start.
    """

    toolset: Toolset
    namespace: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    required: bool = False


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """What a source said when asked: ``tools`` is the same object for as long as nothing has changed."""

    tools: Sequence[Tool] = ()
    failures: tuple[Failure, ...] = ()
    usable: bool = True


@dataclass(frozen=True, slots=True)
class _Catalog:
    """All tools by routed name, in the order that models see: source by source, then by native name."""

    snapshots: tuple[_Snapshot, ...]
    entries: Mapping[str, Entry]
    failures: tuple[Failure, ...]
    collisions: tuple[ToolCollision, ...]
    views: dict[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], View] = field(default_factory=dict)


@dataclass(slots=True)
class Registry:
    """A ``ToolRegistry`` over the sources of a deployment.

    The order of ``sources`` is the order of tools, and says who keeps a name that two of them claim.
    ``discovery_timeout`` (seconds) bounds how long a view waits for sources that are still being discovered, and
    ``required_timeout`` how long for those without which there is no run. The first start of an MCP server on a busy
    machine takes longer than the former.
    """

    sources: Sequence[Source]
    discovery_timeout: float = 10.0
    required_timeout: float = 60.0
    close_timeout: float = 12.0
    _catalog: _Catalog | None = None

    async def start(self) -> None:
        """Start all sources, side by side."""
        async with anyio.create_task_group() as group:
            for source in self.sources:
                group.start_soon(source.toolset.start)

    async def view(
        self,
        selection: ToolSelection,
        caller: Caller,  # noqa: ARG002  callers have no roles yet
        more: Sequence[Toolset] = (),
    ) -> ToolView:
        """The tools of a run, fixed from here on. Raises ToolError as its port says."""
        view = await self._view(selection)
        beside = (*more, *client_toolsets(selection.client_tools))
        return await joined(view, beside, selection) if beside else view

    async def _view(self, selection: ToolSelection) -> View:
        snapshots = await self._snapshots()
        for source, snapshot in zip(self.sources, snapshots, strict=True):
            if source.required and not snapshot.usable:
                raise ToolError(snapshot.failures[0])
        catalog = self._catalog
        if catalog is None or not _same(catalog.snapshots, snapshots):
            catalog = self._catalog = _compose(self.sources, snapshots)
        key = (selection.include, selection.exclude, selection.narrow)
        view = catalog.views.get(key)
        if view is None:
            if len(catalog.views) >= _MAX_CACHED_VIEWS:
                catalog.views.pop(next(iter(catalog.views)))
            view = catalog.views[key] = _select(catalog, selection)
        return view

    def problems(self, tools: Sequence[ClientTool]) -> Sequence[FieldViolation]:
        """What is wrong with a caller's own tools."""
        return client_tool_problems(tools)

    async def aclose(self) -> None:
        """Stop all sources, side by side, within ``close_timeout`` seconds."""
        with anyio.move_on_after(self.close_timeout, shield=True) as scope:
            async with anyio.create_task_group() as group:
                for source in self.sources:
                    group.start_soon(source.toolset.aclose)
        if scope.cancelled_caught:
            _LOG.warning("tool sources did not stop within %s s", self.close_timeout)

    def _patience(self, source: Source) -> float:
        return max(self.discovery_timeout, self.required_timeout) if source.required else self.discovery_timeout

    async def _snapshots(self) -> tuple[_Snapshot, ...]:
        found: list[_Snapshot | None] = [None] * len(self.sources)

        async def ask(index: int, source: Source) -> None:
            with anyio.move_on_after(self._patience(source)):
                await look(index, source.toolset)

        async def look(index: int, toolset: Toolset) -> None:
            try:
                tools = await toolset.tools()
            except ToolError as error:
                found[index] = _Snapshot(failures=(error.failure,), usable=False)
                return
            except ANY_FAULT as error:  # boundary: a source that breaks its port fails alone
                require_stray(error)
                _LOG.warning("tool source %s failed: %s", toolset.set_id, where_raised(error))
                found[index] = _Snapshot(
                    failures=(_unavailable(toolset, f"its discovery raised {type(error).__name__}"),), usable=False
                )
                return
            failure = toolset.failure
            found[index] = _Snapshot(
                tools,
                (*(() if failure is None else (failure,)), *toolset.left_out),
                usable=failure is None or bool(tools),
            )

        async with anyio.create_task_group() as group:
            for index, source in enumerate(self.sources):
                group.start_soon(ask, index, source)
        return tuple(
            snapshot
            if snapshot is not None
            else _Snapshot(
                failures=(
                    _unavailable(
                        source.toolset,
                        f"its tools were not known within {self._patience(source):g} s; it goes on trying",
                    ),
                ),
                usable=False,
            )
            for source, snapshot in zip(self.sources, found, strict=True)
        )


async def joined(view: ToolView, more: Sequence[Toolset], selection: ToolSelection) -> ToolView:
    """The view with the tools of ``more`` behind it, under their native names. Raises TOOL_NAME_COLLISION.

    They are there because the run names them: of the selection only what leaves out or narrows counts, and what the
    caller brings itself it has not narrowed away.
    """
    exclude, narrow = pattern_of(selection.exclude), pattern_of(selection.narrow)
    taken = {tool.ref.routed_name for tool in view.tools}
    entries: dict[str, Entry] = {}
    failures: list[Failure] = []
    for toolset in more:
        failures += toolset.left_out
        for tool in await toolset.tools():
            entry = _entry(Source(toolset), tool)
            if isinstance(entry, Failure):
                failures.append(entry)
                continue
            routed = entry.tool.ref.routed_name
            named = (not selection.narrow or narrow.fullmatch(routed)) and not exclude.fullmatch(routed)
            if not named and tool.ref.source is not ToolSource.CLIENT:  # the caller's own are beside the selection
                continue
            if routed in taken:
                raise ToolError(_taken(toolset, routed))
            taken.add(routed)
            entries[routed] = entry
    return Joined(view, View(entries, tuple(failures)))


def _taken(toolset: Toolset, routed: str) -> Failure:
    words = f"The name {routed!r} of a tool of {toolset.set_id!r} is taken by another tool of this run. Rename one."
    return Failure(FailurePhase.ROUTING, Reason.TOOL_NAME_COLLISION, words, origin=toolset.set_id)


def _same(old: tuple[_Snapshot, ...], new: tuple[_Snapshot, ...]) -> bool:
    return all(a.tools is b.tools and a.failures == b.failures for a, b in zip(old, new, strict=True))


def _compose(sources: Sequence[Source], snapshots: tuple[_Snapshot, ...]) -> _Catalog:
    entries: dict[str, Entry] = {}
    losers: dict[str, list[ToolRef]] = {}
    failures: list[Failure] = []
    for source, snapshot in zip(sources, snapshots, strict=True):
        failures += snapshot.failures
        include, exclude = pattern_of(source.include), pattern_of(source.exclude)
        for tool in sorted(snapshot.tools, key=lambda tool: tool.ref.native_name):
            native = tool.ref.native_name
            if (source.include and not include.fullmatch(native)) or exclude.fullmatch(native):
                continue
            entry = _entry(source, tool)
            if isinstance(entry, Failure):
                failures.append(entry)
                continue
            routed = entry.tool.ref.routed_name
            if entries.setdefault(routed, entry) is not entry:
                losers.setdefault(routed, []).append(entry.tool.ref)
    collisions = tuple(
        ToolCollision(routed, entries[routed].tool.ref, tuple(refs), CollisionResolution.PRIORITY)
        for routed, refs in losers.items()
    )
    return _Catalog(snapshots, entries, tuple(failures), collisions)


def _entry(source: Source, tool: Tool) -> Entry | Failure:
    native = tool.ref.native_name
    schema = compile_schema(tool.input_schema_json)
    if not native or isinstance(schema, str):
        why = schema if native else "it has no name"
        return Failure(
            phase=FailurePhase.ROUTING,
            reason=Reason.TOOL_QUARANTINED,
            message=f"tool {native!r} of {source.toolset.set_id!r} is left out: {why}",
            origin=f"{source.toolset.set_id}/{native}",
        )
    ref = replace(tool.ref, routed_name=routed_name(source.namespace, native))
    described = replace(tool, ref=ref, input_schema_json=schema.offered_json)
    return Entry(source.toolset, described, schema, asks=isinstance(source.toolset, AsksPermission))


def _select(catalog: _Catalog, selection: ToolSelection) -> View:
    include, exclude = pattern_of(selection.include), pattern_of(selection.exclude)
    narrow = pattern_of(selection.narrow)
    entries = {
        name: entry
        for name, entry in catalog.entries.items()
        if (not selection.include or include.fullmatch(name))
        and (not selection.narrow or narrow.fullmatch(name))
        and not exclude.fullmatch(name)
    }
    unmatched = tuple(
        Failure(
            phase=FailurePhase.ROUTING,
            reason=Reason.TOOL_NOT_FOUND,
            message=f"the selection includes {pattern!r}, which no available tool matches",
        )
        for pattern in (*selection.include, *selection.narrow)
        if not any(pattern_of((pattern,)).fullmatch(name) for name in catalog.entries)
    )
    return View(entries, (*catalog.failures, *unmatched), catalog.collisions)


def _unavailable(toolset: Toolset, why: str) -> Failure:
    return Failure(
        phase=FailurePhase.ROUTING,
        reason=Reason.MCP_UNAVAILABLE,
        message=f"tool source {toolset.set_id!r} is left out: {why}",
        retryable=True,
        origin=toolset.set_id,
    )
