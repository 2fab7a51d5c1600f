"""Turnwire: a service that runs agent turns and settles each of them exactly once."""

import os

__version__ = "0.1.0"

# Before anything imports gRPC, which reads it then. Its handlers around fork are for programs that go on with gRPC in
# the child; beside its own threads they crash: children such as MCP servers died before their exec with SIGSEGV or
# SIGABRT, and calls of the parent hung.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
