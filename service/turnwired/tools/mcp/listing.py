"""Lists of a server, which come in pages: read whole, within bounds, whatever they say. Imports nothing of the SDK."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, cast

from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.tool import Tool
from turnwired.tools.mcp.content import tool_of
from turnwired.tools.mcp.link import Answer, Answered, Listing, Lost, Refused
from turnwired.tools.result import redact

MAX_PAGES: Final = 200
MAX_TOOLS: Final = 10_000
_MAX_FRESH: Final = 24 * 3600.0
_METHOD_NOT_FOUND: Final = -32601  # of JSON-RPC

Ask = Callable[[str, Mapping[str, object]], Awaitable[Answer]]
"""Makes a request of a method with these parameters."""
Checked = Callable[[Tool, object], Tool | Failure]
"""A tool and its entry as it came: the tool, or why it cannot be offered over this transport."""


async def read_tools(server_id: str, ask: Ask, checked: Checked) -> Listing:
    """All pages, at most 200 of them and 10,000 tools. Raises ToolError when there is no first page."""
    tools: list[Tool] = []
    left: list[Failure] = []
    fresh_for: float | None = None
    pages = _Pages()
    while pages.more:
        page = await _page_of_tools(server_id, ask, pages)
        entries = page.get("tools")
        for entry in entries if isinstance(entries, list) else ():
            tool = tool_of(server_id, entry)
            tool = tool if isinstance(tool, Failure) else checked(tool, entry)
            left.append(tool) if isinstance(tool, Failure) else tools.append(tool)
        if (lasts := _fresh_for(page)) is not None:
            fresh_for = lasts if fresh_for is None else min(lasts, fresh_for)
        pages.next(page.get("nextCursor"), len(tools))
    if pages.endless:
        words = f"the tool list of {server_id!r} does not end (repeated cursor, or too many pages or tools)"
        left.append(_discovery_failure(server_id, f"{words}; {len(tools)} tools of it are used"))
    return Listing(tuple(tools[:MAX_TOOLS]), tuple(left), fresh_for)


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


class _Pages:
    """Where a list that comes in pages stands."""

    def __init__(self) -> None:
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
            self.endless = cursor in self._seen or found > MAX_TOOLS or len(self._seen) + 1 >= MAX_PAGES
            self.more = not self.endless
            self._seen.add(cursor)
            self.cursor = cursor


def _fresh_for(page: Mapping[str, object]) -> float | None:
    ttl = page.get("ttlMs")
    if isinstance(ttl, bool) or not isinstance(ttl, int | float):
        return None
    return min(max(0.0, ttl / 1000), _MAX_FRESH)
