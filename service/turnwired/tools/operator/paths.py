"""Paths of file tools: ``root/below/it``. What they say as text, before anything is opened. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from turnwired.tools.operator.config import FileRoot
from turnwired.tools.operator.failures import blocked, failed

MAX_PATH: Final = 4096
MAX_DEPTH: Final = 64
MAX_NAME_BYTES: Final = 255


@dataclass(frozen=True, slots=True)
class Place:
    """A root and the names below it; none: the root itself."""

    root: FileRoot
    names: tuple[str, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        """All names, that of the root first."""
        return (self.root.root_name, *self.names)

    @property
    def text(self) -> str:
        """As the model writes it, and as permission rules are held against it."""
        return "/".join(self.parts)


def names_of(tool: str, path: str) -> tuple[str, ...]:
    """The components of a path. Raises ToolError for what could lead anywhere else."""
    if path.startswith(("/", "~")) or "\\" in path:
        raise blocked(tool, "blocked_path", "paths are relative, with slashes, and begin with the name of a root")
    if "\0" in path or len(path) > MAX_PATH:
        raise blocked(tool, "blocked_path", f"a path has no NUL and at most {MAX_PATH} characters")
    names = tuple(name for name in path.split("/") if name not in {"", "."})
    if ".." in names:
        raise blocked(tool, "blocked_path", "a path with .. is not taken; name the file from its root on")
    try:
        too_long = any(len(name.encode()) > MAX_NAME_BYTES for name in names)
    except UnicodeEncodeError:
        raise blocked(tool, "blocked_path", "a path is valid Unicode") from None
    if too_long or len(names) > MAX_DEPTH:
        raise blocked(tool, "blocked_path", f"{MAX_NAME_BYTES} bytes a name and {MAX_DEPTH} names are the most")
    return names


def place_of(tool: str, path: str, roots: Sequence[FileRoot]) -> Place | None:
    """Where a path leads, or None for the place above all roots. Raises ToolError."""
    names = names_of(tool, path)
    if not names:
        return None
    for root in roots:
        if root.root_name == names[0]:
            below = names[1:]
            if any(root.excludes(below[:size]) for size in range(1, len(below) + 1)):
                raise failed(tool, "there is no such file or directory", "ENOENT")
            return Place(root, below)
    known = ", ".join(root.root_name for root in roots)
    raise failed(tool, f"paths begin with the name of a root; there are: {known}", "not_found")
