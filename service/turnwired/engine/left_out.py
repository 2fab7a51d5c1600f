"""What a run goes without, so that nobody wonders why the model did not call it. Knows a view by its port."""

from __future__ import annotations

from turnwired.domain.failure import Reason
from turnwired.domain.outcome import Notice
from turnwired.tools.port import ToolView

MOST_NOTICES = 20
"""Tools and sources that a run names in its log; ListTools names all."""


def notices_of(view: ToolView | None) -> tuple[Notice, ...]:
    """Sources and tools left out, and names that several tools claim, as far as the run's selection lets them in."""
    if view is None or not (view.failures or view.own_collisions):
        return ()
    found = [Notice(failure.reason, failure.message, {"origin": failure.origin}) for failure in view.failures]
    for collision in view.own_collisions:
        words = ". ".join(f"{sentence[0].upper()}{sentence[1:]}" for sentence in collision.sentences())
        told = {"tool": collision.routed_name, "resolution": collision.resolution.value}
        found.append(Notice(Reason.TOOL_NAME_COLLISION, f"{words}.", told))
    return tuple(found[:MOST_NOTICES])
