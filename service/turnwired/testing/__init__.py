"""The public test kit, for tests of agents, tools and adapters. docs/testing.md explains each piece.

``ScriptedProvider`` plays a model, ``MemoryRegistry`` tools and ``FakeMcpServer`` an MCP server with faults;
``EventCollector`` compares what a run told, and ``FakeClock`` moves time. ``provider_conformance`` and
``toolset_conformance`` hold an adapter to its port.
"""

from turnwired.testing.clock import ClockStuck, FakeClock
from turnwired.testing.conformance import NotConforming, name_of
from turnwired.testing.events import EventCollector, lines_of
from turnwired.testing.mcp import Crash, Delay, Drop, FakeMcpServer, FakeTool, Malformed, Refuse, StaleSession
from turnwired.testing.provider import ScriptedProvider, answer, calls, fails, stopped, usage
from turnwired.testing.provider_checks import PROVIDER_CHECKS, Served, Situation, provider_conformance
from turnwired.testing.registry import MemoryRegistry
from turnwired.testing.toolset_checks import (
    BROKEN_TOOLSET_CHECKS,
    TOOLSET_CHECKS,
    SampleToolset,
    toolset_conformance,
)

__all__ = [
    "BROKEN_TOOLSET_CHECKS",
    "PROVIDER_CHECKS",
    "TOOLSET_CHECKS",
    "ClockStuck",
    "Crash",
    "Delay",
    "Drop",
    "EventCollector",
    "FakeClock",
    "FakeMcpServer",
    "FakeTool",
    "Malformed",
    "MemoryRegistry",
    "NotConforming",
    "Refuse",
    "SampleToolset",
    "ScriptedProvider",
    "Served",
    "Situation",
    "StaleSession",
    "answer",
    "calls",
    "fails",
    "lines_of",
    "name_of",
    "provider_conformance",
    "stopped",
    "toolset_conformance",
    "usage",
]
