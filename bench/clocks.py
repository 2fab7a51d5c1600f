"""CPU time and memory of a process, our own or another."""

from __future__ import annotations

import os
import platform
import time

import psutil

_LINUX = platform.system() == "Linux"


def cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process, those that ended included."""
    if pid == os.getpid():
        return time.process_time()
    if not _LINUX:
        times = psutil.Process(pid).cpu_times()
        return times.user + times.system
    # The clock of another process, in nanoseconds; what /proc says is in hundredths of a second.
    return time.clock_gettime((~pid << 3) | 2)


def resident_kb(pid: int) -> float:
    """Memory of a process, in units of 1024 bytes."""
    return psutil.Process(pid).memory_info().rss / 1024
