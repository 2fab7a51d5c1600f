"""What an app says that it has, page by page: read within bounds, whatever it says. Knows pages, and no gRPC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from turnwired.codec.tool_host import decode_page
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.text import clean_text
from turnwired.domain.tool import Tool
from turnwired.domain.tool_host import HostedPage, HostedTool
from turnwired.tools.grpc.peer import NotAnswered

MAX_PAGES: Final = 1000
MAX_TOOLS: Final = 10_000
MAX_ENTRIES: Final = 2 * MAX_TOOLS
"""Of all pages together that are looked at: tools, and what is none."""
MAX_LIST_BYTES: Final = 64 * 1024 * 1024
"""Of all pages together."""
MAX_LEFT_OUT: Final = 100
"""Entries left out that are told one by one; the others are counted."""
MAX_NAME: Final = 256


@dataclass(frozen=True, slots=True)
class Listing:
    """All tools of an app. ``hosted`` by their own names."""

    tools: Sequence[Tool]
    left_out: Sequence[Failure]
    hosted: Mapping[str, HostedTool]


@dataclass(slots=True)
class Found:
    """What the pages so far have. ``first`` is the first of them, without its tools."""

    set_id: str
    first: HostedPage | None = None
    next_page_token: str = ""
    _hosted: dict[str, HostedTool] = field(default_factory=dict[str, HostedTool])
    _left: list[Failure] = field(default_factory=list[Failure])
    _more: int = 0
    _looked: int = 0
    _bytes: int = 0
    _tokens: set[str] = field(default_factory=set[str])
    _cut: bool = False

    def take(self, body: bytes) -> None:
        """Take a page over; ``next_page_token`` is then empty if it was the last. Raises CodecError and NotAnswered.

        It takes a second for the largest page: call it in a thread.
        """
        self._bytes += len(body)
        if self._bytes > MAX_LIST_BYTES:
            raise NotAnswered(f"its list of tools is longer than {MAX_LIST_BYTES} bytes")
        page = decode_page(body, self.set_id, MAX_ENTRIES - self._looked)
        self._looked += len(page.tools)
        for item in page.tools:
            self._add(item)
        self._cut = self._cut or page.cut > 0
        self._more += page.cut
        if self.first is None:
            self.first = replace(page, tools=())
        self._go_on("" if page.unchanged or self._cut else page.next_page_token)

    @property
    def unchanged(self) -> bool:
        """Whether the app says that what is known is right."""
        return self.first is not None and self.first.unchanged

    def listing(self) -> Listing:
        """All of it."""
        left = list(self._left)
        if self._more:
            words = f"{self._more} more entries in the list of {self.set_id!r} are left out"
            left.append(self._failure(f"{words}; {MAX_TOOLS} tools are the most" if self._cut else words))
        return Listing(tuple(item.tool for item in self._hosted.values()), tuple(left), self._hosted)

    def _go_on(self, token: str) -> None:
        if token and (token in self._tokens or len(self._tokens) + 1 == MAX_PAGES):
            raise NotAnswered("its list of tools does not end")
        self._tokens.add(token)
        self.next_page_token = token

    def _add(self, item: HostedTool) -> None:
        name = item.tool.ref.native_name
        if not name:
            self._leave_out(name, "it has no name")
        elif len(name) > MAX_NAME or not name.isprintable():
            why = f"its name has more than {MAX_NAME} characters, or some that cannot be printed"
            self._leave_out(name[:MAX_NAME], why)
        elif name in self._hosted:
            self._leave_out(name, "another tool has the same name")
        elif len(self._hosted) == MAX_TOOLS:
            self._cut = True
            self._more += 1
        else:
            tool = item.tool
            words = replace(tool, description=clean_text(tool.description), title=clean_text(tool.title))
            self._hosted[name] = replace(item, tool=words)

    def _leave_out(self, name: str, why: str) -> None:
        if len(self._left) == MAX_LEFT_OUT:
            self._more += 1
            return
        self._left.append(self._failure(f"tool {name!r} of {self.set_id!r} is left out: {why}", name))

    def _failure(self, words: str, name: str = "") -> Failure:
        origin = f"{self.set_id}/{name}" if name else self.set_id
        return Failure(FailurePhase.ROUTING, Reason.TOOL_QUARANTINED, words, origin=origin)
