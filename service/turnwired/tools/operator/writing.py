"""Writes files so that a reader sees the old or the new one, and several files so that all change or none does.

A temporary file is made in the same directory and renamed over the name, all by directory handles. Knows no tool.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from turnwired.tools.operator.beneath import require_regular

_TEMPORARY: Final = ".turnwire-"
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})


class Changed(Exception):
    """A file is not what it was when the change was made for it."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Which version of a file it was; None stands for no file."""

    device: int
    inode: int
    size: int
    modified_ns: int
    mode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """The stamp of what was looked at."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode)


def stamp(handle: int, name: str) -> Stamp | None:
    """The version of a regular file now, or None when there is nothing. Raises OSError for anything else."""
    try:
        status = os.stat(name, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        return None
    require_regular(status.st_mode)
    return Stamp.of(status)


def stage(handle: int, data: bytes, mode: int | None) -> str:
    """A new file of a name of its own, complete and on the disk. ``mode``: the permission bits that it must have."""
    name = f"{_TEMPORARY}{secrets.token_hex(8)}"
    opened = os.open(name, _NEW, 0o666 if mode is None else 0o600, dir_fd=handle)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(opened, view) :]
            if mode is not None:
                os.fchmod(opened, stat.S_IMODE(mode) & 0o777)
            os.fsync(opened)
        finally:
            os.close(opened)
    except BaseException:
        discard(handle, name)
        raise
    return name


def discard(handle: int, name: str) -> None:
    """Remove a temporary file, if it is there."""
    with suppress(OSError):
        os.unlink(name, dir_fd=handle)


@dataclass(slots=True)
class _Step:
    """One name that changes: to the staged file, or to nothing when that is None."""

    handle: int
    name: str
    before: Stamp | None
    staged: str | None
    kept: str = ""
    done: bool = False


@dataclass(slots=True)
class Transaction:
    """Changes of several names. ``close`` removes what is left of them and closes the handles.

    All or none as far as a process can: one that is killed in the middle leaves the changes that it has made.
    """

    steps: list[_Step] = field(default_factory=list[_Step])
    handles: list[int] = field(default_factory=list[int])

    def own(self, handle: int) -> int:
        """Take a handle over, to be closed with the rest."""
        self.handles.append(handle)
        return handle

    def write(self, handle: int, name: str, before: Stamp | None, data: bytes, like: Stamp | None = None) -> None:
        """Add a file with this content, made for ``before``. It has the mode of that, or of ``like``."""
        origin = before or like
        staged = stage(handle, data, None if origin is None else origin.mode)
        self.steps.append(_Step(handle, name, before, staged))

    def delete(self, handle: int, name: str, before: Stamp) -> None:
        """Add the end of a file."""
        self.steps.append(_Step(handle, name, before, None))

    def commit(self) -> None:
        """Make the changes. Raises Changed or OSError, and then has made none."""
        try:
            for step in self.steps:
                self._make(step)
        except BaseException:
            for step in reversed(self.steps):
                _undo(step)
            raise
        for step in self.steps:
            if step.kept:
                discard(step.handle, step.kept)
            with suppress(OSError):  # not every file system has it for directories
                os.fsync(step.handle)

    def _make(self, step: _Step) -> None:
        if stamp(step.handle, step.name) != step.before:
            raise Changed
        if step.before is not None:
            step.kept = _keep(step.handle, step.name)
        if step.staged is not None and step.before is None:
            # A link and not a rename: what somebody else has made there meanwhile must not be lost.
            _link_or_rename(step.handle, step.staged, step.name)
        elif step.staged is not None:
            os.rename(step.staged, step.name, src_dir_fd=step.handle, dst_dir_fd=step.handle)
        else:
            with suppress(FileNotFoundError):
                os.unlink(step.name, dir_fd=step.handle)
        step.done = True

    def close(self) -> None:
        """Remove what was staged and not used, and close the handles."""
        for step in self.steps:
            if step.staged is not None:
                discard(step.handle, step.staged)
        for handle in self.handles:
            os.close(handle)
        self.steps.clear()
        self.handles.clear()


def _link_or_rename(handle: int, staged: str, name: str) -> None:
    try:
        os.link(staged, name, src_dir_fd=handle, dst_dir_fd=handle, follow_symlinks=False)
    except FileExistsError:
        raise Changed from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.rename(staged, name, src_dir_fd=handle, dst_dir_fd=handle)


def _keep(handle: int, name: str) -> str:
    """A second name for what is there, to put it back."""
    kept = f"{_TEMPORARY}{secrets.token_hex(8)}"
    try:
        os.link(name, kept, src_dir_fd=handle, dst_dir_fd=handle, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.rename(name, kept, src_dir_fd=handle, dst_dir_fd=handle)
    return kept


def _undo(step: _Step) -> None:
    with suppress(OSError):
        if step.kept:
            os.rename(step.kept, step.name, src_dir_fd=step.handle, dst_dir_fd=step.handle)
            discard(step.handle, step.kept)  # it stays where both are names of one file: rename does nothing then
        elif step.done:
            os.unlink(step.name, dir_fd=step.handle)
