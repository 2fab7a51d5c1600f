"""Whole runs with a distinctive key against a provider that repeats it: nothing that they leave behind may hold it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest
from engine.harness import CALLER, Reader, no_price, user
from providers.calls import END, provider, text
from providers.server import Answer, Request, serve
from telemetry.collector import running_collector

from turnwired.codec.frame import Visibility
from turnwired.domain.failure import Reason
from turnwired.domain.model import ModelSelection
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.run import Agent, Cursor, TurnSpec
from turnwired.engine.ports import EngineConfig, Wiring
from turnwired.engine.service import Engine
from turnwired.providers.http_provider import HttpProvider
from turnwired.store.sqlite import SqliteStore
from turnwired.telemetry.otel import OtelTelemetry
from turnwired.telemetry.settings import TelemetrySettings
from turnwired.testing.registry import MemoryRegistry
from turnwired.tools.output import compile_output

pytestmark = pytest.mark.anyio

OLD, NEW = "sk-OLD7d1f4c90aa52", "sk-NEW3b8e6d17cc04"
PIECE = 8
"""No piece of a key of this length may be shown either, apart from the beginning that all keys share."""


class Rude:
    """Rejects all keys but the new one, and one model with the new one too; repeats the key wherever it can."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.keys: list[str] = []

    async def __call__(self, request: Request, answer: Answer) -> None:
        key = request.headers["authorization"].removeprefix("Bearer ")
        self.keys.append(key)
        if key == OLD:
            self._path.write_text(NEW)  # the key is rotated just now
            await answer.start(401, "application/json", x_request_id=key)
        elif b"forbidden" in request.body:
            await answer.start(403, "application/json", x_request_id=key)
        else:
            await answer.all(text("Hello.") + END, x_request_id=key)
            return
        error = {"message": f"Incorrect API key provided: {key}.", "type": key, "code": key, "param": key}
        await answer.send(json.dumps({"error": error}).encode())
        await answer.end()


async def run(engine: Engine, words: str) -> Reader:
    """One turn to its end."""
    accepted = await engine.start_turn(TurnSpec(CALLER, (user(words),), include_trace=True))
    reader = Reader()
    async with asyncio.timeout(10):
        await engine.follow(CALLER, accepted.run_id, Cursor(), Visibility.DELTA, reader.send)
    return reader


def wiring(chat: HttpProvider, store: SqliteStore, telemetry: OtelTelemetry) -> Wiring:
    """An engine's parts around one provider."""
    model = ModelSelection("chat", "m")
    return Wiring(
        config=EngineConfig("default"),
        agents={"default": Agent("default", ("Be brief.",), model)},
        providers={"chat": chat},
        default_model=model,
        registry=MemoryRegistry({}),
        store=store,
        telemetry=telemetry,
        price_of=no_price,
        compile_output=compile_output,
        random=lambda: 0.0,
    )


def assert_holds_no_key(what: str, shown: str | bytes) -> None:
    """Fails when a key, or a piece of one, is in it."""
    data = shown.encode() if isinstance(shown, str) else shown
    for key in (OLD, NEW):
        pieces = [key[at : at + PIECE].encode() for at in range(3, len(key) - PIECE + 1)]
        assert not any(piece in data for piece in pieces), f"{what} shows the key"


def files_of(directory: Path) -> Sequence[Path]:
    """The database with whatever SQLite keeps beside it."""
    return [path for path in directory.iterdir() if path.is_file()]


@pytest.mark.requirement("CRED-6", "SCN-153")
async def test_nothing_that_a_run_leaves_behind_holds_the_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    path, database = tmp_path / "key", tmp_path / "db"
    database.mkdir()
    path.write_text(OLD)
    rude = Rude(path)
    with running_collector() as collector:
        telemetry = OtelTelemetry(TelemetrySettings(endpoint=collector.endpoint, service_version="1"))
        async with serve(rude) as server:
            chat = provider(server.url, key_file=str(path))
            store = SqliteStore(database / "turnwire.db")
            await store.start()
            async with Engine(wiring(chat, store, telemetry)) as engine:
                good = await run(engine, "Hello")
                bad = await run(engine, "forbidden")
            await chat.aclose()
            await store.aclose()
        await asyncio.to_thread(telemetry.aclose)
        assert collector.spans
        assert_holds_no_key("telemetry", collector.text())
    assert rude.keys == [OLD, NEW, NEW, NEW]
    assert good.finished.outcome.kind is OutcomeKind.ANSWERED
    failure = bad.finished.outcome.failure
    assert failure is not None
    assert failure.reason is Reason.PROVIDER_AUTH_FAILED
    for reader in (good, bad):
        assert_holds_no_key("an event", repr(reader.events))
        assert_holds_no_key("a frame", b"".join(frame.SerializeToString() for frame in reader.frames))
    assert_holds_no_key("the provider", repr(chat) + repr(chat.info))
    assert len(files_of(database)) >= 1
    for file in files_of(database):
        assert_holds_no_key(file.name, file.read_bytes())
    assert caplog.records
    assert_holds_no_key("the log", "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records))
