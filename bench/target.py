"""Adapter of this service for the agent-turn benchmark harness: ``targets/grpc_service.py`` there.

The harness starts it in the environment that ``scripts/bench.py`` made, with TURNWIRE_REPO naming this checkout. The
service runs as users run it: ``turnwire serve`` in a process of its own, with a configuration file. Copied under a name
that ends in ``_sqlite`` it stores in a database, else in memory. It stands alone: the harness has a module ``bench``.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc

REPO = Path(os.environ["TURNWIRE_REPO"])
sys.path[:0] = [str(REPO / "clients" / "python"), str(REPO / "service")]

from turnwire.v1 import event_pb2, message_pb2, tool_pb2, turn_service_pb2, turn_service_pb2_grpc

VENV = "base"
MCP = True
SERVER = True
METHOD = "/turnwire.v1.TurnService/RunTurn"
NAMES = {"mcp": "bench__mcp_noop"}

TIMES_SAID = 3
"""Every text is in its deltas, in PartFinished and in RunFinished.message."""

_state: dict[str, Any] = {}


def _config(base_url: str, folder: Path) -> str:
    from targets import _tools  # type: ignore[import-not-found]  # the harness's own

    command, *args = _tools.MCP_CMD
    path = str(folder / "bench.db") if __name__.endswith("_sqlite") else "memory"
    quoted = ", ".join(f'"{item}"' for item in args)
    return f"""
[server]
listen = "127.0.0.1:0"
max_active_runs = 5000
[store]
path = "{path}"
[providers.bench]
profile = "openai-compatible"
base_url = "{base_url}"
models = ["text-20"]
list_prices = false
[agents.default]
instructions = ["You are a helpful assistant."]
[policy.loop]
max_steps = 100
repeated_call_threshold = 0
[tools]
python = ["bench_tools:noop", "bench_tools:sleep50"]
[mcp_servers.bench]
command = "{command}"
args = [{quoted}]
"""


async def start(base_url: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="turnwire-bench-"))
    (folder / "turnwire.toml").write_text(_config(base_url, folder))
    environ = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    environ["PYTHONPATH"] = os.pathsep.join(
        [str(REPO / "service"), str(REPO / "clients" / "python"), str(REPO / "bench")]
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "turnwired.cli.main",
        "serve",
        "--config",
        str(folder / "turnwire.toml"),
        stdout=asyncio.subprocess.PIPE,
        env=environ,
    )
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), 60)
    match = re.search(rb"listening on (\S+)", line)
    if match is None:
        raise RuntimeError(f"the service did not start: {line!r}")
    address = match[1].decode()
    channel = grpc.aio.insecure_channel(address)
    _state.update(
        process=process,
        folder=folder,
        address=address,
        channel=channel,
        stub=turn_service_pb2_grpc.TurnServiceStub(channel),
    )


def server_pids() -> Sequence[int]:
    return [_state["process"].pid]


def request(
    model: str, tools: Sequence[str], history: Sequence[dict[str, str]], prompt: str = "hello"
) -> turn_service_pb2.RunTurnRequest:
    message = turn_service_pb2.RunTurnRequest()
    turn = message.turn
    turn.model.provider = "bench"
    turn.model.model = model
    for item in [*history, {"role": "user", "content": prompt}]:
        role = message_pb2.ROLE_USER if item["role"] == "user" else message_pb2.ROLE_ASSISTANT
        turn.input.add(role=role).parts.add().text = item["content"]
    if tools:
        turn.tools.include.extend(NAMES.get(tool, tool) for tool in tools)
    else:
        turn.tools.choice.mode = tool_pb2.TOOL_CHOICE_MODE_NONE
    return message


def text_of(frame: turn_service_pb2.RunTurnResponse) -> Sequence[str]:
    return [event.text_delta.text for event in frame.events if event.HasField("text_delta")]


async def run_turn(
    model: str,
    prompt: str,
    tools: Sequence[str],
    on_delta: Callable[[str], None],
    history: Sequence[dict[str, str]] = (),
) -> None:
    last: event_pb2.RunEvent | None = None
    async for frame in _state["stub"].RunTurn(request(model, tools, history, prompt)):
        for text in text_of(frame):
            on_delta(text)
        if frame.events:
            last = frame.events[-1]
    if last is None or not last.HasField("run_finished"):
        raise RuntimeError("the run did not finish")
    if last.run_finished.outcome.kind != 1:
        raise RuntimeError(f"{model}: {last.run_finished.outcome}")


async def native(name: str, parameters: dict[str, Any]) -> Any:
    # The native client tells lateness by times in the text; a finished part says them again, so only a client that
    # reads events can measure that.
    if os.environ.get("BENCH_NATIVE", "1") == "0" or name in {"profile", "conc"}:
        return None
    from targets import _grpcnative  # pyright: ignore[reportMissingImports]

    if _grpcnative.load is not _load:
        _state["load"] = _grpcnative.load
        _grpcnative.load = _load

    def serialized(model: str, tools: Sequence[str], history: Sequence[dict[str, str]]) -> bytes:
        return request(model, tools, history).SerializeToString()

    return await _grpcnative.measure(_state["address"], METHOD, serialized, server_pids(), name, parameters)


async def _load(address: str, method: str, body: bytes, **options: Any) -> Any:
    """The native client, which counts patterns in raw bytes: our text comes as deltas, as a part and as the message."""
    result = await _state["load"](address, method, body, **options)
    if result["deltas"] % TIMES_SAID:
        raise RuntimeError(f"{result['deltas']} deltas in the bytes, not {TIMES_SAID} times each")
    result["deltas"] //= TIMES_SAID
    return result


async def stop() -> None:
    await _state["channel"].close()
    _state["process"].terminate()
    await asyncio.wait_for(_state["process"].wait(), 20)
    shutil.rmtree(_state["folder"], ignore_errors=True)
