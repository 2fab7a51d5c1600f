"""All tools of a deployment by routed name, composed from what its sources list. Pure; it asks no source anything.

What sources say in whatever order gives one catalog: the order is that of the sources, then of native names, and who
has a name that several claim is decided by a policy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.text import clean_text
from turnwired.domain.tool import CollisionResolution, Tool, ToolCollision, ToolRef
from turnwired.tools.naming import routed_name
from turnwired.tools.port import AsksPermission, Toolset
from turnwired.tools.schema import MAX_SCHEMA_BYTES, compile_schema
from turnwired.tools.view import Entry

MAX_NAME: Final = 256
"""Characters of what a source calls a tool."""
MAX_DESCRIPTION: Final = 64 * 1024
"""Characters of title and description together: a model reads them with every request."""
MAX_QUARANTINED_TOLD: Final = 100
"""Tools of one source that are told of one by one when they cannot be offered."""
_ROUTED: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class CollisionPolicy(StrEnum):
    """Who has a name that tools of several sources claim.

    PRIORITY: the source of the highest priority, the first among equals. NAMESPACE: nobody; each claimant gets its
    source's id in front. REJECT: nobody. What one source lists twice is its first, whatever the policy.
    """

    PRIORITY = "priority"
    NAMESPACE = "namespace"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class Listing:
    """What a source said when asked: ``tools`` is the same object for as long as nothing has changed."""

    toolset: Toolset
    tools: Sequence[Tool] = ()
    failures: tuple[Failure, ...] = ()
    usable: bool = True
    priority: int = 0

    def is_as(self, other: Listing) -> bool:
        """Whether nothing has changed."""
        same = self.toolset is other.toolset and self.tools is other.tools and self.priority == other.priority
        return same and self.failures == other.failures


@dataclass(frozen=True, slots=True)
class Catalog:
    """``entries`` by routed name, in the order that models see. ``made``: what became of each listed tool, by source
    and native name, so that what stays as it is need not be compiled again.
    """

    listings: tuple[Listing, ...] = ()
    entries: Mapping[str, Entry] = field(default_factory=dict[str, Entry])
    failures: tuple[Failure, ...] = ()
    collisions: tuple[ToolCollision, ...] = ()
    made: Mapping[str, Mapping[str, tuple[Tool, Entry | Failure]]] = field(
        default_factory=dict[str, Mapping[str, tuple[Tool, "Entry | Failure"]]]
    )

    def is_of(self, listings: Sequence[Listing]) -> bool:
        """Whether these listings would give the same catalog."""
        return len(listings) == len(self.listings) and all(map(Listing.is_as, listings, self.listings))


@dataclass(frozen=True, slots=True)
class _Claim:
    source: int
    priority: int
    entry: Entry

    @property
    def ref(self) -> ToolRef:
        return self.entry.tool.ref

    def named(self, name: str) -> _Claim:
        return replace(self, entry=renamed(self.entry, name))


def compose(listings: Sequence[Listing], policy: CollisionPolicy, before: Catalog | None = None) -> Catalog:
    """The catalog of these listings. Of ``before`` it takes over what has not changed."""
    failures: list[Failure] = []
    claims: list[_Claim] = []
    made: dict[str, dict[str, tuple[Tool, Entry | Failure]]] = {}
    for index, listing in enumerate(listings):
        failures += listing.failures
        known = {} if before is None else before.made.get(listing.toolset.set_id, {})
        mine = made.setdefault(listing.toolset.set_id, {})
        unfit: list[Failure] = []
        for tool in sorted(listing.tools, key=lambda tool: tool.ref.native_name):
            old = known.get(tool.ref.native_name)
            entry = _kept(old, listing.toolset, tool) or entry_of(listing.toolset, tool)
            mine[tool.ref.native_name] = tool, entry
            if isinstance(entry, Failure):
                unfit.append(entry)
            else:
                claims.append(_Claim(index, listing.priority, entry))
        failures += _told(listing.toolset.set_id, unfit)
    held, collisions = _settled(claims, policy)
    return Catalog(tuple(listings), held, tuple(failures), tuple(collisions), made)


def _told(set_id: str, unfit: Sequence[Failure]) -> Sequence[Failure]:
    """The failures of a source's tools: one by one while they are few, the others by their number."""
    if len(unfit) <= MAX_QUARANTINED_TOLD:
        return unfit
    words = f"{len(unfit) - MAX_QUARANTINED_TOLD} more tools of {set_id!r} are left out"
    more = Failure(FailurePhase.ROUTING, Reason.TOOL_QUARANTINED, words, origin=set_id)
    return (*unfit[:MAX_QUARANTINED_TOLD], more)


def entry_of(toolset: Toolset, tool: Tool) -> Entry | Failure:
    """The tool as it can be offered under a routed name that fits every provider, or why it cannot."""
    native = tool.ref.native_name
    schema = _unfit(tool) or compile_schema(tool.input_schema_json)
    if isinstance(schema, str):
        shown = clean_text(native[:MAX_NAME])
        return Failure(
            phase=FailurePhase.ROUTING,
            reason=Reason.TOOL_QUARANTINED,
            message=f"tool {shown!r} of {toolset.set_id!r} is left out: {schema}",
            origin=f"{toolset.set_id}/{shown}",
        )
    name = tool.ref.routed_name or native
    name = name if _ROUTED.fullmatch(name) else routed_name(None, name)
    ref = tool.ref if tool.ref.routed_name == name else replace(tool.ref, routed_name=name)
    given = tool.input_schema_json if tool.input_schema_json != schema.offered_json else None
    described = replace(tool, ref=ref, input_schema_json=schema.offered_json, given_schema_json=given)
    return Entry(toolset, described, schema, asks=isinstance(toolset, AsksPermission))


def _unfit(tool: Tool) -> str:
    """Why no request could carry the tool, whatever its schema says; empty where one can."""
    native = tool.ref.native_name
    if not native:
        return "it has no name"
    if len(native) > MAX_NAME or not native.isprintable():
        return f"its name has more than {MAX_NAME} characters, or some that cannot be printed"
    if len(tool.description) + len(tool.title) > MAX_DESCRIPTION:
        return f"its description is longer than {MAX_DESCRIPTION} characters"
    if len(tool.output_schema_json or "") > MAX_SCHEMA_BYTES:
        return f"its output schema is longer than {MAX_SCHEMA_BYTES} bytes"
    return ""


def renamed(entry: Entry, name: str) -> Entry:
    """The same tool under another routed name."""
    return replace(entry, tool=replace(entry.tool, ref=replace(entry.tool.ref, routed_name=name)))


def _kept(old: tuple[Tool, Entry | Failure] | None, toolset: Toolset, tool: Tool) -> Entry | Failure | None:
    if old is None or old[0] != tool or (isinstance(old[1], Entry) and old[1].toolset is not toolset):
        return None
    return old[1]


def _settled(claims: Sequence[_Claim], policy: CollisionPolicy) -> tuple[dict[str, Entry], list[ToolCollision]]:
    by_name: dict[str, list[_Claim]] = {}
    for claim in claims:
        by_name.setdefault(claim.ref.routed_name, []).append(claim)
    collisions: list[ToolCollision] = []
    kept: list[_Claim] = []
    renamed_anew = False
    for name, claimants in by_name.items():
        if len(claimants) == 1:
            kept += claimants
            continue
        of_sources = _first_of_each_source(name, claimants, collisions)
        if len(of_sources) == 1:
            kept += of_sources
        elif policy is CollisionPolicy.NAMESPACE:
            anew = [claim.named(routed_name(claim.entry.toolset.set_id, name)) for claim in of_sources]
            refs = tuple(claim.ref for claim in anew)
            collisions.append(ToolCollision(name, None, refs, CollisionResolution.NAMESPACED))
            kept += anew
            renamed_anew = True
        elif policy is CollisionPolicy.REJECT:
            refs = tuple(claim.ref for claim in of_sources)
            collisions.append(ToolCollision(name, None, refs, CollisionResolution.REJECTED))
        else:
            kept.append(_won(name, of_sources, collisions))
    if not renamed_anew:
        return _in_order(claims, kept), collisions
    # A name with its source in front may be somebody's own already.
    entries, more = _settled(kept, CollisionPolicy.PRIORITY)
    order = {name: place for place, name in enumerate(_in_order(claims, kept))}
    return dict(sorted(entries.items(), key=lambda item: order[item[0]])), [*collisions, *more]


def _in_order(claims: Sequence[_Claim], kept: Sequence[_Claim]) -> dict[str, Entry]:
    """Entries in the order of the claims, under the names that they have now."""
    places = {(claim.source, claim.ref.native_name): place for place, claim in reversed(list(enumerate(claims)))}
    ordered = sorted(kept, key=lambda claim: places[claim.source, claim.ref.native_name])
    return {claim.ref.routed_name: claim.entry for claim in ordered}


def _first_of_each_source(name: str, claims: Sequence[_Claim], collisions: list[ToolCollision]) -> list[_Claim]:
    first: dict[int, _Claim] = {}
    again: dict[int, list[_Claim]] = {}
    for claim in claims:
        if first.setdefault(claim.source, claim) is not claim:
            again.setdefault(claim.source, []).append(claim)
    if len(first) == 1:
        return [_won(name, claims, collisions)] if again else list(first.values())
    for source, losers in again.items():
        refs = tuple(claim.ref for claim in losers)
        collisions.append(ToolCollision(name, first[source].ref, refs, CollisionResolution.PRIORITY))
    return list(first.values())


def _won(name: str, claims: Sequence[_Claim], collisions: list[ToolCollision]) -> _Claim:
    winner = max(claims, key=lambda claim: claim.priority)  # the first among equals
    losers = tuple(claim.ref for claim in claims if claim is not winner)
    collisions.append(ToolCollision(name, winner.ref, losers, CollisionResolution.PRIORITY))
    return winner
