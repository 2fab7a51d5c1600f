"""The service as a process of its own: started as a user starts it, watched, stopped and killed."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import sysconfig
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import psutil

from turnwire import Resume, RunView, Update, afollow
from turnwire.v1 import event_pb2, run_pb2, turn_service_pb2, turn_service_pb2_grpc

ROOT = Path(__file__).parents[2]
START_SECONDS = 60.0
"""A start takes one to two seconds; the machine may be busy with other tests."""
SECONDS = 30.0
RESUME = Resume(attempts=300, initial_delay=0.05, max_delay=0.2)
CHANNEL = (
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 200),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", 64 << 20),
)
TIME_SERVER = Path(sysconfig.get_path("scripts")) / "mcp-server-time"


def child_environment(**more: str) -> dict[str, str]:
    """Nothing of the tester's own keys, proxies and settings; only what Python needs to find the service."""
    path = os.pathsep.join(str(ROOT / part) for part in ("service", "clients/python", "tests/e2e"))
    base = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
    return {**base, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", **more}


def config_text(provider_url: str, *, time_server: bool = False, grace_seconds: float = 10.0, more: str = "") -> str:
    """A configuration with one provider, the tools of agent_tools, and a file database beside it."""
    text = f"""
[server]
grace_seconds = {grace_seconds}
[store]
path = "runs.db"
[providers.scripted]
profile = "openai-compatible"
base_url = "{provider_url}/v1"
api_key_env = "SCRIPTED_KEY"
models = ["scripted-model"]
[tools]
entry_points = false
python = ["agent_tools:add", "agent_tools:slow", "agent_tools:pass_gate", "agent_tools:record"]
"""
    if time_server:
        text += f'[mcp_servers.time]\ncommand = "{TIME_SERVER}"\nargs = ["--local-timezone", "UTC"]\n'
    return text + more


AWAITED = "waiting for the tools of "
RUN_ENDED = re.compile(r" INFO turnwired\.engine\.service: run \S+ of agent \S+: [A-Z_]+")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended and all that it wrote."""

    code: int
    stdout: str
    stderr: str

    @property
    def complaints(self) -> str:
        """What was logged but the lines that say how each run ended, and that a busy machine starts slowly."""
        lines = self.stderr.splitlines(keepends=True)
        return "".join(line for line in lines if not RUN_ENDED.search(line) and not line.startswith(AWAITED))


async def run_cli(*arguments: str, cwd: Path, environment: Mapping[str, str] | None = None, stdin: str = "") -> Ended:
    """Run the command to its end."""
    process = await _spawn(arguments, cwd, environment or child_environment())
    async with asyncio.timeout(START_SECONDS):
        out, err = await process.communicate(stdin.encode())
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


async def spawn_cli(*arguments: str, cwd: Path) -> asyncio.subprocess.Process:
    """Start the command and leave it running."""
    return await _spawn(arguments, cwd, child_environment())


async def _spawn(arguments: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "turnwired.cli.main", *arguments),
        cwd=cwd,
        env=dict(environment),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@dataclass
class Service:
    """A service that is up."""

    process: asyncio.subprocess.Process
    address: str
    directory: Path
    stdout: list[str]
    _stderr: asyncio.Task[bytes]
    channel: grpc.aio.Channel
    turns: turn_service_pb2_grpc.TurnServiceAsyncStub
    ended: Ended | None = None
    known_children: list[psutil.Process] = field(default_factory=list[psutil.Process])

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def children(self) -> list[psutil.Process]:
        """The processes that the service has started, remembered until the end."""
        self.known_children = psutil.Process(self.process.pid).children(recursive=True)
        return self.known_children

    async def wait(self, seconds: float = SECONDS) -> Ended:
        """Wait for the end of the process."""
        if self.ended is None:
            assert self.process.stdout is not None
            async with asyncio.timeout(seconds):
                self.stdout.append((await self.process.stdout.read()).decode())
                err = await self._stderr
                code = await self.process.wait()
            self.ended = Ended(code, "".join(self.stdout), err.decode())
        return self.ended

    async def line(self, words: str) -> str:
        """Wait for a line on standard output that has these words."""
        assert self.process.stdout is not None
        async with asyncio.timeout(SECONDS):
            while line := (await self.process.stdout.readline()).decode():
                self.stdout.append(line)
                if words in line:
                    return line
        raise AssertionError(f"{words!r} was not said: {self.stdout}, {(await self._stderr).decode()}")

    async def stop(self) -> Ended:
        """SIGTERM, and wait."""
        if self.ended is None and self.process.returncode is None:
            self.signal(signal.SIGTERM)
        return await self.wait()

    async def kill(self) -> Ended:
        """SIGKILL, and wait."""
        if self.process.returncode is None:
            self.process.kill()
        return await self.wait()

    def follow(
        self, request: turn_service_pb2.RunTurnRequest | turn_service_pb2.WatchRunRequest, view: Followed
    ) -> asyncio.Task[Followed]:
        """Follow a run in a task, on a connection of its own, through restarts on the same port."""
        return asyncio.create_task(follow_at(self.address, request, view))

    async def run(self, request: turn_service_pb2.RunTurnRequest) -> Followed:
        """Run a turn to its end."""
        return await follow(self.turns, request, Followed())

    async def watch(self, run_id: str, after: event_pb2.Cursor | None = None) -> Followed:
        """Read a run's log from a cursor to its end."""
        return await follow(self.turns, turn_service_pb2.WatchRunRequest(run_id=run_id, after=after), Followed())

    async def get(self, run_id: str) -> turn_service_pb2.GetRunResponse:
        """A run with its trace."""
        request = turn_service_pb2.GetRunRequest(run_id=run_id, include_trace=True)
        return await self.turns.GetRun(request, timeout=SECONDS)

    async def all_runs(self) -> list[run_pb2.Run]:
        """Every run that is stored."""
        found: list[run_pb2.Run] = []
        token = ""
        while True:
            request = turn_service_pb2.ListRunsRequest(page_size=500, page_token=token)
            page = await self.turns.ListRuns(request, timeout=SECONDS)
            found += page.runs
            token = page.next_page_token
            if not token:
                return found


@dataclass
class Followed:
    """A run as a client sees it: the view, and each update as it came."""

    view: RunView = field(default_factory=RunView)
    updates: list[Update] = field(default_factory=list[Update])
    seen: asyncio.Condition = field(default_factory=asyncio.Condition)

    def kinds(self) -> list[str]:
        """Names of the events."""
        return [event.WhichOneof("event") or "" for event in self.view.events]

    async def until(self, kind: str, count: int = 1) -> None:
        """Wait until that many events of a kind were seen."""
        async with asyncio.timeout(SECONDS), self.seen:
            await self.seen.wait_for(lambda: self.kinds().count(kind) >= count)


async def follow(
    stub: turn_service_pb2_grpc.TurnServiceAsyncStub,
    request: turn_service_pb2.RunTurnRequest | turn_service_pb2.WatchRunRequest,
    into: Followed,
) -> Followed:
    """Follow a run to its end, whatever happens to the connection."""
    async with asyncio.timeout(START_SECONDS + SECONDS):
        async for update in afollow(stub, request, resume=RESUME):
            into.updates.append(update)
            into.view.apply(update)
            async with into.seen:
                into.seen.notify_all()
    return into


async def follow_at(
    address: str, request: turn_service_pb2.RunTurnRequest | turn_service_pb2.WatchRunRequest, into: Followed
) -> Followed:
    """Follow a run over a connection of its own, which outlives the process that it began with."""
    async with grpc.aio.insecure_channel(address, options=CHANNEL) as channel:
        stub: turn_service_pb2_grpc.TurnServiceAsyncStub = turn_service_pb2_grpc.TurnServiceStub(channel)
        return await follow(stub, request, into)


def prompt(text: str = "Hello", **fields: object) -> turn_service_pb2.RunTurnRequest:
    """A turn with one user message."""
    request = turn_service_pb2.RunTurnRequest()
    request.turn.input.add(role=2).parts.add().text = text
    for name, value in fields.items():
        setattr(request.turn, name, value)
    return request


@asynccontextmanager
async def service(
    directory: Path, config: str, *, listen: str = "127.0.0.1:0", **environment: str
) -> AsyncIterator[Service]:
    """The service in a directory, with this configuration. Killed at the end if the test has not ended it."""
    file = directory / "turnwire.toml"
    file.write_text(config, encoding="utf-8")
    variables = child_environment(SCRIPTED_KEY="sk-e2e-secret-4711", LEDGER=str(directory / "ledger"), **environment)
    process = await _spawn(("serve", "--config", str(file), "--listen", listen), directory, variables)
    assert process.stdout is not None and process.stderr is not None
    stderr = asyncio.create_task(process.stderr.read())
    try:
        async with asyncio.timeout(START_SECONDS):
            line = (await process.stdout.readline()).decode()
        if "is listening on " not in line:
            raise AssertionError(f"the service did not start: {line!r} {(await stderr).decode()}")
        address = line.rsplit(" ", 1)[1].strip()
        async with grpc.aio.insecure_channel(address, options=CHANNEL) as channel:
            stub: turn_service_pb2_grpc.TurnServiceAsyncStub = turn_service_pb2_grpc.TurnServiceStub(channel)
            up = Service(process, address, directory, [line], stderr, channel, stub)
            try:
                yield up
            finally:
                await up.kill()
    finally:
        if process.returncode is None:
            process.kill()
        async with asyncio.timeout(SECONDS):
            await process.wait()
            await stderr
