"""Tables of tools, policy values and profiles for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from rich.table import Table
from rich.text import Text

from turnwired.cli.render import seen
from turnwired.domain.policy import EffectivePolicy, PolicyLayer, PolicyProvenance
from turnwired.domain.tool import Tool
from turnwired.policy.leaves import LEAVES, Leaf, LeafValue, value_at
from turnwired.policy.text import as_text


def tool_table(tools: Sequence[Tool]) -> Table:
    """Name, source and the first line of the description."""
    table = Table(box=None, pad_edge=False)
    for column in ("tool", "source", "what it does"):
        table.add_column(column)
    for tool in tools:
        first = tool.description.strip().splitlines()[0] if tool.description.strip() else ""
        cells = (tool.ref.routed_name, tool.ref.origin, seen(first))
        table.add_row(*map(Text, cells))  # as Text: a server's own words are no markup of ours
    return table


def policy_table(effective: EffectivePolicy) -> Table:
    """Path, value, the layer that supplied it, and what the ceiling cut: every leaf, and every entry of a map."""
    sources = {item.path: item for item in effective.provenance}
    table = Table(box=None, pad_edge=False)
    for column in ("path", "value", "layer", "from"):
        table.add_column(column)
    for leaf in LEAVES:
        for path, value in _values(leaf, value_at(effective.policy, leaf)):
            source = sources.get(path, PolicyProvenance(path, PolicyLayer.RUNTIME_DEFAULT))
            cut = f" (asked for {source.requested_json})" if source.requested_json else ""
            cells = (path, value or "(none)", source.layer.value.lower(), f"{source.layer_ref}{cut}")
            table.add_row(*map(Text, cells))
    return table


class ProfileLine(Protocol):
    """What the table of profiles shows of one."""

    @property
    def name(self) -> str: ...
    @property
    def wire(self) -> str: ...
    @property
    def base_url(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def problem(self) -> str: ...
    @property
    def configured(self) -> bool: ...


def profile_table(profiles: Sequence[ProfileLine]) -> Table:
    """Name, wire, base URL, where the key belongs, and whether calls can be made; ``*`` marks configured providers."""
    table = Table(box=None, pad_edge=False)
    for column in ("profile", "wire", "base URL", "key", "ready"):
        table.add_column(column, overflow="fold")
    for item in profiles:
        name = f"{item.name} *" if item.configured else item.name
        table.add_row(*map(Text, (name, item.wire, item.base_url, item.key or "(none)", item.problem or "yes")))
    return table


def _values(leaf: Leaf, value: LeafValue | None) -> Iterator[tuple[str, str]]:
    """Path and text of a leaf; those of its entries where it is a map that has any."""
    if isinstance(value, Mapping):
        for name, count in sorted(value.items()):
            yield f'{leaf.path}["{name}"]', str(count).lower()
    else:
        yield leaf.path, "" if value is None else as_text(leaf, value)
