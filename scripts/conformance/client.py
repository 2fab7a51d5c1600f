"""A client for the official MCP conformance suite: our own connection to a server, driven by the suite's environment.

Started by the suite as ``client.py URL`` for one scenario. Lists the tools and calls them as a run would, through the
same toolset. Only the sign-in of scenarios that want a person's browser is of this file: the service has no browser.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from turnwired.domain.errors import ToolError
from turnwired.domain.run import Caller
from turnwired.telemetry.null import NullTelemetry
from turnwired.tools.mcp.config import HttpServer
from turnwired.tools.mcp.opening import HttpOpener
from turnwired.tools.mcp.toolset import McpToolset
from turnwired.tools.port import InputAnswer, InputRequest, ToolInvocation

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
REDIRECT = AnyUrl("http://localhost:3000/callback")
CALL_SECONDS = 20.0


class Browser:
    """What a person and a browser do: follow the link, come back with a code."""

    def __init__(self) -> None:
        self._back = ""

    async def go(self, url: str) -> None:
        """Open the page, which sends us back at once."""
        async with httpx2.AsyncClient() as client:
            response = await client.get(url, follow_redirects=False)
        self._back = response.headers.get("location", "")

    async def code(self) -> AuthorizationCodeResult:
        """What came back."""
        found = {name: values[0] for name, values in parse_qs(urlsplit(self._back).query).items()}
        return AuthorizationCodeResult(code=found.get("code", ""), state=found.get("state"), iss=found.get("iss"))


class Storage:
    """Tokens of one scenario."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self._tokens: OAuthToken | None = None
        self._client = client

    async def get_tokens(self) -> OAuthToken | None:
        """Part of the SDK's protocol."""
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Part of the SDK's protocol."""
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Part of the SDK's protocol."""
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Part of the SDK's protocol."""
        self._client = client_info


def interactive(url: str) -> httpx2.Auth:
    """Sign-in with a browser, as far as the suite has one."""
    browser = Browser()
    registered = None
    if "client_id" in CONTEXT:
        registered = OAuthClientInformationFull(
            client_id=CONTEXT["client_id"],
            client_secret=CONTEXT.get("client_secret"),
            redirect_uris=[REDIRECT],
            issuer=CONTEXT.get("issuer"),
            token_endpoint_auth_method="client_secret_basic",  # noqa: S106 - a method
        )
    metadata = OAuthClientMetadata(
        client_name="turnwire",
        redirect_uris=[REDIRECT],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
    )
    return OAuthClientProvider(
        url,
        metadata,
        Storage(registered),
        browser.go,
        browser.code,
        client_metadata_url="https://conformance-test.local/client-metadata.json",
    )


async def issuer_of(url: str) -> str:
    """The authorization server of an MCP server, which an operator would be told."""
    parts = urlsplit(url)
    async with httpx2.AsyncClient() as client:
        for path in (f"/.well-known/oauth-protected-resource{parts.path}", "/.well-known/oauth-protected-resource"):
            response = await client.get(f"{parts.scheme}://{parts.netloc}{path}")
            if response.status_code == 200:
                return str(response.json()["authorization_servers"][0])
    raise SystemExit("the server names no authorization server")


async def configuration(url: str, directory: Path) -> HttpServer:
    """The server as a deployment would configure it."""
    section: dict[str, Any] = {"url": url, "connect_timeout": 30, "discovery_grace": 30}
    if SCENARIO in ("auth/client-credentials-jwt", "auth/client-credentials-basic"):
        oauth: dict[str, Any] = {"issuer": await issuer_of(url), "client_id": CONTEXT["client_id"]}
        if "private_key_pem" in CONTEXT:
            (directory / "key").write_text(CONTEXT["private_key_pem"])
            oauth |= {"private_key_file": str(directory / "key")}
            oauth |= {"private_key_algorithm": CONTEXT["signing_algorithm"]}
        else:
            (directory / "secret").write_text(CONTEXT["client_secret"])
            oauth |= {"client_secret_file": str(directory / "secret")}
        section["oauth"] = oauth
    elif SCENARIO == "auth/enterprise-managed-authorization":
        (directory / "secret").write_text(CONTEXT["client_secret"])
        (directory / "identity").write_text(CONTEXT["idp_id_token"])
        section["oauth"] = {
            "flow": "enterprise",
            "issuer": await issuer_of(url),
            "client_id": CONTEXT["client_id"],
            "client_secret_file": str(directory / "secret"),
            "assertion_file": str(directory / "identity"),
            "assertion_exchange": CONTEXT["idp_token_endpoint"],
            "assertion_client_id": CONTEXT["idp_client_id"],
        }
    return HttpServer.model_validate(section)


async def accept(_: InputRequest) -> InputAnswer:
    """A person who sends every form back as it is."""
    return InputAnswer("accept", {})


def example(schema: dict[str, Any]) -> object:
    """A value that the schema takes."""
    match schema.get("type"):
        case "object":
            wanted = schema.get("required") or list(schema.get("properties") or {})
            return {name: example(schema["properties"][name]) for name in wanted if name in schema["properties"]}
        case "integer" | "number":
            return 5
        case "boolean":
            return True
        case "array":
            return []
        case _:
            return schema.get("enum", ["test"])[0]


async def drive(source: McpToolset) -> None:
    """What the scenario wants to see: its own calls, or one of each tool."""
    tools = await source.tools()
    for left in (*source.left_out, *([source.failure] if source.failure else [])):
        print(left.message, file=sys.stderr)
    wanted = [(item["name"], item["arguments"]) for item in CONTEXT.get("toolCalls", ())]
    wanted = wanted or [(tool.ref.native_name, example(json.loads(tool.input_schema_json))) for tool in tools]
    schemas = {tool.ref.native_name: json.loads(tool.input_schema_json) for tool in tools}
    if "json_schema_echo" in schemas:  # the suite wants to see what we have kept of the other tool's schema
        wanted = [("json_schema_echo", {"schema": schema}) for schema in schemas.values() if "$defs" in schema]
    names = {tool.ref.native_name for tool in tools}

    async def call(name: str, arguments: Any) -> None:
        invocation = ToolInvocation("run", name, name, arguments, Caller(), ask=accept)
        try:
            async with asyncio.timeout(CALL_SECONDS):
                output = await source.call(invocation)
            print(name, "error" if output.is_error else "ok", file=sys.stderr)
        except (ToolError, TimeoutError) as error:
            print(name, type(error).__name__, error, file=sys.stderr)

    for name, arguments in wanted:
        if name in names:
            await call(name, arguments)


async def main(url: str) -> None:
    """One scenario."""
    with tempfile.TemporaryDirectory() as directory:
        config = await configuration(url, Path(directory))
        auth = interactive(url) if SCENARIO.startswith("auth/") and config.oauth is None else None
        telemetry = NullTelemetry().mcp
        source = McpToolset("conformance", config, telemetry, HttpOpener("conformance", config, telemetry, auth=auth))
        try:
            await drive(source)
        finally:
            await source.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
