"""Walks and searches directories from a handle: bounded in entries, bytes and time, and in the time of each pattern.

RE2 matches in time linear to the text, whatever the pattern is: patterns come from a model. Knows no tool.
"""

from __future__ import annotations

import fnmatch
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Protocol

import re2

from turnwired.tools.operator.beneath import DIRECTORY, regular_file

MAX_DEPTH: Final = 40
"""Directories below one another: each holds an open handle while it is walked."""
MAX_NAMES: Final = 50_000
"""Of one directory."""
MAX_PATTERN_BYTES: Final = 1000
_PATTERN_MEMORY: Final = 1 << 20
_MAX_LINE: Final = 64 * 1024
_SHOWN_BYTES: Final = 400
_LOOKED_AT: Final = 8192
"""Bytes that tell a binary file from text."""


class Matcher(Protocol):
    """A compiled pattern."""

    def search(self, text: bytes) -> object:
        """Something where a line has a match, else None."""
        ...


class BadPattern(Exception):
    """The pattern is none; the words say why, in RE2's terms."""


@dataclass(frozen=True, slots=True)
class Found:
    """A name in a directory. ``path`` begins with its root; ``handle`` is open while it is yielded."""

    handle: int
    name: str
    path: str
    mode: int
    size: int


@dataclass(slots=True)
class Bounds:
    """What a walk may still use; ``cut`` says what ran out first."""

    bytes_left: int
    deadline: float
    given_up: Callable[[], bool]
    cut: str = ""
    hides: Callable[[Sequence[str]], bool] = lambda _: False
    """Of the names below the root: whether what they lead to is as if it was not there."""
    _steps: int = field(default=0)

    def spent(self) -> bool:
        """Whether it is over. Looks at the clock every so often."""
        self._steps += 1
        if self._steps % 64 == 0 and not self.cut:
            if self.given_up():
                self.cut = "nobody waits any more"
            elif time.monotonic() > self.deadline:
                self.cut = "the time for a search is over"
        return bool(self.cut)


def entries(handle: int, above: Sequence[str], depth: int, bounds: Bounds) -> Iterator[Found]:
    """What is in a directory, by name, and in those below it to ``depth``. Links are told of and never followed.

    ``above``: the names that lead to the directory, that of its root first.
    """
    with os.scandir(handle) as listed:
        names = sorted(entry.name for entry in islice(listed, MAX_NAMES + 1))
    if len(names) > MAX_NAMES:
        names.pop()
        bounds.cut = bounds.cut or f"a directory has more than {MAX_NAMES} names"
    for name in names:
        if bounds.spent():
            return
        names_below = (*above, name)
        if bounds.hides(names_below[1:]):
            continue
        try:
            status = os.stat(name, dir_fd=handle, follow_symlinks=False)
        except OSError:
            continue  # it went away, or may not be looked at
        yield Found(handle, name, "/".join(names_below), status.st_mode, status.st_size)
        if depth > 1 and stat.S_ISDIR(status.st_mode):
            with suppress(OSError):
                inner = os.open(name, DIRECTORY, dir_fd=handle)
                try:
                    yield from entries(inner, names_below, depth - 1, bounds)
                finally:
                    os.close(inner)


def matcher_of(pattern: str, ignore_case: bool) -> Matcher:
    """The pattern, compiled. Raises BadPattern."""
    if len(pattern.encode("utf-8", "surrogatepass")) > MAX_PATTERN_BYTES:
        raise BadPattern(f"it is longer than {MAX_PATTERN_BYTES} bytes")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_MEMORY
    options.case_sensitive = not ignore_case
    try:
        compiled: Matcher = re2.compile(pattern.encode(), options)
    except (re2.error, UnicodeEncodeError) as error:
        said = error.args[0] if error.args and isinstance(error.args[0], bytes) else b""
        raise BadPattern(said.partition(b":")[0].decode("utf-8", "replace") or "it cannot be read") from None
    return compiled


def matches(
    handle: int, above: Sequence[str], glob: str, matcher: Matcher, bounds: Bounds
) -> Iterator[tuple[str, int, str]]:
    """Path, number and text of each line that matches, in the files below. Binary files are passed over."""
    for found in entries(handle, above, MAX_DEPTH, bounds):
        if not stat.S_ISREG(found.mode) or not fits(found, glob):
            continue
        try:
            with regular_file(found.handle, found.name) as opened:
                yield from ((found.path, number, line) for number, line in lines_of(opened, matcher, bounds))
        except OSError:
            continue  # it may not be read, or went away: a search tells what it finds


def fits(found: Found, glob: str) -> bool:
    """Whether a glob takes it: one without a slash is held against the name alone."""
    return not glob or fnmatch.fnmatchcase(found.path if "/" in glob else found.name, glob)


def lines_of(handle: int, matcher: Matcher, bounds: Bounds) -> Iterator[tuple[int, str]]:
    """Number and text of the lines of one file."""
    if b"\0" in os.pread(handle, _LOOKED_AT, 0):
        return
    with os.fdopen(os.dup(handle), "rb", _MAX_LINE) as file:
        number, begins = 0, True
        while line := file.readline(_MAX_LINE):
            number += begins
            begins = line.endswith(b"\n")
            bounds.bytes_left -= len(line)
            if bounds.bytes_left < 0:
                bounds.cut = bounds.cut or "a search reads no more bytes than this"
            if bounds.spent():
                return
            if matcher.search(line.rstrip(b"\r\n")) is not None:
                yield number, _shown(line)


def _shown(line: bytes) -> str:
    text = line.rstrip(b"\r\n")
    cut = text[:_SHOWN_BYTES].decode("utf-8", "replace")
    return cut if len(text) <= _SHOWN_BYTES else f"{cut}…"
