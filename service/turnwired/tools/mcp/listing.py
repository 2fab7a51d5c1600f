"""Lists of a server, which come in pages: read whole, within bounds, whatever they say. Imports nothing of the SDK."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, cast

import anyio.lowlevel

from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.tool import Tool
from turnwired.tools.mcp.content import tool_of
from turnwired.tools.mcp.link import Answer, Answered, Listing, Lost, Refused
from turnwired.tools.result import redact

MAX_PAGES: Final = 200
MAX_TOOLS: Final = 10_000
MAX_ENTRIES: Final = 2 * MAX_TOOLS
"""Of all pages together that are looked at: tools, and what is none."""
MAX_LEFT_OUT: Final = 100
"""Entries left out that are told one by one; the others are counted."""
_AT_ONCE: Final = 50
"""Entries between two turns of the event loop: one page may hold a million."""
_MAX_FRESH: Final = 24 * 3600.0
_METHOD_NOT_FOUND: Final = -32601  # of JSON-RPC

Ask = Callable[[str, Mapping[str, object]], Awaitable[Answer]]
"""Makes a request of a method with these parameters."""
Checked = Callable[[Tool, object], Tool | Failure]
"""A tool and its entry as it came: the tool, or why it cannot be offered over this transport."""


async def read_tools(server_id: str, ask: Ask, checked: Checked) -> Listing:
    """All pages, at most 200 of them and 10,000 tools. Raises ToolError when there is no first page."""
    found, pages = _Found(server_id, checked), _Pages(MAX_ENTRIES)
    while pages.more:
        page = await _page_of_tools(server_id, ask, pages)
        pages.next(page.get("nextCursor"), await found.take(page))
    return found.listing(endless=pages.endless)


async def read_all(ask: Ask, method: str, key: str) -> Sequence[Mapping[str, object]] | Lost | Refused:
    """All pages of another list, within the same bounds; empty where the server has no such list."""
    found: list[Mapping[str, object]] = []
    pages = _Pages()
    while pages.more:
        answer = await ask(method, pages.params)
        match answer:
            case Answered(result):
                entries = result.get(key)
                if isinstance(entries, list):
                    found += [cast("Mapping[str, object]", entry) for entry in entries if isinstance(entry, dict)]
                pages.next(result.get("nextCursor"), len(found))
            case Refused(code) if code == _METHOD_NOT_FOUND:
                return ()
            case _:
                return answer
    return found[:MAX_TOOLS]


async def _page_of_tools(server_id: str, ask: Ask, pages: _Pages) -> Mapping[str, object]:
    answer = await ask("tools/list", pages.params)
    match answer:
        case Answered(result):
            return result
        case Refused(code, message):
            if code == _METHOD_NOT_FOUND and pages.cursor is None:
                return {}  # a server of resources or prompts only
            words = f"{server_id!r} refuses to list its tools: {redact(message, 300)}"
            raise ToolError(_discovery_failure(server_id, words, str(code)))
        case Lost(why=why):
            words = f"{server_id!r} {why} while it listed its tools"
            code_of = "" if answer.status is None else str(answer.status)
            raise ToolError(_discovery_failure(server_id, words, code_of))


def _discovery_failure(server_id: str, words: str, code: str = "") -> Failure:
    return Failure(
        phase=FailurePhase.ROUTING,
        reason=Reason.MCP_DISCOVERY_FAILED,
        message=words,
        retryable=True,
        origin=server_id,
        origin_code=code,
    )


class _Found:
    """What was found of a list of tools, page by page."""

    def __init__(self, server_id: str, checked: Checked) -> None:
        self._server_id = server_id
        self._checked = checked
        self._tools: list[Tool] = []
        self._left: list[Failure] = []
        self._more = 0
        self._looked = 0
        self._cut = False
        self._fresh_for: float | None = None

    async def take(self, page: Mapping[str, object]) -> int:
        """Take a page over, while others have their turn. How many entries there were so far."""
        entries = page.get("tools")
        for entry in cast("list[object]", entries) if isinstance(entries, list) else ():
            if self._looked == MAX_ENTRIES or len(self._tools) == MAX_TOOLS:
                self._cut = True
                return MAX_ENTRIES + 1
            if self._looked % _AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()
            self._looked += 1
            self._add(entry)
        if (lasts := _fresh_for(page)) is not None:
            self._fresh_for = lasts if self._fresh_for is None else min(lasts, self._fresh_for)
        return self._looked

    def _add(self, entry: object) -> None:
        tool = tool_of(self._server_id, entry)
        tool = tool if isinstance(tool, Failure) else self._checked(tool, entry)
        if isinstance(tool, Tool):
            self._tools.append(tool)
        elif len(self._left) < MAX_LEFT_OUT:
            self._left.append(tool)
        else:
            self._more += 1

    def listing(self, *, endless: bool) -> Listing:
        """All of it. ``endless``: pages were left that were not asked for."""
        left = list(self._left)
        of = f"the tool list of {self._server_id!r}"
        if self._more:
            left.append(_discovery_failure(self._server_id, f"{of} has {self._more} more entries that are left out"))
        if endless or self._cut:
            words = f"{of} does not end (repeated cursor, or too many pages or tools)"
            words = f"{words}; {len(self._tools)} tools of it are used"
            left.append(_discovery_failure(self._server_id, words))
        return Listing(tuple(self._tools), tuple(left), self._fresh_for)


class _Pages:
    """Where a list that comes in pages stands. ``most``: entries after which no page is asked for."""

    def __init__(self, most: int = MAX_TOOLS) -> None:
        self._most = most
        self.cursor: str | None = None
        self.more = True
        self.endless = False
        self._seen: set[str] = set()

    @property
    def params(self) -> Mapping[str, object]:
        """Of the request for the next page."""
        return {} if self.cursor is None else {"cursor": self.cursor}

    def next(self, cursor: object, found: int) -> None:
        """Go on to the page of this cursor, if it is one and not too much has been found."""
        self.more = isinstance(cursor, str)
        if isinstance(cursor, str):
            self.endless = cursor in self._seen or found > self._most or len(self._seen) + 1 >= MAX_PAGES
            self.more = not self.endless
            self._seen.add(cursor)
            self.cursor = cursor


def _fresh_for(page: Mapping[str, object]) -> float | None:
    ttl = page.get("ttlMs")
    if isinstance(ttl, bool) or not isinstance(ttl, int | float):
        return None
    return min(max(0, ttl), _MAX_FRESH * 1000) / 1000  # bounded first: an integer may be too large for a division
