"""Our requests to clouds beside those of the providers' own SDKs: same URL, same credentials, same signature."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from anthropic import AnthropicFoundry
from anthropic.lib.bedrock import AnthropicBedrockMantle
from anthropic.lib.vertex import AnthropicVertex
from botocore.credentials import ReadOnlyCredentials
from openai import AzureOpenAI, BedrockOpenAI, OpenAI
from providers.cloud.kit import SECRET
from yarl import URL

from turnwired.providers.build import provider_for
from turnwired.providers.cloud.aws import signed_headers
from turnwired.providers.cloud.token import Token, TokenCredentials
from turnwired.providers.credentials import Outgoing
from turnwired.providers.port import ModelRequest
from turnwired.providers.profiles import shipped, with_overrides

pytestmark = pytest.mark.anyio

TOKEN = "cloud-token"
KEYS = {"aws_access_key": "AKIDEXAMPLE", "aws_secret_key": SECRET, "aws_region": "eu-west-1"}
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
MESSAGE: dict[str, Any] = {"role": "user", "content": "Hello"}
SIGNING = {"authorization", "x-amz-date", "x-amz-security-token"}
Make = Callable[[httpx2.Client], Any]


@dataclass
class Always:
    """Gives one token for ever."""

    hint: str = "the test"
    lack: str = ""

    def fetch(self) -> Token:
        return Token(TOKEN, 4e9)


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


async def by_us(row: str, environ: Mapping[str, str], model: str, **changes: Any) -> tuple[str, dict[str, str], Any]:
    """URL, headers and body that a shipped profile would send."""
    profile = with_overrides(shipped(), {"mine": {"extends": row, **changes}})["mine"]
    credentials = TokenCredentials(Always(), "mine") if profile.sign_in != "aws" else None
    provider = provider_for(profile, credentials, environ=environ)
    message = b'{"role":"user","content":"Hello"}'
    exchange = await provider._exchange(ModelRequest(model, [message], max_output_tokens=5))
    await provider.aclose()
    headers = {name.lower(): value for name, value in exchange.headers.items()}
    return str(URL(exchange.url)), headers, json.loads(exchange.body)


def assert_alike(theirs: httpx2.Request, ours: tuple[str, dict[str, str], Any], *, authorization: bool = True) -> None:
    """Whatever says where a request goes, in whose name and in which version."""
    url, headers, body = ours
    assert url == str(theirs.url)
    names = ("anthropic-version", "x-api-key", "api-key", "content-type")
    for name in ("authorization", *names) if authorization else names:
        assert headers.get(name) == theirs.headers.get(name), name
    said = json.loads(theirs.content)
    for field in ("model", "anthropic_version", "stream"):
        assert body.get(field) == said.get(field), field


@pytest.mark.requirement("CRED-14")
async def test_azure_with_entra_is_called_as_by_the_sdk() -> None:
    def make(http: httpx2.Client) -> OpenAI:
        return OpenAI(base_url="https://res.openai.azure.com/openai/v1/", api_key=lambda: TOKEN, http_client=http)

    ours = await by_us("azure-entra", {"AZURE_OPENAI_ENDPOINT": "https://res.openai.azure.com/"}, "deployed")
    assert_alike(by_sdk(make, "deployed", "chat"), ours)


@pytest.mark.requirement("CRED-14")
async def test_the_older_addresses_of_azure_are_a_path_and_a_parameter_of_the_profile() -> None:
    def make(http: httpx2.Client) -> AzureOpenAI:
        return AzureOpenAI(
            azure_endpoint="https://res.openai.azure.com",
            api_version="2024-10-21",
            azure_ad_token_provider=lambda: TOKEN,
            http_client=http,
        )

    ours = await by_us(
        "azure-entra",
        {"AZURE_OPENAI_ENDPOINT": "https://res.openai.azure.com"},
        "deployed",
        base_url="{AZURE_OPENAI_ENDPOINT}/openai/deployments",
        path="/{model}/chat/completions",
        query={"api-version": "2024-10-21"},
    )
    assert_alike(by_sdk(make, "deployed", "chat"), ours)


@pytest.mark.requirement("CRED-14")
async def test_claude_in_foundry_is_called_as_by_the_sdk() -> None:
    def make(http: httpx2.Client) -> AnthropicFoundry:
        return AnthropicFoundry(resource="res", azure_ad_token_provider=lambda: TOKEN, http_client=http)

    ours = await by_us("foundry", {"ANTHROPIC_FOUNDRY_RESOURCE": "res"}, "claude-opus-5")
    assert_alike(by_sdk(make, "claude-opus-5"), ours)


@pytest.mark.requirement("CRED-14")
@pytest.mark.parametrize("region", ["us-east5", "europe-west1", "global", "us", "eu"])
async def test_claude_in_vertex_is_called_as_by_the_sdk(region: str) -> None:
    def make(http: httpx2.Client) -> AnthropicVertex:
        return AnthropicVertex(region=region, project_id="proj", access_token=TOKEN, http_client=http)

    environ = {"CLOUD_ML_REGION": region, "ANTHROPIC_VERTEX_PROJECT_ID": "proj"}
    ours = await by_us("vertex", environ, "claude-sonnet-5@20260101")
    assert_alike(by_sdk(make, "claude-sonnet-5@20260101"), ours)


def mantle(http: httpx2.Client) -> AnthropicBedrockMantle:
    return AnthropicBedrockMantle(**KEYS, http_client=http)  # type: ignore[arg-type]  # the values are all text


def bedrock(http: httpx2.Client) -> BedrockOpenAI:
    keys = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": SECRET, "aws_region": "eu-west-1"}
    return BedrockOpenAI(**keys, http_client=http)  # type: ignore[arg-type]  # the same


@pytest.mark.requirement("CRED-14")
@pytest.mark.parametrize(
    ("row", "make", "call", "model"),
    [
        ("bedrock", mantle, "messages", "anthropic.claude-sonnet-5"),
        ("bedrock-openai", bedrock, "chat", "openai.gpt-oss-120b"),
    ],
)
async def test_bedrock_is_called_as_by_the_sdks(row: str, make: Make, call: str, model: str) -> None:
    environ = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "eu-west-1"}
    theirs, ours = by_sdk(make, model, call), await by_us(row, environ, model)
    assert_alike(theirs, ours, authorization=False)
    scope = "/eu-west-1/bedrock-mantle/aws4_request"
    assert all(scope in headers["authorization"] for headers in (theirs.headers, ours[1]))


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


@pytest.mark.requirement("CRED-14")
async def test_bedrocks_bearer_key_is_sent_as_by_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", TOKEN)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    theirs = by_sdk(lambda http: AnthropicBedrockMantle(http_client=http), "anthropic.claude-sonnet-5")
    environ = {"AWS_BEARER_TOKEN_BEDROCK": TOKEN, "AWS_REGION": "eu-west-1"}
    assert_alike(theirs, await by_us("bedrock", environ, "anthropic.claude-sonnet-5"))
