"""Whether a process is this one or comes from it: none of those is looked into. Knows processes, no protocol."""

from __future__ import annotations

import psutil


def _kin() -> list[psutil.Process]:
    me = psutil.Process()
    return [me, *me.children(recursive=True)]


def listens_here(port: int) -> bool:
    """Whether this process or one that comes from it listens on the port. Blocks for milliseconds."""
    for process in _kin():
        try:
            connections = process.net_connections(kind="tcp")
        except psutil.Error:
            continue  # it has ended, or may not be looked at; its id is asked for too
        if any(each.status == psutil.CONN_LISTEN and each.laddr.port == port for each in connections):
            return True
    return False


def is_ours(pid: int) -> bool:
    """Whether the process of this id is this one or comes from it."""
    return any(process.pid == pid for process in _kin())
