"""The file tools that only look: what each takes and says, and how its call is bounded. They run in threads.

Where a path may lead is decided in ``paths`` and ``beneath``, who may call a tool elsewhere.
"""

from __future__ import annotations

import mimetypes
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import orjson
from pydantic import Field

from turnwired.domain.message import Blob, Content, Data, Part, Text
from turnwired.tools.context import ToolContext
from turnwired.tools.operator.beneath import regular_file
from turnwired.tools.operator.failures import failed
from turnwired.tools.operator.paths import Place, place_of
from turnwired.tools.operator.reading import head, tail, text_of, whole
from turnwired.tools.operator.rooted import Rooted, said
from turnwired.tools.operator.searching import BadPattern, Bounds, Matcher, entries, lines_of, matcher_of, matches
from turnwired.tools.port import ToolOutput
from turnwired.tools.python import tool

_KINDS: Final = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}

FilePath = Annotated[str, Field(max_length=4096)]
_Line = Annotated[int, Field(ge=1, le=1_000_000_000)]
_Lines = Annotated[int, Field(ge=1, le=100_000)]


@dataclass(frozen=True, slots=True)
class FileReading:
    """``read_file``, ``list_dir``, ``grep_files`` and ``tail_file`` over the roots of a configuration."""

    rooted: Rooted

    @property
    def functions(self) -> Sequence[Callable[..., object]]:
        """The tools."""
        return (self.read_file, self.list_dir, self.grep_files, self.tail_file)

    @tool(read_only=True, idempotent=True, open_world=False)
    def read_file(
        self, path: FilePath, context: ToolContext, first_line: _Line = 1, max_lines: _Lines = 2000
    ) -> ToolOutput:
        """Read a text file, or a part of it. What is no text comes as bytes, if the whole file is not too large.

        Args:
            path: The file, from the name of its root on, such as "project/src/main.py".
            first_line: The line to begin with, from 1.
            max_lines: How many lines to read at most.
        """
        place = self.rooted.file("read_file", path)
        limit = self.rooted.config.max_read_bytes
        with said("read_file"), self.rooted.parent(place) as parent, regular_file(parent, place.names[-1]) as opened:
            part = head(opened, first_line, max_lines, limit, lambda: context.cancelled)
            text = text_of(part.data, part.more)
            if text is None:
                return content(_binary(place, whole(opened, limit), limit))
        if first_line > 1 and not part.lines:
            return content(Text(f"[the file has fewer than {first_line} lines]"))
        if not part.more:
            return content(Text(text))
        last = first_line + part.lines - 1
        if text.endswith("\n"):
            told = f"[lines {first_line} to {last}; the file goes on with first_line = {last + 1}]"
        else:
            told = f"[cut in line {last}, after {len(part.data)} bytes; grep_files finds what else is in it]"
        return content(Text(text), Text(told))

    @tool(read_only=True, idempotent=True, open_world=False)
    def tail_file(self, path: FilePath, max_lines: _Lines = 100) -> ToolOutput:
        """Read the last lines of a text file, such as a log.

        Args:
            path: The file, from the name of its root on.
            max_lines: How many lines to read at most.
        """
        place = self.rooted.file("tail_file", path)
        with said("tail_file"), self.rooted.parent(place) as parent, regular_file(parent, place.names[-1]) as opened:
            part = tail(opened, max_lines, self.rooted.config.max_read_bytes)
        if b"\0" in part.data:
            raise failed("tail_file", "it is no text file", "not_text")
        text = Text(part.data.decode("utf-8", "replace"))
        lines = "line" if part.lines == 1 else f"{part.lines} lines"
        return content(Text(f"[the last {lines}]"), text) if part.more else content(text)

    @tool(read_only=True, idempotent=True, open_world=False)
    def list_dir(
        self, context: ToolContext, path: FilePath = "", depth: Annotated[int, Field(ge=1, le=10)] = 1
    ) -> ToolOutput:
        """List a directory. Without a path: the roots, which are where all paths begin.

        Args:
            path: The directory, from the name of its root on.
            depth: 1 for the directory alone, more for those below it too.
        """
        config = self.rooted.config
        place = place_of("list_dir", path, config.roots)
        if place is None:
            roots = [{"path": root.root_name, "type": "directory", "writable": root.writable} for root in config.roots]
            return content(Data(orjson.dumps({"entries": roots, "complete": True}).decode()))
        bounds = self._bounds(context)
        bounds.hides = place.root.excludes
        listed: list[dict[str, object]] = []
        with said("list_dir"), self.rooted.folder(place) as opened:
            for found in entries(opened, place.parts, depth, bounds):
                if len(listed) >= config.max_entries:
                    bounds.cut = f"{config.max_entries} entries are the most"
                    break
                kind = _KINDS.get(stat.S_IFMT(found.mode), "other")
                entry: dict[str, object] = {"path": _printable(found.path), "type": kind}
                listed.append({**entry, "size": found.size} if kind == "file" else entry)
        cut = {"cut": bounds.cut} if bounds.cut else {}
        return content(Data(orjson.dumps({"entries": listed, "complete": not bounds.cut, **cut}).decode()))

    @tool(read_only=True, idempotent=True, open_world=False)
    def grep_files(
        self,
        pattern: Annotated[str, Field(min_length=1, max_length=1000)],
        context: ToolContext,
        path: FilePath = "",
        glob: Annotated[str, Field(max_length=500)] = "",
        ignore_case: bool = False,
    ) -> ToolOutput:
        """Search text files line by line for a regular expression (RE2 syntax: no lookaround, no backreferences).

        Args:
            pattern: The regular expression.
            path: The file or directory to search; without it, all roots.
            glob: Only files whose name is like this, such as "*.py"; with a slash it is held against the whole path.
            ignore_case: Whether upper and lower case are the same.
        """
        try:
            matcher = matcher_of(pattern, ignore_case)
        except BadPattern as error:
            raise failed("grep_files", f"the pattern is no RE2 expression: {error}", "bad_pattern") from None
        config = self.rooted.config
        place = place_of("grep_files", path, config.roots)
        bounds = self._bounds(context)
        lines: list[str] = []
        for each in [Place(root, ()) for root in config.roots] if place is None else [place]:
            bounds.hides = each.root.excludes
            with said("grep_files"):
                self._search(each, glob, matcher, bounds, lines)
            if bounds.cut:
                break
        note = [Text(f"[not complete: {bounds.cut}]")] if bounds.cut else []
        return content(Text("\n".join(lines) if lines else "[no line matches]"), *note)

    def _search(self, place: Place, glob: str, matcher: Matcher, bounds: Bounds, lines: list[str]) -> None:
        most = self.rooted.config.max_matches
        try:
            with self.rooted.folder(place) as opened:
                for path, number, line in matches(opened, place.parts, glob, matcher, bounds):
                    if not _taken(f"{_printable(path)}:{number}:{line}", lines, most, bounds):
                        return
        except NotADirectoryError:
            with self.rooted.parent(place) as parent, regular_file(parent, place.names[-1]) as opened:
                for number, line in lines_of(opened, matcher, bounds):
                    if not _taken(f"{place.text}:{number}:{line}", lines, most, bounds):
                        return

    def _bounds(self, context: ToolContext) -> Bounds:
        config = self.rooted.config
        deadline = time.monotonic() + config.max_search_seconds
        return Bounds(config.max_search_bytes, deadline, lambda: context.cancelled)


def content(*items: Content) -> ToolOutput:
    """A result of these parts; the registry numbers them."""
    return ToolOutput(tuple(Part("", item) for item in items))


def _taken(line: str, lines: list[str], most: int, bounds: Bounds) -> bool:
    if len(lines) >= most:
        bounds.cut = f"{most} lines are the most; narrow the search"
        return False
    lines.append(line)
    return True


def _printable(path: str) -> str:
    """A path as the file system has it, without what is no Unicode."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _binary(place: Place, data: bytes | None, limit: int) -> Blob:
    if data is None:
        raise failed("read_file", f"it is no text file, and larger than {limit} bytes", "not_text")
    media_type = mimetypes.guess_type(place.names[-1])[0] or "application/octet-stream"
    return Blob(media_type, data)
