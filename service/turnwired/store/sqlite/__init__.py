"""The store in one SQLite file: for one process, which is what a server on one machine is."""

from turnwired.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
