"""Tables of tools and policy values for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from turnwired.cli.render import seen
from turnwired.domain.policy import EffectivePolicy
from turnwired.domain.tool import Tool, ToolCollision, ToolRef
from turnwired.policy.leaves import LEAVES, value_at
from turnwired.policy.text import as_text


def tool_table(tools: Sequence[Tool]) -> Table:
    """Name, source and the first line of the description."""
    table = Table(box=None, pad_edge=False)
    for column in ("tool", "source", "what it does"):
        table.add_column(column)
    for tool in tools:
        first = tool.description.strip().splitlines()[0] if tool.description.strip() else ""
        cells = (tool.ref.routed_name, _source(tool.ref), seen(first))
        table.add_row(*map(Text, cells))  # as Text: a server's own words are no markup of ours
    return table


def collision_words(collision: ToolCollision) -> Iterator[str]:
    """One sentence for each tool that is left out because another has its name."""
    for loser in collision.losers:
        holder = collision.winner
        why = "is claimed by others" if holder is None else f"belongs to {holder.native_name!r} of {_source(holder)}"
        yield (
            f"tool {loser.native_name!r} of {_source(loser)} is left out: the name {collision.routed_name!r} {why}; "
            "rename one, or give one source a namespace"
        )


def _source(ref: ToolRef) -> str:
    return f"{ref.source.value.lower()} {ref.server_id or ''}".strip()


def policy_table(effective: EffectivePolicy) -> Table:
    """Path, value, the layer that supplied it, and what the ceiling cut."""
    sources = {item.path: item for item in effective.provenance}
    table = Table(box=None, pad_edge=False)
    for column in ("path", "value", "layer", "from"):
        table.add_column(column)
    for leaf in LEAVES:
        item = sources.get(leaf.path)
        value = value_at(effective.policy, leaf)
        if item is None or value is None:
            continue
        cut = f" (asked for {item.requested_json})" if item.requested_json else ""
        table.add_row(leaf.path, Text(as_text(leaf, value)), item.layer.value.lower(), Text(f"{item.layer_ref}{cut}"))
    return table
