"""Opening the database file, the lock that keeps a second server away from it, and what its errors mean to a user.

All knowledge of the driver's settings and error codes is here. It knows no table.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
from pathlib import Path

from turnwired.domain.errors import ConfigError, DatabaseInUse, StoreUnavailable

BUSY_SECONDS = 5.0
"""How long one statement waits for another program's lock on the file."""

OLDEST_SQLITE = (3, 35, 0)

_WRITE_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  # NORMAL loses acknowledged rows in a power cut
    "PRAGMA fullfsync = ON",  # where fsync does not reach the disk (macOS)
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -16384",  # 16 MiB
    "PRAGMA journal_size_limit = 67108864",
)
_READ_PRAGMAS = ("PRAGMA query_only = ON", "PRAGMA temp_store = MEMORY", "PRAGMA cache_size = -8192")


def connect(path: Path, *, write: bool) -> sqlite3.Connection:
    """A connection in autocommit mode, for use by one thread at a time. Raises sqlite3.Error."""
    # No statement here is written at run time, but each has a text per number of rows: keep them all prepared.
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        for pragma in _WRITE_PRAGMAS if write else _READ_PRAGMAS:
            connection.execute(pragma).fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def prepare_file(path: Path) -> None:
    """Make the file and its directory, readable by the owner alone: it holds conversations. Raises ConfigError."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise ConfigError(f"SQLite {sqlite3.sqlite_version} is too old: {oldest} or newer is needed")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise ConfigError(f"the database {path} cannot be opened for writing: {_os_reason(error)}") from error


class ProcessLock:
    """One server per database file. The kernel lets go of the lock when the process ends, however it ends."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._path = database.with_name(database.name + ".lock")
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Raises ConfigError when another process, or another store of this one, has the file."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(
                f"the lock file {self._path} cannot be opened for writing: {_os_reason(error)}"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(descriptor, 20).decode("ascii", "replace").strip()
            os.close(descriptor)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise ConfigError(f"the database {self._database} cannot be locked: {_os_reason(error)}") from error
            raise DatabaseInUse(
                f"the database {self._database} is in use by another server (process {holder or 'unknown'}): "
                "stop that one, or give this one another database path"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Let go of the file; again is nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def unusable(path: Path, error: sqlite3.Error) -> ConfigError:
    """Why the file cannot be opened, in one line."""
    match _primary_code(error):
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return ConfigError(
                f"the file {path} is not a database of turnwire, or is damaged ({error}): "
                "restore it from a backup, or use another database path"
            )
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return ConfigError(f"the database {path} is locked by another program: close that one")
        case _:
            return ConfigError(f"the database {path} cannot be opened for writing: {error}")


def unavailable(path: Path, error: sqlite3.Error) -> StoreUnavailable:
    """What the error means while the store is in use, and what to do about it."""
    return StoreUnavailable(f"the database {path} {_symptom(error)}")


def _symptom(error: sqlite3.Error) -> str:
    match _primary_code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"was locked by another program for {BUSY_SECONDS:g} s: close that program"
        case sqlite3.SQLITE_FULL:
            return "cannot grow, nothing was written: free space on its disk, or raise its size limit"
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_CANTOPEN:
            return f"cannot be written ({error}): make the file and its directory writable"
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return f"is damaged ({error}): stop the server and restore the file from a backup"
        case sqlite3.SQLITE_IOERR:
            return f"had an input or output error ({error}): check its disk"
        case _:
            return f"could not be used: {error}"


def concerns_one(error: sqlite3.Error) -> bool:
    """Whether the error may be about one change of many: the others may go through without it."""
    match _primary_code(error):
        case sqlite3.SQLITE_FULL | sqlite3.SQLITE_TOOBIG | sqlite3.SQLITE_CONSTRAINT | sqlite3.SQLITE_MISMATCH:
            return True
        case None:  # raised by the driver before the database saw it: a value that it cannot bind
            return True
        case _:
            return False


def _primary_code(error: sqlite3.Error) -> int | None:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _os_reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
