"""Retries over HTTP: whole turns of the engine against a server that fails in the ways that providers do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from pathlib import Path
from time import time
from typing import Any

import pytest
from engine.harness import CALLER, Reader, no_price, user
from providers.calls import END, provider, text
from providers.server import Answer, Request, serve

from turnwired.codec.frame import Visibility
from turnwired.domain.event import IterationRetryScheduled, TextDelta
from turnwired.domain.failure import Failure, Reason
from turnwired.domain.message import Text
from turnwired.domain.model import ModelSelection
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.policy import Policy, RetryPolicy
from turnwired.domain.run import Agent, Cursor, TurnSpec
from turnwired.engine.ports import EngineConfig, Wiring
from turnwired.engine.service import Engine
from turnwired.store.memory import MemoryStore
from turnwired.telemetry.null import NullTelemetry
from turnwired.testing.registry import MemoryRegistry
from turnwired.tools.output import compile_output

pytestmark = pytest.mark.anyio

AT_ONCE = Policy(retry=RetryPolicy(initial_delay=0.0, max_delay=0.0))
Handler = Callable[[int, Request, Answer], Awaitable[None]]


def error(code: str) -> bytes:
    """An error as an event of a stream."""
    return b"data: " + json.dumps({"error": {"message": "no", "code": code, "type": code}}).encode() + b"\n\n"


async def turn(handler: Handler, policy: Policy = AT_ONCE, **overrides: Any) -> tuple[Reader, list[Request]]:
    """One turn to its end; the handler is told which request it answers, from 1."""

    async def numbered(request: Request, answer: Answer) -> None:
        await handler(len(server.requests), request, answer)

    async with serve(numbered) as server:
        model = ModelSelection("chat", "m")
        chat, store = provider(server.url, **overrides), MemoryStore()
        await store.start()
        wiring = Wiring(
            config=EngineConfig("default", deployment_policy=policy),
            agents={"default": Agent("default", ("Be brief.",), model)},
            providers={"chat": chat},
            default_model=model,
            registry=MemoryRegistry({}),
            store=store,
            telemetry=NullTelemetry(),
            price_of=no_price,
            compile_output=compile_output,
            random=lambda: 0.0,
        )
        reader = Reader()
        async with Engine(wiring) as engine, asyncio.timeout(10):
            accepted = await engine.start_turn(TurnSpec(CALLER, (user("Hello"),)))
            await engine.follow(CALLER, accepted.run_id, Cursor(), Visibility.DELTA, reader.send)
        await chat.aclose()
        await store.aclose()
    return reader, server.requests


def retries(reader: Reader) -> list[Failure]:
    """Why attempts failed that were followed by another."""
    return [item.event.failure for item in reader.events if isinstance(item.event, IterationRetryScheduled)]


def said(reader: Reader) -> str:
    """All text that was streamed."""
    return "".join(item.event.text for item in reader.events if isinstance(item.event, TextDelta))


@pytest.mark.requirement("CRED-18", "SCN-069")
async def test_an_error_inside_a_200_before_any_delta_is_an_attempt_that_failed() -> None:
    async def handler(number: int, _: Request, answer: Answer) -> None:
        await answer.all(error("overloaded_error") if number == 1 else text("Hello.") + END)

    reader, requests = await turn(handler)
    assert [failure.reason for failure in retries(reader)] == [Reason.PROVIDER_UNAVAILABLE]
    assert requests[0].body == requests[1].body
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
    assert said(reader) == "Hello."


@pytest.mark.requirement("CRED-18", "SCN-069")
async def test_an_error_inside_a_200_after_a_delta_surfaces_with_the_output_kept() -> None:
    async def handler(_: int, __: Request, answer: Answer) -> None:
        await answer.all(text("So far") + error("overloaded_error"))

    reader, requests = await turn(handler)
    assert retries(reader) == []
    assert len(requests) == 1
    outcome = reader.finished.outcome
    assert (outcome.kind, outcome.partial) == (OutcomeKind.ERRORED, True)
    assert outcome.failure is not None
    assert outcome.failure.reason is Reason.PROVIDER_UNAVAILABLE
    assert "output had already been sent" in outcome.failure.message
    assert reader.finished.message is not None
    assert [part.content for part in reader.finished.message.parts] == [Text("So far")]


@pytest.mark.requirement("CRED-18", "CRED-1", "SCN-059")
async def test_a_key_that_was_rotated_is_read_anew_and_the_turn_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("old")

    async def handler(_: int, request: Request, answer: Answer) -> None:
        if request.headers["authorization"] == "Bearer new":
            await answer.all(text("Hello.") + END)
        else:
            path.write_text("new")
            await answer.all(b'{"error":{"message":"no","code":"invalid_api_key"}}', 401)

    reader, requests = await turn(handler, key_file=str(path))
    assert [failure.reason for failure in retries(reader)] == [Reason.PROVIDER_AUTH_FAILED]
    assert len(requests) == 2
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("CRED-18")
async def test_a_context_that_does_not_fit_is_never_sent_again() -> None:
    async def handler(_: int, __: Request, answer: Answer) -> None:
        await answer.all(error("context_length_exceeded")[6:], 400, retry_after="0", x_should_retry="true")

    reader, requests = await turn(handler)
    assert len(requests) == 1
    assert reader.finished.outcome.failure is not None
    assert reader.finished.outcome.failure.reason is Reason.CONTEXT_OVERFLOW


@pytest.mark.requirement("CRED-4")
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "0"}, 0.0),
        ({"retry_after_ms": "20"}, 0.02),
        ({"retry_after": "0", "retry_after_ms": "30"}, 0.03),
        ({"retry_after": formatdate(time() - 60, usegmt=True)}, 0.0),
        ({"retry_after": "-5"}, 0.0),
        ({"retry_after": "1e300"}, 0.0),
        ({"retry_after": "soon"}, 0.0),
        ({}, 0.0),
    ],
)
async def test_what_a_provider_asks_for_is_waited_for_and_what_is_absurd_is_not(
    headers: dict[str, str], seconds: float
) -> None:
    async def handler(number: int, _: Request, answer: Answer) -> None:
        if number == 1:
            await answer.all(b'{"error":{"message":"slow down"}}', 429, **headers)
        else:
            await answer.all(text("Hello.") + END)

    reader, _ = await turn(handler)
    (scheduled,) = [item.event for item in reader.events if isinstance(item.event, IterationRetryScheduled)]
    assert scheduled.delay_ns == seconds * 1e9
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED


@pytest.mark.requirement("CRED-4")
async def test_a_date_in_the_future_is_waited_for_or_left_to_the_caller() -> None:
    async def handler(_: int, __: Request, answer: Answer) -> None:
        date = formatdate(time() + 600, usegmt=True)
        await answer.all(b'{"error":{"message":"slow down"}}', 429, retry_after=date)

    reader, requests = await turn(handler)
    assert len(requests) == 1
    failure = reader.finished.outcome.failure
    assert failure is not None
    assert failure.retry_after is not None
    assert 590 < failure.retry_after <= 600
    assert "asks to wait" in failure.message
