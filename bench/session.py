"""One run of the benchmark: everything is started once, then every repetition asks every target for every measure.

Targets take turns within a repetition, each time in another order, so that what the computer does meanwhile falls on
all of them; a ratio compares samples of the same repetition only.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

from bench.child import ROOT, Child
from bench.clocks import cpu_seconds
from bench.measures import Sample
from bench.plan import AIOHTTP, HTTPX, MEMORY, OTHER_MEMORY, OTHER_SQLITE, RELAY, SQLITE, TELEMETRY, Plan, Step
from bench.report import Record, Report
from bench.servers import Place, Server, start_provider, start_relay, start_service, start_sink

Say = Callable[[str], None]


class SampleFailure(Exception):
    """A sample that could not be taken. The session goes on without it."""


COLD = "cold start"
SPAN_FLUSH = 15.0
FIRST_LIMIT = 30.0
QUIET_LIMIT, QUIET_SECONDS, QUIET_SHARE = 15.0, 0.3, 0.05


def start_server(place: Place, target: str, name: str) -> Server:
    """The server of a target that has one."""
    start = {
        RELAY: partial(start_relay),
        MEMORY: partial(start_service, store="memory"),
        SQLITE: partial(start_service, store="turns.db"),
        TELEMETRY: partial(start_service, store="turns.db", telemetry=True),
        OTHER_MEMORY: partial(start_service, store="memory", other=True),
        OTHER_SQLITE: partial(start_service, store="turns.db", other=True),
    }
    return start[target](place, name)


def start_worker(place: Place, target: str) -> Child:
    """The process that measures a target; its own process is the target where that has no server."""
    kinds = {HTTPX: "httpx", AIOHTTP: "aiohttp"}
    kind = kinds.get(target, "grpc")
    arguments = [kind, place.base_url] if target in kinds else [kind]
    worker = Child(["-m", "bench.worker", *arguments], place.directory / f"worker-{kind}.log")
    worker.receive()
    return worker


class Session:
    """A run from the first process started to the last one ended."""

    def __init__(self, plan: Plan, directory: Path, say: Say, other: Path = ROOT) -> None:
        self._plan = plan
        self._other = other
        self._directory = directory
        self._say = say
        self._stack = ExitStack()
        self._workers: dict[str, Child] = {}
        self._servers: dict[str, Server] = {}
        self.report = Report()

    def run(self) -> Report:
        """Do all of it. Raises ChildFailure when something does not start."""
        begun = time.monotonic()
        with self._stack:
            provider, url = start_provider(self._directory)
            self._stack.callback(provider.end)
            sink, sink_port = start_sink(self._directory)
            self._stack.callback(self._end_sink, sink)
            self._place = Place(url, sink_port, self._directory, self._other)
            self._start_targets()
            for number in range(self._plan.colds):
                for target in self._order(number):
                    self._record(COLD, "cold", target, number, partial(self._cold, target, number))
            self._settle()
            self._say(f"ready after {time.monotonic() - begun:.0f} s")
            self._repeat(begun)
        return self.report

    def _start_targets(self) -> None:
        caller: Child | None = None
        for target in self._plan.targets:
            if target in (HTTPX, AIOHTTP):
                worker = start_worker(self._place, target)
                self._stack.callback(worker.end)
            else:
                server = start_server(self._place, target, target.replace(" ", "-"))
                self._stack.callback(server.stop)
                self._servers[target] = server
                if caller is None:
                    caller = start_worker(self._place, target)
                    self._stack.callback(caller.end)
                worker = caller
            self._workers[target] = worker

    def _settle(self) -> None:
        """One turn with each tool, then wait until what servers load in the background is loaded."""
        for target in self._plan.targets:
            for key in ("noop", "mcp"):
                sizes = {"count": 1, "iterations": 1, "key": key, "warm": 0}
                self._ask(target, Step("", "tool", sizes, FIRST_LIMIT))
        end = time.monotonic() + QUIET_LIMIT
        pids = [server.child.pid for server in self._servers.values()]
        while time.monotonic() < end:
            before = sum(map(cpu_seconds, pids))
            time.sleep(QUIET_SECONDS)
            if sum(map(cpu_seconds, pids)) - before < QUIET_SECONDS * QUIET_SHARE:
                return

    def _order(self, number: int) -> tuple[str, ...]:
        targets = self._plan.targets
        shift = number % len(targets)
        return targets[shift:] + targets[:shift]

    def _repeat(self, begun: float) -> None:
        longest = 0.0
        for number in range(self._plan.repetitions):
            started = time.monotonic()
            if number and started - begun + longest > self._plan.seconds:
                break
            for position, step in enumerate(self._plan.steps):
                for target in self._order(number + position):
                    self._record(step.title, step.measure, target, number, partial(self._ask, target, step))
            now = time.monotonic()
            longest = max(longest, now - started)
            self._say(f"repetition {number + 1} done after {now - begun:.0f} s, load {os.getloadavg()[0]:.1f}")

    def _record(self, title: str, measure: str, target: str, repetition: int, take: Callable[[], Sample]) -> None:
        completions = self._completions()
        try:
            sample, error = take(), ""
        except SampleFailure as failure:
            sample, error = {}, str(failure)
            self._say(f"{target}, {title}: {error}")
        asked = self._completions() - completions
        self.report.add(Record(title, measure, target, repetition, sample, asked, os.getloadavg()[0], error))

    def _completions(self) -> int:
        connection = HTTPConnection(self._place.provider, timeout=10)  # no proxy, whatever the environment says
        try:
            connection.request("GET", "/stats")
            completions: int = json.load(connection.getresponse())["completions"]
        finally:
            connection.close()
        return completions

    def _ask(self, target: str, step: Step) -> Sample:
        command: dict[str, object] = {"measure": step.measure, "sizes": step.sizes, "limit": step.limit}
        server = self._servers.get(target)
        if server is not None:
            command |= {"address": server.address, "pid": server.child.pid}
        return _asked(self._workers[target], command, step.limit)

    def _cold(self, target: str, number: int) -> Sample:
        """From nothing to ready, to the first answer, and the memory after it."""
        command: dict[str, object] = {"measure": "first", "sizes": {}, "limit": FIRST_LIMIT}
        begun = time.monotonic()
        with ExitStack() as stack:
            if target in self._servers:
                server = start_server(self._place, target, f"cold-{target.replace(' ', '-')}-{number}")
                stack.callback(server.stop)
                worker = self._workers[target]
                command |= {"address": server.address, "pid": server.child.pid}
                stack.callback(_asked, worker, {"forget": server.address}, FIRST_LIMIT)
            else:
                worker = start_worker(self._place, target)
                stack.callback(worker.end)
            ready = time.monotonic() - begun
            sample = _asked(worker, command, FIRST_LIMIT)
        return {"ready_s": ready, "first_turn_s": sample["turn_s"], "rss_mb": sample["rss_mb"]}

    def _end_sink(self, sink: Child) -> None:
        """After the services have ended, and with them their last exports."""
        sink.close_input()
        requests, _, size = sink.receive(SPAN_FLUSH).partition(b" ")
        self.report.exported = (int(requests), int(size))
        sink.end()


def _asked(worker: Child, command: dict[str, object], limit: float) -> Sample:
    worker.send(json.dumps(command).encode())
    answer = json.loads(worker.receive(limit + 10.0))
    if "error" in answer:
        raise SampleFailure(answer["error"])
    sample: Sample = answer["sample"]
    return sample
