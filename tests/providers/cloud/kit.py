"""Profiles, requests and token servers on the loopback interface, for the tests of the cloud sign-ins."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from providers.server import Answer, Request

from turnwired.providers.credentials import Outgoing
from turnwired.providers.profiles import Profile, SignIn, Wire

SECRET = "verySECRETvalue0123456789"
CLOUD_VARIABLES = ("AWS_", "AZURE_", "GOOGLE_", "GCLOUD_", "GCE_", "CLOUDSDK_", "IDENTITY_", "MSI_", "K_", "GAE_")


def lonely(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Take away whatever of a cloud this machine knows."""
    for name in list(os.environ):
        if name.startswith(CLOUD_VARIABLES):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    for name in ("azure", "aws", "google"):
        monkeypatch.setattr(f"turnwired.providers.cloud.{name}.made_by", lambda *_: False)


def profile(sign_in: SignIn, **fields: Any) -> Profile:
    """A profile of the chat wire that signs in to a cloud."""
    values: dict[str, Any] = {"name": "cloudy", "wire": Wire.OPENAI_CHAT, "telemetry_name": "cloudy"}
    values |= {"sign_in": sign_in, **fields}
    return Profile(**values)


def outgoing(url: str = "https://model.example/v1/chat", body: bytes = b"{}", **headers: str) -> Outgoing:
    """A request that is to be authorised."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Outgoing("POST", url, {"Content-Type": "application/json"} | named, body)


def form(request: Request) -> dict[str, str]:
    """The fields of a form that was sent."""
    return {name: values[0] for name, values in parse_qs(request.body.decode()).items()}


async def answer_json(answer: Answer, value: object, status: int = 200) -> None:
    """A whole answer of JSON."""
    await answer.start(status, "application/json")
    await answer.send(json.dumps(value).encode())
    await answer.end()


def private_key() -> str:
    """A fresh RSA key as PEM."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(65537, 2048)
    encoding, kind = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, kind, serialization.NoEncryption()).decode()


def service_account(path: Path, token_uri: str, email: str = "turnwire@project.example", **fields: str) -> Path:
    """A service account file whose tokens come from a server of the test."""
    account: Mapping[str, str] = {
        "type": "service_account",
        "project_id": "project",
        "private_key_id": "1",
        "private_key": private_key(),
        "client_email": email,
        "client_id": "1",
        "token_uri": token_uri,
        **fields,
    }
    path.write_text(json.dumps(account))
    return path


def certificate(directory: Path) -> tuple[Path, Path]:
    """A certificate for the loopback address that vouches for itself, and its key."""
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -keyout key.pem -out cert.pem"
    words = [*command.split(), "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    made = subprocess.run(words, cwd=directory, check=False, capture_output=True, timeout=60)
    if made.returncode:
        pytest.skip("openssl cannot make a certificate here")
    return directory / "cert.pem", directory / "key.pem"
