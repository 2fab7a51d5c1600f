"""What the clouds' libraries cost where nobody signs in, and what they say where somebody does."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from providers.cloud.kit import SECRET, answer_json, outgoing, profile, service_account
from providers.server import Answer, Request, serve

from turnwired.domain.errors import ProviderError
from turnwired.providers.cloud.surroundings import made_by
from turnwired.providers.credentials import credentials_of
from turnwired.providers.profiles import SignIn

pytestmark = pytest.mark.anyio

LOOKING = """
import os, sys
import turnwired.app
from turnwired.providers.credentials import credentials_of
from turnwired.providers.profiles import Profile, SignIn, Wire
environ = {"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "HOME": os.devnull}
for sign_in in SignIn:
    credentials_of(Profile("cloudy", Wire.OPENAI_CHAT, "cloudy", sign_in=sign_in), environ).ready()
print(*sorted({"azure.identity", "azure.core", "msal", "botocore", "google.auth", "requests"} & sys.modules.keys()))
"""


@pytest.mark.requirement("CRED-16")
def test_no_cloud_library_is_imported_before_somebody_signs_in() -> None:
    done = subprocess.run([sys.executable, "-c", LOOKING], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.requirement("CRED-16", "CRED-6")
@pytest.mark.parametrize("works", [True, False])
async def test_no_secret_is_logged_by_a_sign_in(
    works: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def handler(_: Request, answer: Answer) -> None:
        if not works:
            await answer_json(answer, {"error": "invalid_grant", "error_description": SECRET, "message": SECRET}, 400)
            return
        expires = {"expires_on": str(int(time.time()) + 3600), "Expiration": "2126-01-01T00:00:00Z"}
        keys = {"AccessKeyId": "AKID", "SecretAccessKey": SECRET, "Token": SECRET}
        await answer_json(answer, {"access_token": SECRET, "expires_in": 3600, **expires, **keys})

    caplog.set_level(logging.DEBUG)
    async with serve(handler) as server:
        host = f"http://127.0.0.1:{server.port}"
        account = service_account(tmp_path / "account.json", f"{host}/token")
        named = {
            "IDENTITY_ENDPOINT": f"{host}/msi/token",
            "IDENTITY_HEADER": SECRET,
            "GOOGLE_APPLICATION_CREDENTIALS": str(account),
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{host}/role",
            "AWS_REGION": "eu-west-1",
        }
        for name, value in named.items():
            monkeypatch.setenv(name, value)
        for sign_in in (SignIn.AZURE, SignIn.AWS, SignIn.GOOGLE):
            given = credentials_of(profile(sign_in), os.environ)
            if works:
                assert (await given.authorize(outgoing())).headers
            else:
                with pytest.raises(ProviderError):
                    await given.authorize(outgoing())
    shown = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert SECRET not in shown
    assert "Signature" not in shown


@pytest.mark.requirement("CRED-13")
def test_the_maker_of_the_machine_is_evidence_for_its_cloud(tmp_path: Path) -> None:
    assert not made_by("Amazon", directory=tmp_path)
    (tmp_path / "sys_vendor").write_text("Amazon EC2\n")
    made_by.cache_clear()
    assert made_by("Amazon", directory=tmp_path)
    assert not made_by("Google", directory=tmp_path)
