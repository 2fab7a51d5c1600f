"""An authorization server of our own, as routes of the MCP server that trusts it: metadata, tokens, token exchange."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from tools.servers.http_server import HttpMcp

CLIENT, SECRET = "turnwire", "s3cret/of the client"


@dataclass
class Authority:
    """``forms`` are the token requests that came in, ``exchanges`` those for an assertion.

    ``refuses``: no token is given out. ``lasts``: seconds for which a token holds.
    """

    server: HttpMcp
    issued: int = 0
    refuses: bool = False
    lasts: int = 3600
    forms: list[Mapping[str, str]] = field(default_factory=list)
    exchanges: list[Mapping[str, str]] = field(default_factory=list)

    @property
    def issuer(self) -> str:
        """Its identifier, which is also its address."""
        return self.server.url.removesuffix("/mcp")

    def serve(self) -> None:
        """Answer beside the MCP server, which from now on wants a token."""
        self.server.secret = "none yet"
        self.server.challenge = f'Bearer resource_metadata="{self.issuer}/.well-known/oauth-protected-resource"'
        resource = {"resource": self.server.url, "authorization_servers": [self.issuer]}
        metadata = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "response_types_supported": ["code"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "private_key_jwt"],
        }
        self.server.routes |= {
            "/.well-known/oauth-protected-resource": lambda _headers, _body: (200, resource),
            "/.well-known/oauth-authorization-server": lambda _headers, _body: (200, metadata),
            "/token": self._token,
            "/exchange": self._exchange,
        }

    def _token(self, headers: Mapping[str, str], body: bytes) -> tuple[int, dict[str, Any]]:
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        basic = headers.get("authorization", "").removeprefix("Basic ")
        self.forms.append({**form, "basic": base64.b64decode(basic).decode() if basic else ""})
        if self.refuses:
            return 401, {"error": "invalid_client", "error_description": f"not {SECRET}"}
        self.issued += 1
        self.server.secret = f"token-{self.issued}"
        return 200, {"access_token": self.server.secret, "token_type": "Bearer", "expires_in": self.lasts}

    def _exchange(self, _headers: Mapping[str, str], body: bytes) -> tuple[int, dict[str, Any]]:
        self.exchanges.append({name: values[0] for name, values in parse_qs(body.decode()).items()})
        return 200, {"access_token": "id-jag", "issued_token_type": "x", "token_type": "N_A"}
