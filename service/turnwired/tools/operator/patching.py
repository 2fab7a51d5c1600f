"""Unified diffs: what one says, and what text it makes of a text. Pure: it opens no file and knows no paths of ours.

``unidiff`` reads the format; where a hunk goes is decided here. A hunk fits where it says, or else in the only place
that reads as its old lines do: what could be meant in two ways is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from unidiff.errors import UnidiffParseError
from unidiff.patch import Hunk as RawHunk
from unidiff.patch import PatchedFile, PatchSet

MAX_FILES: Final = 100
MAX_PATCH: Final = 256 * 1024
"""Characters of a patch. It is read on the event loop too, to know which files it is about."""
_MAX_HEADER: Final = 8192
_ESCAPE: Final = re.compile(rb"\\([0-7]{3}|.)")
_ESCAPES: Final = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
NOTHING: Final = "/dev/null"


class PatchError(Exception):
    """The patch cannot be read or does not fit. The words number its files and hunks, and quote nothing."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """Old lines and what they become, without line ends. ``start`` counts lines from 1; 0 is before the first.

    ``old_ends`` and ``new_ends``: whether that side says that its last line has no line end.
    """

    start: int
    old: tuple[str, ...]
    new: tuple[str, ...]
    old_ends: bool = False
    new_ends: bool = False


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file: ``source`` None is created, ``target`` None is deleted, two different names are a move."""

    source: str | None
    target: str | None
    hunks: tuple[Hunk, ...] = ()


def read_patch(text: str) -> tuple[FileChange, ...]:
    """The changes of a patch, in its order. Raises PatchError."""
    if len(text) > MAX_PATCH:
        raise PatchError(f"the patch has {len(text)} characters, {MAX_PATCH} are the most")
    for line in text.split("\n"):
        # The parser's patterns for these lines take time that grows faster than they do.
        if line.startswith("Binary file") or (len(line) > _MAX_HEADER and line.startswith("diff ")):
            raise PatchError("the patch is of binary files, or has a header that is too long")
        if line.startswith("copy "):
            raise PatchError("a patch that copies a file is not taken; create the copy with all of its lines")
    try:
        files = list(PatchSet(text if text.endswith("\n") else text + "\n"))
    except (UnidiffParseError, ValueError, IndexError) as error:
        words = str(error) if isinstance(error, UnidiffParseError) and ":" not in str(error) else "it is malformed"
        raise PatchError(f"this is no unified diff: {words}") from None
    if not files:
        raise PatchError("this is no unified diff: it has no file headers (--- and +++)")
    if len(files) > MAX_FILES:
        raise PatchError(f"the patch changes {len(files)} files, {MAX_FILES} are the most")
    changes = tuple(_change(number, file) for number, file in enumerate(files, 1))
    named = [name for change in changes for name in {change.source, change.target} if name is not None]
    if len(set(named)) != len(named):
        raise PatchError("the patch names a file twice")
    return changes


def _change(number: int, file: PatchedFile) -> FileChange:
    if file.is_binary_file or file.is_symlink or file.is_submodule:
        raise PatchError(f"file {number} is no text file; only text can be patched")
    source, target = _unquoted(file.source_file), _unquoted(file.target_file)
    prefixed = (source.startswith("a/") or source == NOTHING) and (target.startswith("b/") or target == NOTHING)
    change = FileChange(_named(source, prefixed), _named(target, prefixed), tuple(_hunk(each) for each in file))
    if change.source is None and change.target is None:
        raise PatchError(f"file {number} has no name")
    renamed = any(line.startswith("rename from ") for line in file.patch_info or ())
    if change.source and change.target and change.source != change.target and not renamed:
        raise PatchError(f'file {number} has two names; a move says "rename from" and "rename to"')
    if not change.hunks and change.source == change.target:
        raise PatchError(f"file {number} has no hunks (@@ -1,2 +1,2 @@)")
    return change


def _named(name: str, prefixed: bool) -> str | None:
    if name == NOTHING:
        return None
    return name[2:] if prefixed else name


def _unquoted(name: str) -> str:
    """A name as it is: git quotes those with unusual characters as C does."""
    if len(name) < 2 or not (name.startswith('"') and name.endswith('"')):
        return name
    inner = _ESCAPE.sub(_meant, name[1:-1].encode("utf-8", "surrogatepass"))
    try:
        return inner.decode()
    except UnicodeDecodeError:
        raise PatchError("the name of a file is no UTF-8") from None


def _meant(found: re.Match[bytes]) -> bytes:
    word = found[1]
    return bytes([int(word, 8) & 0xFF]) if word.isdigit() else _ESCAPES.get(word, word)


def _hunk(raw: RawHunk) -> Hunk:
    old: list[str] = []
    new: list[str] = []
    ends = {"old": False, "new": False}
    before = ""
    for line in raw:
        text = line.value.removesuffix("\n").removesuffix("\r")
        if line.line_type == "\\":
            ends["old"] |= before in {" ", "-"}
            ends["new"] |= before in {" ", "+"}
            continue
        if line.line_type != "+":
            old.append(text)
        if line.line_type != "-":
            new.append(text)
        before = line.line_type
    return Hunk(int(raw.source_start), tuple(old), tuple(new), ends["old"], ends["new"])


@dataclass(frozen=True, slots=True)
class _Text:
    """Lines without their ends, the end that new lines get, and whether the last line has one."""

    lines: list[str]
    ends: list[str]
    end: str
    closed: bool


def applied(text: str, change: FileChange, number: int) -> str:
    """The text after all hunks of the change, which is file ``number`` of its patch. Raises PatchError.

    Lines that stay keep their ends; new ones get that of the first line.
    """
    before = _taken_apart(text)
    lines: list[str] = []
    ends: list[str] = []
    done = 0
    shift = 0
    closed = before.closed
    for index, hunk in enumerate(change.hunks, 1):
        place = _place(before.lines, hunk, done, shift, f"file {number}, hunk {index}")
        if hunk.old:
            shift = place - (hunk.start - 1)
        lines += before.lines[done:place]
        ends += before.ends[done:place]
        kept = dict(zip(hunk.old, before.ends[place : place + len(hunk.old)], strict=True))
        lines += hunk.new
        ends += [kept.get(line, before.end) for line in hunk.new]
        done = place + len(hunk.old)
        if done == len(before.lines):
            closed = not hunk.new_ends if hunk.new_ends or hunk.old_ends else closed
    lines += before.lines[done:]
    ends += before.ends[done:]
    if not lines:
        return ""
    ends = [end or before.end for end in ends[:-1]] + [(ends[-1] or before.end) if closed else ""]
    return "".join(line + end for line, end in zip(lines, ends, strict=True))


def _taken_apart(text: str) -> _Text:
    pieces = text.split("\n")
    closed = pieces[-1] == ""
    if closed:
        pieces.pop()
    lines = [piece.removesuffix("\r") for piece in pieces]
    ends = ["\r\n" if piece.endswith("\r") else "\n" for piece in pieces]
    if ends and not closed:
        lines[-1], ends[-1] = pieces[-1], ""
    return _Text(lines, ends, ends[0] if ends and ends[0] else "\n", closed)


def _place(lines: Sequence[str], hunk: Hunk, done: int, shift: int, where: str) -> int:
    """The index of the first line that the hunk replaces."""
    if not hunk.old:
        place = hunk.start + shift
        if not done <= place <= len(lines):
            raise PatchError(f"{where} adds lines behind line {hunk.start}, which is not there")
        return place
    expected = hunk.start - 1 + shift
    size = len(hunk.old)
    if expected >= done and tuple(lines[expected : expected + size]) == hunk.old:
        return expected
    # One search of the whole text is linear, whatever the lines are; comparing line by line is not.
    text = "\n" + "\n".join(lines[done:]) + "\n"
    wanted = "\n" + "\n".join(hunk.old) + "\n"
    found = text.find(wanted)
    if found < 0:
        raise PatchError(f"{where} does not fit: its old lines are not in the file; read the file again")
    if text.find(wanted, found + 1) >= 0:
        raise PatchError(f"{where} fits in several places and not where it says; give it more lines around it")
    return done + text.count("\n", 0, found)
