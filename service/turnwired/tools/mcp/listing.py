"""What is kept of a list that a server sends in pages: bounded, whatever it holds and however long it goes on.

Knows entries and cursors, not how pages are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import anyio.lowlevel

from turnwired.domain.failure import Failure
from turnwired.domain.tool import Tool
from turnwired.tools.mcp.content import list_cut
from turnwired.tools.mcp.link import Listing

MAX_PAGES: Final = 200
MAX_TOOLS: Final = 10_000
MAX_ENTRIES: Final = 2 * MAX_TOOLS
"""Of all pages together that are looked at: tools, and what is none."""
MAX_LEFT_OUT: Final = 100
"""Entries left out that are told one by one; the others are counted."""
_AT_ONCE: Final = 50
"""Entries between two turns of the event loop: one page may hold a million."""
_MAX_FRESH: Final = 24 * 3600.0


class Pages:
    """Where a list that comes in pages stands. ``most``: entries after which no page is asked for."""

    def __init__(self, most: int = MAX_TOOLS) -> None:
        self.cursor: str | None = None
        self.more = True
        self.endless = False
        self._most = most
        self._seen: set[str] = set()

    def next(self, cursor: object, found: int) -> None:
        """Go on to the page of this cursor, if it is one and not too much has been found."""
        self.more = isinstance(cursor, str)
        if isinstance(cursor, str):
            self.endless = cursor in self._seen or found > self._most or len(self._seen) + 1 >= MAX_PAGES
            self.more = not self.endless
            self._seen.add(cursor)
            self.cursor = cursor


class ToolPages:
    """Takes the pages of ``tools/list``. ``read``: the tool that an entry is, or why it cannot be offered."""

    def __init__(self, server_id: str, read: Callable[[object], Tool | Failure]) -> None:
        self.pages = Pages(MAX_ENTRIES)
        self._server_id = server_id
        self._read = read
        self._tools: list[Tool] = []
        self._left: list[Failure] = []
        self._unnamed = 0
        self._looked = 0
        self._cut = False
        self._fresh_for: float | None = None

    async def add(self, page: Mapping[str, object]) -> None:
        """Take one page over. Others have their turn meanwhile."""
        found = page.get("tools")
        entries: list[object] = found if isinstance(found, list) else []
        for entry in entries:
            if self._looked == MAX_ENTRIES or len(self._tools) == MAX_TOOLS:
                self._cut = True
                break
            if self._looked % _AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()
            self._looked += 1
            tool = self._read(entry)
            if isinstance(tool, Tool):
                self._tools.append(tool)
            elif len(self._left) < MAX_LEFT_OUT:
                self._left.append(tool)
            else:
                self._unnamed += 1
        if (lasts := _fresh_for(page)) is not None:
            self._fresh_for = lasts if self._fresh_for is None else min(lasts, self._fresh_for)
        self.pages.next(page.get("nextCursor"), MAX_ENTRIES + 1 if self._cut else self._looked)

    def listing(self) -> Listing:
        """What there is, and what was left out."""
        left = list(self._left)
        if self._unnamed:
            left.append(list_cut(self._server_id, f"leaves {self._unnamed} more of its entries out"))
        if self.pages.endless or self._cut:
            words = "does not end (repeated cursor, or too many pages or tools)"
            left.append(list_cut(self._server_id, f"{words}; {len(self._tools)} tools of it are used"))
        return Listing(tuple(self._tools), tuple(left), self._fresh_for)


def _fresh_for(page: Mapping[str, object]) -> float | None:
    ttl = page.get("ttlMs")
    if isinstance(ttl, bool) or not isinstance(ttl, int | float):
        return None
    return min(max(0, ttl), _MAX_FRESH * 1000) / 1000  # bounded first: an integer may be too large for a division
