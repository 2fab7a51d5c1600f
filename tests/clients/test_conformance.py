"""The conformance set of the clients: each language plays each scenario against the real service.

``make clients`` builds the languages, names them in TURNWIRE_CLIENTS and runs this.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from clients.link import line
from clients.relay import (
    AwayForAnswers,
    Between,
    LargeCounts,
    LaterVersion,
    LosesAnswers,
    Repeating,
    SpoilsAnswers,
    TakenOver,
    relayed,
    relayed_http,
)
from clients.scenario import NAMES, Data, Runner, case_of, differences, read, steps_of
from e2e.provider import Provider, provider
from e2e.service import Followed, Service, config_text, service
from tools.kit import eventually

from scripts.clients.languages import LANGUAGES, cache_of
from scripts.clients.results import RESULTS, table, tabled
from turnwire.v1 import outcome_pb2, turn_service_pb2

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]
SECONDS = 60.0
PLAYING = list(filter(None, os.environ.get("TURNWIRE_CLIENTS", "").split(",")))
needs_clients = pytest.mark.skipif(not PLAYING, reason="make clients builds the clients and runs this")
HTTP = """
[http]
listen = "127.0.0.1:{port}"
connect = true
origins = ["http://127.0.0.1:{page}"]
max_request_bytes = 16777216
"""
RELAYS: dict[str, Callable[[Provider, Data], Between]] = {
    "later": lambda *_: LaterVersion(),
    "full": lambda *_: LargeCounts(),
    "repeats": lambda *_: Repeating(),
    "taken over": lambda p, link: TakenOver(p.gate(link["gate"])),
    "loses answers": lambda *_: LosesAnswers(),
    "away for answers": lambda *_: AwayForAnswers(),
    "spoils answers": lambda *_: SpoilsAnswers(),
}
TOKENS = {"CONFORMANCE_TOKEN": "a-token-of-the-conformance-set"}


@dataclass
class Running:
    """The service of a scenario, which may be killed and started again where it was."""

    start: Callable[[str], Awaitable[Service]]
    now: Service
    url: str = ""

    async def again(self) -> None:
        """Without a word to anybody."""
        await self.now.kill()
        self.now = await self.start(self.now.address)


@needs_clients
@pytest.mark.requirement("CLIENT-10")
@pytest.mark.parametrize("name", NAMES)
async def test_every_language_plays_the_scenario(name: str, tmp_path: Path) -> None:
    config = read(name).get("config", "")
    page, port = free_port(), free_port()
    web = any(speaks_http(language) for language in PLAYING)
    if web:
        config += HTTP.format(page=page, port=port)
    failed: dict[str, list[str]] = {}
    async with provider() as p, AsyncExitStack() as stack:

        async def start(listen: str) -> Service:
            text = config_text(p.url, more=config)
            up = await stack.enter_async_context(service(tmp_path, text, listen=listen, GATES=p.url, **TOKENS))
            if web:
                await up.line("browsers and curl find it at")
            return up

        running = Running(start, await start("127.0.0.1:0"))
        for language in PLAYING:
            running.url = f"http://127.0.0.1:{port}" if speaks_http(language) else ""
            failed[language] = await played(name, language, p, running, page)
    tell(name, failed)
    assert {language: words for language, words in failed.items() if words} == {}


def speaks_http(language: str) -> bool:
    """Whether a language is given the URL of the HTTP port."""
    return bool(getattr(LANGUAGES[language], "SPEAKS_HTTP", False))


def free_port() -> int:
    """A port for the page, which the server has to be told before it starts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def played(name: str, language: str, p: Provider, running: Running, page: int) -> list[str]:
    """What is not as the scenario says."""
    scenario = read(name, language)
    p.script(*steps_of(scenario.get("answers", []), p))
    for gate in scenario.get("open", []):
        p.gate(gate).set()
    runner = Runner(LANGUAGES[language].runner(cache_of(language)), PAGE_PORT=str(page))
    before = {run.run_id for run in await running.now.all_runs()} if "after" in scenario else set[str]()
    async with linked(scenario, p, running.now, running.url) as target, asyncio.TaskGroup() as group:
        if scenario.get("link", {}).get("restarts"):
            group.create_task(restarted_in_a_run(running, before))
        try:
            answer = await runner.ask(case_of(scenario, name, target), SECONDS)
        except AssertionError as error:
            return [str(error)]
    found = differences(scenario["expect"], answer)
    return found + await unlike_after(scenario.get("after", {}), before, p, running.now)


async def restarted_in_a_run(running: Running, before: set[str]) -> None:
    """Once the new run has said something."""
    new: list[str] = []

    async def begun() -> bool:
        new[:] = [run.run_id for run in await running.now.all_runs() if run.run_id not in before]
        return bool(new)

    await eventually(begun, SECONDS)
    view = Followed()
    following = running.now.follow(turn_service_pb2.WatchRunRequest(run_id=new[0]), view)
    await view.until("text_delta")
    await running.again()
    await following


@asynccontextmanager
async def linked(scenario: Data, p: Provider, s: Service, url: str) -> AsyncIterator[str]:
    """The address that the client is given, or the URL."""
    link = scenario.get("link", {})
    scheme, address = ("http://", url.removeprefix("http://")) if url else ("", s.address)
    if "relay" in link:
        does = RELAYS[link["relay"]](p, link)
        async with relayed_http(url, does) if url else relayed(address, does) as relay:
            yield scheme + relay
    elif "cuts" in link:
        held = asyncio.Event() if link.get("until_run") and not url else None  # a page asks first, and that has no run
        async with line(address, link["cuts"], gone=link.get("gone", False), held=held) as between:
            begun = asyncio.create_task(set_when_run(held, s)) if held is not None else None
            try:
                yield scheme + between.address
            finally:
                if begun is not None:
                    begun.cancel()
            assert between.broken >= link.get("at_least", 1), "the line was to break"
    else:
        yield scheme + link.get("address", address)


async def set_when_run(event: asyncio.Event, s: Service) -> None:
    """Once the server has one run more."""
    before = len(await s.all_runs())

    async def more() -> bool:
        return len(await s.all_runs()) > before

    await eventually(more, SECONDS)
    event.set()


async def unlike_after(after: Data, before: set[str], p: Provider, s: Service) -> list[str]:
    """What the server knows of the runs that were made, and the provider of its requests."""
    found: list[str] = []
    if not after:
        return found
    made = [run for run in await s.all_runs() if run.run_id not in before]
    if len(made) != after.get("runs", len(made)):
        found.append(f"after: {len(made)} runs, not {after['runs']}")
    for run in made if "outcome" in after else []:
        try:
            async with asyncio.timeout(SECONDS):
                ended = await s.watch(run.run_id)
        except TimeoutError:
            found.append(f"after: the run has not ended within {SECONDS} s")
            continue
        kind = outcome_pb2.OutcomeKind.Name(ended.view.outcome.kind) if ended.view.outcome else ""
        if kind != after["outcome"]:
            found.append(f"after: {kind}, not {after['outcome']}")
    for run in made if after.get("waiting") else []:
        got = await s.turns.GetRun(turn_service_pb2.GetRunRequest(run_id=run.run_id), timeout=SECONDS)
        if not got.run.HasField("waiting"):
            found.append("after: the run does not wait")
    said = json.dumps(p.requests[-1:], ensure_ascii=False)
    found += [f"after: the model was not told {words!r}" for words in after.get("told", []) if words not in said]
    return found


def tell(name: str, failed: dict[str, list[str]]) -> None:
    """Keep what came of it, for the table of the README."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {"title": read(name)["title"]}
    results["languages"] = {language: not words for language, words in failed.items()}
    (RESULTS / f"{name}.json").write_text(json.dumps(results), encoding="utf-8")


@pytest.mark.requirement("CLIENT-11")
def test_the_table_of_the_readme_is_of_all_scenarios_and_all_languages() -> None:
    shown = tabled()
    assert [row[0] for row in shown.rows] == [read(name)["title"] for name in NAMES]
    assert set(shown.languages) == set(LANGUAGES)
    assert all(cell == "yes" for row in shown.rows for cell in row[1:])
    assert table({name: {"title": read(name)["title"], "languages": dict.fromkeys(LANGUAGES, True)} for name in NAMES})
