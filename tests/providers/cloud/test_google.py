"""Signing in to Google Cloud, against token servers of the test."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from providers.cloud.kit import SECRET, answer_json, form, outgoing, profile, service_account
from providers.server import Answer, Request, serve

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Failure, Reason
from turnwired.providers.cloud import google
from turnwired.providers.cloud.google import SCOPE, google_credentials
from turnwired.providers.credentials import credentials_of
from turnwired.providers.profiles import SignIn

pytestmark = pytest.mark.anyio


async def token_of(request: Request, answer: Answer) -> None:
    """A token that says who asked for what."""
    claims = json.loads(base64.urlsafe_b64decode(form(request)["assertion"].split(".")[1] + "=="))
    await answer_json(answer, {"access_token": f"{claims['iss']} {claims['scope']}", "expires_in": 3600})


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Lets the library, which reads the variables of the process, find a file."""
    return lambda file: monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))


async def rejected() -> Failure:
    with pytest.raises(ProviderError) as caught:
        await google_credentials(profile(SignIn.GOOGLE), os.environ).authorize(outgoing())
    assert SECRET not in repr(caught.value.failure)
    return caught.value.failure


@pytest.mark.requirement("CRED-11", "CRED-7")
async def test_a_service_account_gets_a_token_and_a_file_that_was_replaced_counts_after_a_renewal(
    tmp_path: Path, use: Callable[[Path], None]
) -> None:
    async with serve(token_of) as server:
        uri = f"http://127.0.0.1:{server.port}/token"
        file = service_account(tmp_path / "account.json", uri, "first@x")
        use(file)
        given = credentials_of(profile(SignIn.GOOGLE), os.environ)
        assert given.ready()
        for _ in range(2):
            assert (await given.authorize(outgoing())).headers == {"Authorization": f"Bearer first@x {SCOPE}"}
        service_account(tmp_path / "new.json", uri, "second@x").replace(file)
        await given.renew()
        assert (await given.authorize(outgoing())).headers == {"Authorization": f"Bearer second@x {SCOPE}"}
    assert len(server.requests) == 2


@pytest.mark.requirement("CRED-11")
async def test_the_profile_names_the_scope(tmp_path: Path, use: Callable[[Path], None]) -> None:
    async with serve(token_of) as server:
        file = service_account(tmp_path / "account.json", f"http://127.0.0.1:{server.port}/token")
        use(file)
        scoped = profile(SignIn.GOOGLE, sign_in_options={"scope": "https://scope.example"})
        sent = await google_credentials(scoped, os.environ).authorize(outgoing())
    assert sent.headers["Authorization"].endswith(" https://scope.example")


@pytest.mark.requirement("CRED-11")
async def test_the_machine_gives_tokens_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handler(request: Request, answer: Answer) -> None:
        assert request.headers["metadata-flavor"] == "Google"
        if "token" in request.path:
            body = {"access_token": "machine", "expires_in": 3600, "token_type": "Bearer"}
            await answer.start(200, "application/json", Metadata_Flavor="Google")
            await answer.send(json.dumps(body).encode())
        elif "project-id" in request.path:
            await answer.start(200, "text/plain", Metadata_Flavor="Google")
            await answer.send(b"project")
        else:
            await answer.start(200, "application/json", Metadata_Flavor="Google")
            await answer.send(json.dumps({"email": "machine@x", "scopes": [SCOPE], "aliases": ["default"]}).encode())
        await answer.end()

    async with serve(handler) as server:
        from google.auth.compute_engine import _metadata  # which reads its variables when it is imported

        monkeypatch.setattr(_metadata, "_NO_GCE_CHECK", False)
        monkeypatch.setattr(_metadata, "_GCE_METADATA_HOST", f"127.0.0.1:{server.port}")
        monkeypatch.setenv("GCE_METADATA_IP", f"127.0.0.1:{server.port}")
        given = google_credentials(profile(SignIn.GOOGLE), {"GCE_METADATA_HOST": f"127.0.0.1:{server.port}"})
        assert given.ready()
        assert (await given.authorize(outgoing())).headers == {"Authorization": "Bearer machine"}


@pytest.mark.requirement("CRED-11")
async def test_the_project_that_pays_for_the_calls_goes_with_the_token(
    tmp_path: Path, use: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(token_of) as server:
        use(service_account(tmp_path / "account.json", f"http://127.0.0.1:{server.port}/token"))
        monkeypatch.setenv("GOOGLE_CLOUD_QUOTA_PROJECT", "payer")
        sent = await google_credentials(profile(SignIn.GOOGLE), os.environ).authorize(outgoing())
    assert sent.headers["x-goog-user-project"] == "payer"


@pytest.mark.requirement("CRED-8")
async def test_a_rejected_account_is_an_auth_failure(tmp_path: Path, use: Callable[[Path], None]) -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer_json(answer, {"error": "invalid_grant", "error_description": f"Bad key {SECRET}"}, 400)

    async with serve(handler) as server:
        file = service_account(tmp_path / "account.json", f"http://127.0.0.1:{server.port}/token")
        use(file)
        failure = await rejected()
    assert (failure.reason, failure.retryable) == (Reason.PROVIDER_AUTH_FAILED, False)
    assert "GOOGLE_APPLICATION_CREDENTIALS" in failure.message


@pytest.mark.requirement("CRED-8")
async def test_a_token_server_that_cannot_be_reached_is_a_network_failure_that_may_pass(
    tmp_path: Path, use: Callable[[Path], None]
) -> None:
    async with serve(token_of) as server:
        file = service_account(tmp_path / "account.json", f"http://127.0.0.1:{server.port}/token")
        use(file)
    failure = await rejected()
    assert (failure.reason, failure.retryable) == (Reason.PROVIDER_NETWORK, True)


@pytest.mark.requirement("CRED-8", "CRED-13")
@pytest.mark.parametrize("content", ["", "{}", '{"type":"service_account"}', '{"type":"' + SECRET + '"}'])
async def test_a_file_that_is_no_account_says_where_one_is_expected(
    tmp_path: Path, use: Callable[[Path], None], content: str
) -> None:
    file = tmp_path / "account.json"
    file.write_text(content)
    use(file)
    failure = await rejected()
    assert failure.reason is Reason.PROVIDER_NOT_CONFIGURED
    assert "GOOGLE_APPLICATION_CREDENTIALS" in failure.message


@pytest.mark.requirement("CRED-13")
def test_nothing_to_sign_in_with_names_the_variable_and_the_command() -> None:
    given = google_credentials(profile(SignIn.GOOGLE), {})
    assert not given.ready()
    assert "GOOGLE_APPLICATION_CREDENTIALS" in given.lack
    assert "gcloud auth application-default login" in given.lack


@pytest.mark.requirement("CRED-13")
def test_the_users_own_file_is_enough(tmp_path: Path) -> None:
    settings = tmp_path / ".config" / "gcloud"
    settings.mkdir(parents=True)
    (settings / "application_default_credentials.json").write_text("{}")
    assert google_credentials(profile(SignIn.GOOGLE), {"HOME": str(tmp_path)}).ready()


@pytest.mark.requirement("CRED-13")
def test_a_missing_library_names_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(google, "installed", lambda _: False)
    given = google_credentials(profile(SignIn.GOOGLE), {"GOOGLE_APPLICATION_CREDENTIALS": "x"})
    assert not given.ready()
    assert "pip install 'turnwired[cloud-google]'" in given.lack
