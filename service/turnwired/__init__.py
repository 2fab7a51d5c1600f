"""Turnwire: a service that runs agent turns and settles each of them exactly once.

``Runtime`` runs turns in the process of a program, without a server. It is imported when it is first asked for: the
rest of this package imports this module, and so does everybody who only wants the version.
"""

from __future__ import annotations

import importlib
import os

__version__ = "0.1.0"

# Before anything imports gRPC, which reads it then. Its handlers around fork are for programs that go on with gRPC in
# the child; beside its own threads they crash: children such as MCP servers died before their exec with SIGSEGV or
# SIGABRT, and calls of the parent hung.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

_LAZY = frozenset({"Rewound", "Runtime", "TurnResult"})


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(importlib.import_module("turnwired.runtime"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
