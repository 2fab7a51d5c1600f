"""Our requests to clouds beside those of the providers' own SDKs: same URL, same credentials, same signature."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from anthropic.lib.bedrock import AnthropicBedrockMantle
from botocore.credentials import ReadOnlyCredentials
from openai import BedrockOpenAI
from providers.cloud.kit import SECRET

from turnwired.providers.cloud.aws import signed_headers
from turnwired.providers.credentials import Outgoing

pytestmark = pytest.mark.anyio

TOKEN = "cloud-token"
KEYS = {"aws_access_key": "AKIDEXAMPLE", "aws_secret_key": SECRET, "aws_region": "eu-west-1"}
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
MESSAGE: dict[str, Any] = {"role": "user", "content": "Hello"}
SIGNING = {"authorization", "x-amz-date", "x-amz-security-token"}
Make = Callable[[httpx2.Client], Any]


def by_sdk(make: Make, model: str, call: str = "messages") -> httpx2.Request:
    """The request that an SDK's client would send."""
    sent: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=b"data: [DONE]\n\n")

    with httpx2.Client(transport=httpx2.MockTransport(answer)) as http:
        client = make(http)
        if call == "messages":
            client.messages.create(model=model, max_tokens=5, messages=[MESSAGE], stream=True)
        else:
            client.chat.completions.create(model=model, messages=[MESSAGE], stream=True)
    (request,) = sent
    return request


def mantle(http: httpx2.Client) -> AnthropicBedrockMantle:
    return AnthropicBedrockMantle(**KEYS, http_client=http)  # type: ignore[arg-type]  # the values are all text


def bedrock(http: httpx2.Client) -> BedrockOpenAI:
    keys = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": SECRET, "aws_region": "eu-west-1"}
    return BedrockOpenAI(**keys, http_client=http)  # type: ignore[arg-type]  # the same


@pytest.mark.requirement("CRED-14")
@pytest.mark.parametrize(("make", "call"), [(mantle, "messages"), (bedrock, "chat")])
def test_a_request_is_signed_exactly_as_by_the_sdks(monkeypatch: pytest.MonkeyPatch, make: Make, call: str) -> None:
    def noon(*, remove_tzinfo: bool = True) -> datetime:
        return NOON.replace(tzinfo=None) if remove_tzinfo else NOON

    monkeypatch.setattr("botocore.auth.get_current_datetime", noon)
    theirs = by_sdk(make, "anthropic.claude-sonnet-5", call)
    unsigned = {name: value for name, value in theirs.headers.items() if name not in SIGNING}
    request = Outgoing(theirs.method, str(theirs.url), unsigned, theirs.content)
    keys = ReadOnlyCredentials("AKIDEXAMPLE", SECRET, None)
    ours = signed_headers(request, keys, "bedrock-mantle", "eu-west-1")
    assert ours["Authorization"] == theirs.headers["authorization"]
    assert ours["X-Amz-Date"] == theirs.headers["x-amz-date"] == "20261130T120000Z"
