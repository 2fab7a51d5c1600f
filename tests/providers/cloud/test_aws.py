"""Signing requests for AWS. The signatures are checked by an implementation of the tests' own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from providers.cloud.kit import SECRET, answer_json, outgoing, profile
from providers.cloud.sigv4 import signed_by
from providers.server import Answer, Request, serve

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Failure, Reason
from turnwired.providers.cloud import aws
from turnwired.providers.cloud.aws import AwsCredentials
from turnwired.providers.credentials import Authorization, Outgoing, credentials_of
from turnwired.providers.profiles import SignIn

pytestmark = pytest.mark.anyio

KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "eu-west-1"}


def credentials(environ: Mapping[str, str], **options: str) -> AwsCredentials:
    return AwsCredentials(profile(SignIn.AWS, sign_in_options=options), environ)


def received(sent: Outgoing, signed: Authorization) -> Request:
    """The request as a server has it."""
    parts = urlsplit(sent.url)
    headers = {"host": parts.netloc, **sent.headers, **signed.headers}
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    return Request(path, {name.lower(): value for name, value in headers.items()}, sent.body, 1)


async def signature(given: AwsCredentials, sent: Outgoing | None = None, secret: str = SECRET) -> dict[str, str]:
    sent = sent or outgoing(body=b'{"model":"m"}')
    return signed_by(received(sent, await given.authorize(sent)), secret)


async def rejected(given: AwsCredentials) -> Failure:
    with pytest.raises(ProviderError) as caught:
        await given.authorize(outgoing())
    assert SECRET not in repr(caught.value.failure)
    return caught.value.failure


def credentials_file(path: Path, key: str, secret: str, name: str = "default") -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"[{name}]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n")


@pytest.mark.requirement("CRED-12")
async def test_keys_of_the_environment_sign_for_the_service_and_the_region() -> None:
    given = credentials_of(profile(SignIn.AWS), KEYS)
    assert isinstance(given, AwsCredentials)
    assert given.ready()
    found = await signature(given)
    assert (found["key"], found["region"], found["service"]) == ("AKIDEXAMPLE", "eu-west-1", "bedrock-mantle")
    found = await signature(credentials(KEYS, service="bedrock", region="us-east-2"))
    assert (found["region"], found["service"]) == ("us-east-2", "bedrock")


@pytest.mark.requirement("CRED-12")
@pytest.mark.parametrize(
    "url",
    [
        "https://h.example/v1/messages",
        "http://127.0.0.1:8080/a/b?x=1&a=2",
        "https://h.example/model/anthropic.claude-v1%3A0/invoke",
    ],
)
async def test_the_whole_request_is_signed(url: str) -> None:
    sent = outgoing(url, b"body", anthropic_version="2023-06-01", traceparent="00-1-2-01")
    found = await signature(credentials(KEYS), sent)
    assert found["names"] == "anthropic-version;content-type;host;x-amz-date"


@pytest.mark.requirement("CRED-12")
async def test_a_changed_body_does_not_fit_the_signature() -> None:
    sent = outgoing(body=b"body")
    request = received(sent, await credentials(KEYS).authorize(sent))
    request.body = b"bode"
    with pytest.raises(AssertionError, match="wrong signature"):
        signed_by(request, SECRET)


@pytest.mark.requirement("CRED-12")
async def test_temporary_keys_send_their_session_token_signed() -> None:
    sent = outgoing()
    signed = await credentials(KEYS | {"AWS_SESSION_TOKEN": "session"}).authorize(sent)
    assert signed.headers["X-Amz-Security-Token"] == "session"
    assert "x-amz-security-token" in signed_by(received(sent, signed), SECRET)["names"]


@pytest.mark.requirement("CRED-12")
async def test_a_bearer_key_is_sent_as_it_is_and_needs_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aws, "installed", lambda _: False)
    given = credentials(KEYS | {"AWS_BEARER_TOKEN_BEDROCK": "bedrock-api-key"})
    assert given.ready()
    signed = await given.authorize(outgoing())
    assert signed.headers == {"Authorization": "Bearer bedrock-api-key"}
    assert signed.secret == "bedrock-api-key"


@pytest.mark.requirement("CRED-12", "CRED-5")
async def test_keys_of_a_file_sign_and_a_file_that_changes_counts_at_once(tmp_path: Path) -> None:
    file = tmp_path / ".aws" / "credentials"
    given = credentials({"AWS_REGION": "eu-west-1", "HOME": str(tmp_path)})
    assert not given.ready()
    credentials_file(file, "FIRST", "one")
    assert given.ready()
    assert (await signature(given, secret="one"))["key"] == "FIRST"
    replacement = file.with_name("new")
    credentials_file(replacement, "SECOND", "two")
    replacement.replace(file)
    assert (await signature(given, secret="two"))["key"] == "SECOND"


@pytest.mark.requirement("CRED-12")
async def test_the_profile_names_the_aws_profile_and_it_wins_over_keys_of_the_environment(tmp_path: Path) -> None:
    credentials_file(tmp_path / ".aws" / "credentials", "NAMED", "three", "work")
    given = credentials(KEYS | {"HOME": str(tmp_path), "AWS_BEARER_TOKEN_BEDROCK": "no"}, aws_profile="work")
    assert (await signature(given, secret="three"))["key"] == "NAMED"


@pytest.mark.requirement("CRED-12", "CRED-7")
async def test_a_role_of_a_container_is_asked_once_and_anew_after_a_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handler(request: Request, answer: Answer) -> None:
        assert request.headers["authorization"] == "container-secret"
        number = len(server.requests)
        await answer_json(
            answer,
            {
                "AccessKeyId": f"ROLE{number}",
                "SecretAccessKey": "four",
                "Token": "session",
                "Expiration": "2126-01-01T00:00:00Z",
            },
        )

    async with serve(handler) as server:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://127.0.0.1:{server.port}/role")
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "container-secret")
        given = credentials(os.environ | {"AWS_REGION": "eu-west-1"})
        assert given.ready()
        for _ in range(2):
            assert (await signature(given, secret="four"))["key"] == "ROLE1"
        await given.renew()
        assert (await signature(given, secret="four"))["key"] == "ROLE2"


@pytest.mark.requirement("CRED-8")
async def test_a_role_that_cannot_be_had_is_a_typed_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer_json(answer, {"code": "AccessDenied", "message": SECRET}, 403)

    async with serve(handler) as server:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://127.0.0.1:{server.port}/role")
        failure = await rejected(credentials(os.environ | {"AWS_REGION": "eu-west-1"}))
    assert (failure.reason, failure.retryable) == (Reason.PROVIDER_AUTH_FAILED, False)
    assert "AWS_ACCESS_KEY_ID" in failure.message


@pytest.mark.requirement("CRED-8", "CRED-13")
async def test_an_aws_profile_that_is_not_there_says_where_one_is_expected() -> None:
    failure = await rejected(credentials(KEYS, aws_profile="nowhere"))
    assert failure.reason is Reason.PROVIDER_NOT_CONFIGURED
    assert "an AWS profile" in failure.message


@pytest.mark.requirement("CRED-13")
@pytest.mark.parametrize(
    ("environ", "words"),
    [
        (
            {"AWS_REGION": "eu-west-1"},
            ["AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "aws configure"],
        ),
        ({"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "half"}, ["AWS_SECRET_ACCESS_KEY"]),
        ({name: KEYS[name] for name in KEYS if name != "AWS_REGION"}, ["AWS_REGION"]),
    ],
)
async def test_nothing_to_sign_in_with_names_the_variables(environ: dict[str, Any], words: list[str]) -> None:
    given = credentials(environ)
    assert not given.ready()
    failure = await rejected(given)
    assert failure.reason is Reason.PROVIDER_NOT_CONFIGURED
    assert all(word in failure.message for word in words)


@pytest.mark.requirement("CRED-13")
async def test_a_missing_library_names_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aws, "installed", lambda _: False)
    failure = await rejected(credentials(KEYS))
    assert "pip install 'turnwired[cloud-aws]'" in failure.message


@pytest.mark.requirement("CRED-6")
async def test_no_key_is_shown_by_what_holds_it() -> None:
    given = credentials(KEYS)
    signed = await given.authorize(outgoing())
    assert all(SECRET not in repr(item) and "Signature=" not in repr(item) for item in (given, signed))
