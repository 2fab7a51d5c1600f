"""What one run sees of the catalog of a deployment: selected, filtered by roles, with the run's own sources behind it.

Pure but for asking a run's own sources what they have. It knows neither how sources are asked nor when.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.tool import ToolSelection, ToolSource
from turnwired.tools.access import EVERYBODY, Allows
from turnwired.tools.catalog import Catalog, entry_of
from turnwired.tools.naming import pattern_of
from turnwired.tools.port import Toolset, ToolView
from turnwired.tools.view import Entry, Joined, View


async def joined(
    view: ToolView,
    more: Sequence[Toolset],
    selection: ToolSelection,
    roles: frozenset[str] = frozenset(),
    allows: Allows = EVERYBODY,
) -> ToolView:
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
            entry = entry_of(toolset, tool)
            if isinstance(entry, Failure):
                failures.append(entry)
                continue
            routed = entry.tool.ref.routed_name
            named = (not selection.narrow or narrow.match(routed)) and not exclude.match(routed)
            if not named and tool.ref.source is not ToolSource.CLIENT:  # the caller's own are beside the selection
                continue
            if not allows(roles, entry.tool.ref):
                continue
            if routed in taken:
                raise ToolError(_taken(toolset, routed))
            taken.add(routed)
            entries[routed] = entry
    return Joined(view, View(entries, tuple(failures), roles=roles, allows=allows))


def _taken(toolset: Toolset, routed: str) -> Failure:
    words = f"The name {routed!r} of a tool of {toolset.set_id!r} is taken by another tool of this run. Rename one."
    return Failure(FailurePhase.ROUTING, Reason.TOOL_NAME_COLLISION, words, origin=toolset.set_id)


def selected(
    catalog: Catalog, selection: ToolSelection, hidden: frozenset[str], roles: frozenset[str], allows: Allows
) -> View:
    include, exclude = pattern_of(selection.include), pattern_of(selection.exclude)
    narrow = pattern_of(selection.narrow)

    def lets_in(name: str) -> bool:
        return (
            (not selection.include or include.match(name))
            and (not selection.narrow or narrow.match(name))
            and not exclude.match(name)
        )

    # What the caller may not have is told in no way: not by name, not as one side of a collision, not by a pattern.
    visible = {
        name: entry
        for name, entry in catalog.entries.items()
        if entry.toolset.set_id not in hidden and allows(roles, entry.tool.ref)
    }
    failures = _failures_for(catalog, visible, hidden, roles, allows)
    collisions = tuple(
        collision
        for collision in catalog.collisions
        if not any(ref.server_id in hidden or not allows(roles, ref) for ref in collision.claimants)
    )
    entries = {name: entry for name, entry in visible.items() if lets_in(name)}
    unmatched = tuple(
        Failure(
            phase=FailurePhase.ROUTING,
            reason=Reason.TOOL_NOT_FOUND,
            message=f"the selection includes {pattern!r}, which no available tool matches",
        )
        for pattern in (*selection.include, *selection.narrow)
        if not any(pattern_of((pattern,)).match(name) for name in visible)
    )
    own = tuple(
        collision
        for collision in collisions
        if lets_in(collision.routed_name) or any(lets_in(ref.routed_name) for ref in collision.losers)
    )
    return View(entries, (*failures, *unmatched), collisions, own, roles, allows)


def _failures_for(
    catalog: Catalog, visible: Mapping[str, Entry], hidden: frozenset[str], roles: frozenset[str], allows: Allows
) -> tuple[Failure, ...]:
    """Those of what the caller may have: not of sources that have tools and none for it, nor of other tools."""
    if not catalog.failures:
        return ()
    there = {entry.toolset.set_id for entry in catalog.entries.values()}
    withheld = hidden | (there - {entry.toolset.set_id for entry in visible.values()})
    listed = (made for tools in catalog.made.values() for made in tools.values())
    denied = {id(made) for tool, made in listed if isinstance(made, Failure) and not allows(roles, tool.ref)}
    return tuple(
        failure
        for failure in catalog.failures
        if failure.origin.partition("/")[0] not in withheld and id(failure) not in denied
    )
