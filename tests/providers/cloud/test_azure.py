"""Signing in to Azure, against token servers of the test."""

from __future__ import annotations

import ssl
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from providers.cloud.kit import SECRET, answer_json, certificate, form, outgoing, profile
from providers.server import Answer, Request, Server, serve

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Failure, Reason
from turnwired.providers.cloud import azure
from turnwired.providers.cloud.azure import SCOPE, azure_credentials
from turnwired.providers.credentials import credentials_of
from turnwired.providers.profiles import SignIn

pytestmark = pytest.mark.anyio

TENANT = "00000000-0000-0000-0000-000000000001"
PRINCIPAL = {"AZURE_TENANT_ID": TENANT, "AZURE_CLIENT_ID": "app", "AZURE_CLIENT_SECRET": SECRET}
OFF = {"instance_discovery": "off"}


class Entra:
    """Plays Microsoft Entra ID: metadata and tokens. ``rejects``: an error instead of a token."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.rejects: dict[str, str] | None = None

    async def __call__(self, request: Request, answer: Answer) -> None:
        host = f"https://127.0.0.1:{self.server.port}/{TENANT}"
        if request.path.endswith("openid-configuration"):
            await answer_json(
                answer,
                {
                    "token_endpoint": f"{host}/oauth2/v2.0/token",
                    "authorization_endpoint": f"{host}/oauth2/v2.0/authorize",
                    "issuer": f"{host}/v2.0",
                },
            )
        elif self.rejects is not None:
            await answer_json(answer, self.rejects, 401)
        else:
            self.asked.append(form(request))
            token = {"token_type": "Bearer", "expires_in": 3600, "access_token": f"{SECRET}-{len(self.asked)}"}
            await answer_json(answer, token)

    server: Server


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A server's side of TLS that the sign-in trusts: authorities are reached by https only."""
    cert, key = certificate(tmp_path)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(cert))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


async def rejected(environ: dict[str, str], **options: Any) -> Failure:
    given = azure_credentials(profile(SignIn.AZURE, sign_in_options=options), environ)
    with pytest.raises(ProviderError) as caught:
        await given.authorize(outgoing())
    assert SECRET not in repr(caught.value.failure)
    return caught.value.failure


@pytest.mark.requirement("CRED-10", "CRED-7")
async def test_a_service_principal_gets_a_token_for_the_scope_once_and_anew_after_a_renewal(
    trusted: ssl.SSLContext,
) -> None:
    entra = Entra()
    async with serve(entra, trusted) as entra.server:
        environ = PRINCIPAL | {"AZURE_AUTHORITY_HOST": f"https://127.0.0.1:{entra.server.port}"}
        given = credentials_of(profile(SignIn.AZURE, sign_in_options=OFF), environ)
        assert given.ready()
        for _ in range(2):
            sent = await given.authorize(outgoing())
            assert sent.headers == {"Authorization": f"Bearer {SECRET}-1"}
            assert sent.secret == f"{SECRET}-1"
        await given.renew()
        assert (await given.authorize(outgoing())).headers == {"Authorization": f"Bearer {SECRET}-2"}
    assert [asked["grant_type"] for asked in entra.asked] == ["client_credentials"] * 2
    assert entra.asked[0]["client_id"] == "app"
    assert entra.asked[0]["client_secret"] == SECRET
    assert SCOPE in entra.asked[0]["scope"]


@pytest.mark.requirement("CRED-10")
async def test_a_workload_identity_shows_the_token_in_its_file_and_the_profile_names_the_scope(
    trusted: ssl.SSLContext, tmp_path: Path
) -> None:
    entra = Entra()
    file = tmp_path / "federated"
    file.write_text("first")
    async with serve(entra, trusted) as entra.server:
        environ = {
            "AZURE_TENANT_ID": TENANT,
            "AZURE_CLIENT_ID": "app",
            "AZURE_FEDERATED_TOKEN_FILE": str(file),
            "AZURE_AUTHORITY_HOST": f"https://127.0.0.1:{entra.server.port}",
        }
        options = OFF | {"scope": "https://ai.azure.com/.default"}
        given = azure_credentials(profile(SignIn.AZURE, sign_in_options=options), environ)
        await given.authorize(outgoing())
        file.write_text("second")
        await given.renew()
        await given.authorize(outgoing())
    assert [asked["client_assertion"] for asked in entra.asked] == ["first", "second"]
    assert "https://ai.azure.com/.default" in entra.asked[0]["scope"]


@pytest.mark.requirement("CRED-8")
async def test_a_rejected_secret_is_an_auth_failure_with_the_code_of_entra(trusted: ssl.SSLContext) -> None:
    entra = Entra()
    entra.rejects = {"error": "invalid_client", "error_description": f"AADSTS7000215: Invalid client secret {SECRET}."}
    async with serve(entra, trusted) as entra.server:
        host = f"https://127.0.0.1:{entra.server.port}"
        failure = await rejected(PRINCIPAL | {"AZURE_AUTHORITY_HOST": host}, **OFF)
    assert (failure.reason, failure.retryable) == (Reason.PROVIDER_AUTH_FAILED, False)
    assert failure.origin_code == "AADSTS7000215"
    assert "AZURE_CLIENT_SECRET" in failure.message


@pytest.mark.requirement("CRED-8")
async def test_a_token_server_that_cannot_be_reached_is_a_network_failure_that_may_pass() -> None:
    async with serve(Entra()) as server:
        port = server.port
    failure = await rejected(PRINCIPAL | {"AZURE_AUTHORITY_HOST": f"https://127.0.0.1:{port}"}, **OFF)
    assert (failure.reason, failure.retryable) == (Reason.PROVIDER_NETWORK, True)


@pytest.mark.requirement("CRED-10")
async def test_a_managed_identity_is_asked_at_the_endpoint_that_the_host_names(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handler(_: Request, answer: Answer) -> None:
        expires = str(int(time.time()) + 3600)
        await answer_json(answer, {"access_token": "managed", "expires_on": expires, "token_type": "Bearer"})

    async with serve(handler) as server:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"http://127.0.0.1:{server.port}/msi/token")
        monkeypatch.setenv("IDENTITY_HEADER", SECRET)
        given = azure_credentials(profile(SignIn.AZURE, sign_in_options={"identity": "managed"}), {})
        assert given.ready()
        assert (await given.authorize(outgoing())).headers == {"Authorization": "Bearer managed"}
    (asked,) = server.requests
    assert "resource=https://cognitiveservices.azure.com" in unquote(asked.path)
    assert asked.headers["x-identity-header"] == SECRET


@pytest.mark.requirement("CRED-13")
async def test_nothing_to_sign_in_with_names_the_variables() -> None:
    given = azure_credentials(profile(SignIn.AZURE), {"AZURE_TENANT_ID": TENANT, "AZURE_CLIENT_SECRET": SECRET})
    assert not given.ready()
    for name in ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE", "az login"):
        assert name in given.lack
    assert SECRET not in given.lack


@pytest.mark.requirement("CRED-13")
async def test_a_missing_library_names_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(azure, "installed", lambda _: False)
    given = azure_credentials(profile(SignIn.AZURE), PRINCIPAL)
    assert not given.ready()
    assert "pip install 'turnwired[cloud-azure]'" in given.lack


@pytest.mark.requirement("CRED-13")
async def test_a_library_that_cannot_be_imported_names_the_pip_command_too(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "azure.core.exceptions", None)
    failure = await rejected(PRINCIPAL)
    assert failure.reason is Reason.PROVIDER_NOT_CONFIGURED
    assert "pip install 'turnwired[cloud-azure]'" in failure.message
