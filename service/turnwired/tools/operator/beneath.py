"""Opens what is below a directory handle and nothing else, whatever is moved or linked there meanwhile.

Two ways with the same effect: ``openat2`` where the kernel has it, else component by component. No link is ever
followed, not even one that stays inside. Knows file descriptors and names, no configuration and no tool.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
_PLAIN: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
"""For what may be no regular file: opening a pipe must not wait, a terminal must not become ours."""

_OPENAT2: Final = 437  # of every architecture that Python runs on: it came after their numbers were made one
_RESOLVE: Final = 0x02 | 0x04 | 0x08  # NO_MAGICLINKS, NO_SYMLINKS, BENEATH
_ATTEMPTS: Final = 16
"""The kernel says EAGAIN when something is renamed just then."""

OpenDirectory = Callable[[int, Sequence[str]], int]
"""Opens the directory that these names lead to, from a handle. Raises OSError; the caller closes what it gets."""


class _How(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


def step_by_step(handle: int, names: Sequence[str]) -> int:
    """One component at a time, each from the handle of the one before: works on every POSIX system."""
    current = os.open(".", DIRECTORY, dir_fd=handle)
    try:
        for name in names:
            following = _open_directory(current, name)
            os.close(current)
            current = following
    except BaseException:
        os.close(current)
        raise
    return current


def _open_directory(handle: int, name: str) -> int:
    try:
        return os.open(name, DIRECTORY, dir_fd=handle)
    except NotADirectoryError:  # Linux says so of a link too: O_DIRECTORY is looked at first
        if stat.S_ISLNK(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise


def in_one_call(handle: int, names: Sequence[str]) -> int:
    """The kernel resolves the whole path and refuses links and ways out (``openat2(2)``, Linux 5.6)."""
    path = os.fsencode("/".join(names) or ".")
    how = _How(DIRECTORY & ~os.O_NOFOLLOW, 0, _RESOLVE)
    for _ in range(_ATTEMPTS):
        found = int(_libc().syscall(_OPENAT2, handle, path, ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))))
        if found >= 0:
            return found
        number = ctypes.get_errno()
        if number not in {errno.EAGAIN, errno.EINTR}:
            raise OSError(number, os.strerror(number))
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def openat2_works() -> bool:
    """Whether the kernel has the call and lets this process make it: a sandbox may not."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        root = os.open("/", DIRECTORY)
    except OSError:
        return False
    try:
        os.close(in_one_call(root, ()))
    except (OSError, AttributeError):
        return False
    finally:
        os.close(root)
    return True


def best_way() -> OpenDirectory:
    """``in_one_call`` where it works, else ``step_by_step``."""
    return in_one_call if openat2_works() else step_by_step


@contextmanager
def directory(open_directory: OpenDirectory, handle: int, names: Sequence[str]) -> Iterator[int]:
    """A handle of the directory for as long as it is used. Raises OSError."""
    opened = open_directory(handle, names)
    try:
        yield opened
    finally:
        os.close(opened)


@contextmanager
def regular_file(handle: int, name: str) -> Iterator[int]:
    """A handle to read a file of a directory. Raises OSError, also for whatever is no regular file: it never waits."""
    found = os.stat(name, dir_fd=handle, follow_symlinks=False)
    require_regular(found.st_mode)  # before the open: opening a device may do something
    opened = os.open(name, os.O_RDONLY | _PLAIN, dir_fd=handle)
    try:
        require_regular(os.fstat(opened).st_mode)  # it may have been exchanged in between
        yield opened
    finally:
        os.close(opened)


def require_regular(mode: int) -> None:
    """Raises OSError with a number that says what else it is."""
    if stat.S_ISREG(mode):
        return
    if stat.S_ISLNK(mode):
        number = errno.ELOOP
    elif stat.S_ISDIR(mode):
        number = errno.EISDIR
    else:
        number = errno.ENXIO
    raise OSError(number, os.strerror(number))


def make_directories(handle: int, names: Sequence[str]) -> int:
    """Open the directory that the names lead to, making what is missing. Raises OSError; the caller closes it."""
    current = os.open(".", DIRECTORY, dir_fd=handle)
    try:
        for name in names:
            try:
                os.mkdir(name, dir_fd=current)
            except FileExistsError:
                pass
            following = _open_directory(current, name)
            os.close(current)
            current = following
    except BaseException:
        os.close(current)
        raise
    return current
