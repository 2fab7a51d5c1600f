"""Whole calls by the shipped profiles of clouds: a server checks the credentials, rejects the first, and answers."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from providers.calls import END, ask, text
from providers.cloud.kit import SECRET, answer_json, service_account
from providers.cloud.sigv4 import signed_by
from providers.server import Answer, Request, serve

from turnwired.domain.failure import Reason
from turnwired.providers.build import provider_for
from turnwired.providers.http_provider import HttpProvider
from turnwired.providers.port import CallLimits, ModelRequest
from turnwired.providers.profiles import Wire, shipped

pytestmark = pytest.mark.anyio

MODEL = "claude-sonnet-5@20260101"
USER = b'{"role":"user","content":"Hello"}'
REJECTED = {"error": {"type": "authentication_error", "message": f"No: {SECRET}"}}


def events(*values: dict[str, Any]) -> bytes:
    """A stream of the Messages wire."""
    return b"".join(f"event: {value['type']}\ndata: {json.dumps(value)}\n\n".encode() for value in values)


GREETING = events(
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 9, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 4},
    },
    {"type": "message_stop"},
)
BODIES = {Wire.ANTHROPIC_MESSAGES: GREETING, Wire.OPENAI_CHAT: text("Hello.") + END}


def provider(row: str, port: int, environ: Mapping[str, str]) -> HttpProvider:
    """The provider of a shipped profile, at a server of the test instead of the cloud's host."""
    profile = shipped()[row]
    path = urlsplit(profile.address(environ)).path
    return provider_for(replace(profile, base_url=f"http://127.0.0.1:{port}{path}", base_url_env=""), environ=environ)


def asked(**fields: Any) -> ModelRequest:
    return ModelRequest(MODEL, [USER], max_output_tokens=50, limits=CallLimits(total=20), **fields)


async def rejected_then_answered(calling: HttpProvider, renew: Callable[[], None] = lambda: None) -> None:
    """The first call is rejected; the one that renews is answered."""
    _, failure = await ask(calling, asked())
    assert failure is not None
    assert failure.reason is Reason.PROVIDER_AUTH_FAILED
    assert SECRET not in repr(failure)
    renew()
    folded, failure = await ask(calling, asked(renew_credentials=True))
    await calling.aclose()
    assert failure is None
    assert folded.text == "Hello."


@contextmanager
def variables(monkeypatch: pytest.MonkeyPatch, **values: str) -> Iterator[Mapping[str, str]]:
    """The process's variables with these among them, which the clouds' libraries read too."""
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    yield os.environ


@pytest.mark.requirement("CRED-15")
@pytest.mark.parametrize(
    ("row", "path"),
    [("azure-entra", "/openai/v1/chat/completions"), ("foundry", "/anthropic/v1/messages")],
)
async def test_azure(monkeypatch: pytest.MonkeyPatch, row: str, path: str) -> None:
    tokens: list[str] = []

    async def identity(_: Request, answer: Answer) -> None:
        tokens.append(f"{SECRET}-{len(tokens) + 1}")
        await answer_json(answer, {"access_token": tokens[-1], "expires_on": str(int(time.time()) + 3600)})

    async def model(request: Request, answer: Answer) -> None:
        assert request.path == path
        assert not {"api-key", "x-api-key"} & request.headers.keys()
        if request.headers["authorization"] == f"Bearer {SECRET}-2":
            await answer.all(BODIES[shipped()[row].wire])
        else:
            await answer_json(answer, REJECTED, 401)

    async with serve(identity) as host, serve(model) as cloud:
        named = {
            "IDENTITY_ENDPOINT": f"http://127.0.0.1:{host.port}/msi/token",
            "IDENTITY_HEADER": "x",
            "AZURE_OPENAI_ENDPOINT": "https://res.openai.azure.com",
            "ANTHROPIC_FOUNDRY_RESOURCE": "res",
        }
        with variables(monkeypatch, **named) as environ:
            calling = provider(row, cloud.port, environ)
            assert calling.info.configured
            await rejected_then_answered(calling)
    assert len(tokens) == 2
    resource = shipped()[row].sign_in_options["scope"].removesuffix("/.default")
    assert all(f"resource={resource}" in unquote(request.path) for request in host.requests)


@pytest.mark.requirement("CRED-15")
@pytest.mark.parametrize(
    ("row", "path"),
    [("bedrock", "/anthropic/v1/messages"), ("bedrock-openai", "/openai/v1/chat/completions")],
)
async def test_aws(monkeypatch: pytest.MonkeyPatch, row: str, path: str) -> None:
    async def model(request: Request, answer: Answer) -> None:
        assert request.path == path
        key = signed_by(request, SECRET)
        assert (key["region"], key["service"]) == ("eu-west-1", "bedrock-mantle")
        assert "content-type" in key["names"]
        if key["key"] == "NEW":
            assert request.headers["x-amz-security-token"] == "session"
            await answer.all(BODIES[shipped()[row].wire])
        else:
            await answer_json(answer, {"message": "The security token included in the request is invalid."}, 403)

    async with serve(model) as cloud:
        named = {"AWS_ACCESS_KEY_ID": "OLD", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "eu-west-1"}
        with variables(monkeypatch, **named) as environ:
            calling = provider(row, cloud.port, environ)
            assert calling.info.configured

            def renew() -> None:
                monkeypatch.setenv("AWS_ACCESS_KEY_ID", "NEW")
                monkeypatch.setenv("AWS_SESSION_TOKEN", "session")

            await rejected_then_answered(calling, renew)


@pytest.mark.requirement("CRED-15")
async def test_google(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tokens: list[str] = []

    async def accounts(_: Request, answer: Answer) -> None:
        tokens.append(f"{SECRET}-{len(tokens) + 1}")
        await answer_json(answer, {"access_token": tokens[-1], "expires_in": 3600})

    async def model(request: Request, answer: Answer) -> None:
        place = "/v1/projects/proj/locations/us-east5/publishers/anthropic/models"
        assert unquote(request.path) == f"{place}/{MODEL}:streamRawPredict"
        assert "anthropic-version" not in request.headers
        body = json.loads(request.body)
        assert "model" not in body
        assert body["anthropic_version"]
        if request.headers["authorization"] == f"Bearer {SECRET}-2":
            await answer.all(GREETING)
        else:
            error = {"code": 401, "message": "Request had invalid credentials.", "status": "UNAUTHENTICATED"}
            await answer_json(answer, {"error": error}, 401)

    async with serve(accounts) as host, serve(model) as cloud:
        file = service_account(tmp_path / "account.json", f"http://127.0.0.1:{host.port}/token")
        named = {
            "GOOGLE_APPLICATION_CREDENTIALS": str(file),
            "GOOGLE_CLOUD_LOCATION": "us-east5",
            "GOOGLE_CLOUD_PROJECT": "proj",
        }
        with variables(monkeypatch, **named) as environ:
            calling = provider("vertex", cloud.port, environ)
            assert calling.info.configured
            await rejected_then_answered(calling)
    assert len(tokens) == 2


@pytest.mark.requirement("CRED-13", "CRED-15")
@pytest.mark.parametrize(
    ("row", "environ", "words"),
    [
        ("azure-entra", {"AZURE_OPENAI_ENDPOINT": "https://res.openai.azure.com"}, "AZURE_CLIENT_SECRET"),
        ("bedrock", {"AWS_REGION": "eu-west-1"}, "AWS_BEARER_TOKEN_BEDROCK"),
        ("vertex", {"CLOUD_ML_REGION": "eu", "GOOGLE_CLOUD_PROJECT": "p"}, "GOOGLE_APPLICATION_CREDENTIALS"),
        ("bedrock", {}, "AWS_REGION or AWS_DEFAULT_REGION"),
        ("vertex", {"CLOUD_ML_REGION": "eu"}, "GOOGLE_CLOUD_PROJECT"),
    ],
)
async def test_a_cloud_that_is_not_set_up_says_what_is_missing(row: str, environ: dict[str, str], words: str) -> None:
    calling = provider_for(shipped()[row], environ=environ)
    assert not calling.info.configured
    assert words in calling.info.hint
    _, failure = await ask(calling, asked())
    await calling.aclose()
    assert failure is not None
    assert failure.reason is Reason.PROVIDER_NOT_CONFIGURED
    assert words in failure.message
