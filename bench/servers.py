"""Starts what is measured, each as a process of its own: the provider, the relay, the service as its users run it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bench.caller import PROVIDER
from bench.child import ROOT, Child, ChildFailure, port_of
from bench.handloop import MCP_COMMAND
from bench.turn import MCP_TOOL, SYSTEM

BENCH = Path(__file__).resolve().parent
_LISTENING = re.compile(rb"listening on (\S+)")


@dataclass(frozen=True, slots=True)
class Server:
    """A started server."""

    address: str
    child: Child
    stop: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Place:
    """Where children find each other and write: the provider's URL, the collector's port, a directory.

    ``other``: another checkout of the service, to compare with.
    """

    base_url: str
    sink_port: int
    directory: Path
    other: Path = ROOT

    @property
    def provider(self) -> str:
        """Host and port of the provider."""
        return urlsplit(self.base_url).netloc


def start_provider(directory: Path) -> tuple[Child, str]:
    """The scripted provider and its base URL."""
    child = Child(["-m", "bench.provider"], directory / "provider.log")
    return child, f"http://127.0.0.1:{port_of(child)}/v1"


def start_sink(directory: Path) -> tuple[Child, int]:
    """A collector and its port."""
    child = Child(["-m", "bench.otlp_sink"], directory / "otlp_sink.log")
    return child, port_of(child)


def start_relay(place: Place, name: str = "relay") -> Server:
    """The floor of a gRPC service."""
    child = Child(["-m", "bench.relay", place.base_url], place.directory / f"{name}.log")
    return Server(f"127.0.0.1:{port_of(child)}", child, child.end)


def start_service(place: Place, name: str, *, store: str, telemetry: bool = False, other: bool = False) -> Server:
    """``turnwire serve`` with a configuration file. ``store``: ``memory``, or the name of a database to make."""
    path = store if store == "memory" else str(place.directory / f"{name}-{store}")
    endpoint = f"http://127.0.0.1:{place.sink_port}" if telemetry else None
    file = place.directory / f"{name}.toml"
    file.write_text(configuration(place.base_url, path, endpoint), encoding="utf-8")
    arguments = ["-m", "turnwired.cli.main", "serve", "--config", str(file)]
    child = Child(arguments, place.directory / f"{name}.log", environ=_paths(place.other if other else ROOT))
    with ExitStack() as failed:
        failed.callback(child.end, terminate=True)
        line = child.receive()
        match = _LISTENING.search(line)
        if match is None:
            raise ChildFailure(f"{name} said {line!r} instead of its address")
        failed.pop_all()
    return Server(match[1].decode(), child, lambda: child.end(terminate=True))


def _paths(root: Path) -> Mapping[str, str]:
    # As an installed service has them, and the benchmark's tools.
    paths = [root / "service", root / "clients" / "python", BENCH]
    return {"PYTHONPATH": ":".join(str(path) for path in paths)}


def configuration(base_url: str, store: str, otlp_endpoint: str | None) -> str:
    """A configuration such as a user writes, with bounds that the benchmark does not meet."""
    command, *arguments = MCP_COMMAND
    quoted = ", ".join(f'"{argument}"' for argument in arguments)
    telemetry = f'[telemetry]\notlp_endpoint = "{otlp_endpoint}"' if otlp_endpoint else ""
    return f"""
{telemetry}
[server]
listen = "127.0.0.1:0"
max_active_runs = 5000
[store]
path = "{store}"
[providers.{PROVIDER}]
profile = "openai-compatible"
base_url = "{base_url}"
models = ["text-20"]
list_prices = false
[agents.default]
instructions = ["{SYSTEM}"]
[policy.loop]
max_steps = 100
repeated_call_threshold = 0
[tools]
python = ["bench_tools:noop", "bench_tools:sleep50"]
entry_points = false
[mcp_servers.{PROVIDER}]
command = "{command}"
args = [{quoted}]
include = ["{MCP_TOOL}"]
"""


def python_version() -> str:
    """Of the interpreter that runs everything."""
    return sys.version.split()[0]
