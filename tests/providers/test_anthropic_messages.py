"""The Messages provider against a scripted server: what it sends and what becomes of answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from providers.calls import KEY, ask
from providers.messages import stream
from providers.server import Answer, Request, serve

from turnwired.domain.failure import Reason
from turnwired.domain.generation import FinishReason
from turnwired.providers.build import provider_for
from turnwired.providers.http_provider import HttpProvider
from turnwired.providers.port import CallLimits, ModelRequest
from turnwired.providers.profiles import Profile, Wire, with_overrides

pytestmark = pytest.mark.anyio

TEXT = stream(
    [
        {"type": "message_start", "message": {"id": "m1", "model": "c", "usage": {"input_tokens": 3}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
        {"type": "content_block_stop", "index": 0},
    ]
)
END = stream(
    [
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
)


def provider(url: str, **overrides: Any) -> HttpProvider:
    """A provider as a deployment would configure it."""
    row = {
        "wire": "anthropic.messages",
        "base_url": url,
        "key_env": "KEY",
        "auth_header": "x-api-key",
        "auth_scheme": "",
        "headers": {"anthropic-version": "2026-10-21"},
        **overrides,
    }
    return provider_for(with_overrides({}, {"acme": row})["acme"], environ={"KEY": KEY})


def request(**fields: Any) -> ModelRequest:
    """A request of one message."""
    message = b'{"role":"user","content":[{"type":"text","text":"my diary"}]}'
    return ModelRequest("c", [message], limits=CallLimits(total=20), **fields)


@pytest.mark.requirement("MSG-20", "MSG-27")
async def test_a_call_goes_to_the_endpoint_with_the_headers_of_the_profile() -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer.all(TEXT + END)

    async with serve(handler) as server:
        asked = provider(server.url)
        folded, failure = await ask(asked, request())
        await asked.aclose()
        cloud = provider(server.url, path="/models/{model}:streamRawPredict", model_in_body=False)
        await ask(cloud, request())
        await cloud.aclose()
    assert (folded.text, failure) == ("Hello", None)
    assert folded.stopped
    assert folded.stopped.reason is FinishReason.STOP
    first, second = server.requests
    assert (first.path, second.path) == ("/v1/messages", "/v1/models/c:streamRawPredict")
    assert first.headers["x-api-key"] == KEY
    assert first.headers["anthropic-version"] == "2026-10-21"
    assert json.loads(first.body)["model"] == "c"
    assert "model" not in json.loads(second.body)


@pytest.mark.requirement("MSG-9")
async def test_an_overload_in_the_middle_of_a_stream_keeps_the_output_before_it() -> None:
    async def handler(_: Request, answer: Answer) -> None:
        error = {"type": "error", "error": {"type": "overloaded_error", "message": "my diary"}}
        await answer.all(TEXT + stream([error]))

    async with serve(handler) as server:
        asked = provider(server.url)
        folded, failure = await ask(asked, request())
        await asked.aclose()
    assert (folded.text, folded.stopped) == ("Hello", None)
    assert failure
    assert (failure.reason, failure.retryable) == (Reason.PROVIDER_UNAVAILABLE, True)


@pytest.mark.requirement("MSG-11")
async def test_a_clean_end_without_a_stop_reason_is_no_end_signal_and_no_failure() -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer.all(TEXT)

    async with serve(handler) as server:
        asked = provider(server.url)
        folded, failure = await ask(asked, request())
        await asked.aclose()
    assert (folded.text, folded.stopped, failure) == ("Hello", None, None)


@pytest.mark.requirement("MSG-28")
async def test_input_tokens_come_from_the_providers_counter() -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer.all(b'{"input_tokens":42}', content_type="application/json")

    async with serve(handler) as server:
        asked = provider(server.url, token_counter=True)
        counted = await asked.count_tokens(request())
        await asked.aclose()
    assert (counted.tokens, counted.exact) == (42, True)
    assert [sent.path for sent in server.requests] == ["/v1/messages/count_tokens"]


@pytest.mark.requirement("MSG-27")
def test_the_fields_of_a_cloud_are_data_of_a_profile() -> None:
    row = {"wire": "anthropic.messages", "body_fields": {"anthropic_version": "v"}, "model_in_body": False}
    [profile] = with_overrides({}, {"cloud": row}).values()
    assert (profile.body_fields, profile.model_in_body) == ({"anthropic_version": "v"}, False)
    assert Profile("x", Wire.ANTHROPIC_MESSAGES, "x").model_in_body


@pytest.mark.requirement("MSG-20")
def test_no_sdk_is_imported_with_the_wire() -> None:
    code = "import sys, turnwired.providers.anthropic_messages; print({'openai', 'anthropic'} & set(sys.modules))"
    environ = {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, env=environ, capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "set()"
