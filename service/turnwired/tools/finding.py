"""The tool with which a model finds other tools, when there are too many to show: BM25 over names and descriptions.

The ranking is that of SQLite's full-text index, which ships with Python. It knows tools, and no source and no run.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import anyio
import anyio.to_thread

from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import Part, Text
from turnwired.domain.text import clean_text
from turnwired.domain.tool import Tool, ToolAnnotations, ToolRef, ToolSource
from turnwired.tools.catalog import entry_of
from turnwired.tools.naming import Patterns, routed_name
from turnwired.tools.port import ToolInvocation, ToolOutput
from turnwired.tools.result import json_of
from turnwired.tools.view import Entry, View

NAME: Final = "find_tools"
MOST_FOUND: Final = 20
_USUAL: Final = 5
_MOST_WORDS: Final = 32
_DESCRIPTION_SHOWN: Final = 300
_WEIGHTS: Final = "4.0, 2.0, 1.0"
"""Of the columns: a word of the name says more than one of the title or the description."""

_WORD: Final = re.compile(r"[^\W_]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SCHEMA: Final = json_of(
    {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "minLength": 1,
                "maxLength": 1000,
                "description": "What the tool is to do, in a few words: what you want done, and to what.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": MOST_FOUND,
                "description": f"How many tools at most; {_USUAL} if not given.",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    }
)


def _find_tool(name: str, count: int) -> Tool:
    """The tool as the model sees it, where ``count`` tools can be found with it."""
    description = (
        f"Find tools. There are {_about(count)} more tools than you are shown. Say in a few words what you need a tool "
        "for; those that fit best can be called from your next step on."
    )
    annotations = ToolAnnotations(read_only=True, destructive=False, idempotent=True, open_world=False)
    return Tool(ToolRef(name, NAME, ToolSource.LOCAL), description, _SCHEMA, annotations=annotations)


def findable(view: View, pinned: Patterns) -> View:
    """The view with a tool that finds the others in front, which alone are shown with those whose names match."""
    kept = frozenset(name for name in view.entries if pinned.match(name))
    finder = NAME if NAME not in view.entries else routed_name("turnwire", NAME)
    source = Finder(finder, [entry.tool for name, entry in view.entries.items() if name not in kept])
    entry = entry_of(source, source.tool)
    assert isinstance(entry, Entry), "the tool that finds others can be offered"
    return replace(view, entries={finder: entry, **view.entries}, finder=finder, pinned=kept)


class Finder:
    """A ``Toolset`` of that one tool, over these tools. The index is made when it is first asked, in a thread."""

    set_id = "turnwire"
    failure: Failure | None = None
    left_out: Sequence[Failure] = ()

    def __init__(self, name: str, findable: Sequence[Tool]) -> None:
        self._findable = tuple(findable)
        self.tool = _find_tool(name, len(self._findable))
        self._lock = threading.Lock()
        self._index: sqlite3.Connection | None = None

    async def start(self) -> None:
        """Nothing to start."""

    async def tools(self) -> Sequence[Tool]:
        """The one tool."""
        return (self.tool,)

    async def call(self, invocation: ToolInvocation) -> ToolOutput:
        """Find tools: what is structured are their names and descriptions, best first."""
        query, limit = invocation.arguments.get("query", ""), invocation.arguments.get("limit", _USUAL)
        assert isinstance(query, str), "the arguments were checked"
        most = limit if isinstance(limit, int) else _USUAL
        found = await anyio.to_thread.run_sync(self.search, query, most, abandon_on_cancel=True)
        described = [{"name": it.ref.routed_name, "description": _short(it.description)} for it in found]
        lines = [f"- {it['name']}: {it['description']}" for it in described]
        words = "These tools fit and can be called now:" if lines else "No tool fits these words. Try others."
        return ToolOutput((Part("", Text("\n".join([words, *lines]))),), structured_json=json_of({"tools": described}))

    async def aclose(self) -> None:
        """The index goes with the view that it belongs to."""

    def search(self, query: str, limit: int) -> list[Tool]:
        """The tools that fit best, at most ``limit``; the same ones for the same tools and words. Blocks."""
        words = list(dict.fromkeys(word.lower() for word in _WORD.findall(_split(clean_text(query)))))[:_MOST_WORDS]
        if not words:
            return []
        match = " OR ".join(f'"{word}"*' if len(word) > 2 else f'"{word}"' for word in words)
        statement = f"SELECT rowid FROM tools WHERE tools MATCH ? ORDER BY bm25(tools, {_WEIGHTS}), rowid LIMIT ?"  # noqa: S608  our own
        try:
            with self._lock:
                rows = self._made().execute(statement, (match, min(limit, MOST_FOUND))).fetchall()
        except sqlite3.Error as error:
            words_ = f"the index of tools cannot be read: {type(error).__name__}"
            raise ToolError(Failure(FailurePhase.TOOL, Reason.TOOL_FAILED, words_, origin=NAME)) from error
        return [self._findable[row[0]] for row in rows]

    def _made(self) -> sqlite3.Connection:
        if self._index is None:
            index = sqlite3.connect(":memory:", check_same_thread=False)
            weakref.finalize(self, index.close)
            columns = "name, title, description, content='', tokenize='porter unicode61'"
            index.execute(f"CREATE VIRTUAL TABLE tools USING fts5({columns})")
            index.executemany(
                "INSERT INTO tools(rowid, name, title, description) VALUES (?, ?, ?, ?)",
                (
                    (place, _split(tool.ref.routed_name), clean_text(tool.title), clean_text(tool.description))
                    for place, tool in enumerate(self._findable)
                ),
            )
            self._index = index
        return self._index


def _split(name: str) -> str:
    """Words of a name, also where only a capital begins them: ``getProduct`` has two."""
    return _CAMEL.sub(" ", name)


def _short(description: str) -> str:
    first = " ".join(description.split())
    return first if len(first) <= _DESCRIPTION_SHOWN else f"{first[:_DESCRIPTION_SHOWN]}..."


def _about(count: int) -> str:
    """A number that does not change with each tool that comes or goes: the model's words stay the same bytes."""
    size = 10 ** (len(str(count)) - 1)
    return f"about {max(round(count / size), 1) * size}"
