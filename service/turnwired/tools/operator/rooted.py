"""The roots of the configuration, opened: from the path of a call to the handle of the directory that it is in.

Knows nothing of what is done with the handle.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from turnwired.tools.operator.beneath import OpenDirectory, best_way, directory, make_directories
from turnwired.tools.operator.config import FileRoot, FilesConfig
from turnwired.tools.operator.failures import blocked, code_of, failed, words_of
from turnwired.tools.operator.paths import Place, place_of


@dataclass(frozen=True, slots=True)
class Rooted:
    """The roots and their bounds. ``open_directory``: how directories below a root are opened."""

    config: FilesConfig
    open_directory: OpenDirectory = field(default_factory=best_way)

    def missing(self) -> Sequence[FileRoot]:
        """The roots that are no directory now."""
        return [root for root in self.config.roots if not root.path.is_dir()]

    def file(self, tool: str, path: str, *, writable: bool = False) -> Place:
        """Where a path of a file leads. Raises ToolError."""
        place = place_of(tool, path, self.config.roots)
        if place is None or not place.names:
            raise failed(tool, "the path names no file, but a root", "not_found")
        if writable and not place.root.writable:
            raise blocked(tool, "blocked_root", "this root is for reading only")
        return place

    @contextmanager
    def folder(self, place: Place) -> Iterator[int]:
        """A handle of the directory that this is. Raises OSError."""
        with _root(place) as root, directory(self.open_directory, root, place.names) as opened:
            yield opened

    @contextmanager
    def parent(self, place: Place) -> Iterator[int]:
        """A handle of the directory that this is in. Raises OSError."""
        with _root(place) as root, directory(self.open_directory, root, place.names[:-1]) as opened:
            yield opened

    def opened_parent(self, place: Place, *, make: bool) -> int:
        """The same, for the caller to close. ``make``: directories that are missing are made."""
        with _root(place) as root:
            names = place.names[:-1]
            return make_directories(root, names) if make else self.open_directory(root, names)


@contextmanager
def _root(place: Place) -> Iterator[int]:
    # The path of a root is the configuration's word: a link in it is meant.
    opened = os.open(place.root.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield opened
    finally:
        os.close(opened)


@contextmanager
def said(tool: str) -> Iterator[None]:
    """What the operating system refuses is the tool's failure, without the path."""
    try:
        yield
    except OSError as error:
        raise failed(tool, words_of(error), code_of(error)) from None
