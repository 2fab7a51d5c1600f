"""Tokens for servers that want OAuth: the SDK's flows that need no person, behind one that does not queue requests.

Imports the SDK, so it is itself imported late. Tokens are kept in memory, for as long as the server is configured.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Final
from urllib.parse import parse_qs

import httpx2
from mcp.client.auth import OAuthFlowError, TokenStorage
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from turnwired.tools.mcp.config import OAuth
from turnwired.tools.mcp.contained import ssl_context
from turnwired.tools.mcp.secrets import expanded, file_in

_EXCHANGE_SECONDS: Final = 10.0
_EARLY_SECONDS: Final = 10.0
_FORM: Final = "application/x-www-form-urlencoded"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
_ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105  the name of a type


class _Tokens(TokenStorage):
    """Where the SDK keeps what it got, and where we look first."""

    def __init__(self) -> None:
        self._tokens: OAuthToken | None = None
        self._until: float | None = None

    @property
    def usable(self) -> str | None:
        """The access token, unless it is about to expire."""
        if self._tokens is None or (self._until is not None and time.monotonic() > self._until):
            return None
        return self._tokens.access_token

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens
        lasts = tokens.expires_in
        self._until = None if lasts is None else time.monotonic() + max(0.0, lasts - _EARLY_SECONDS)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """The client is configured, never registered."""


class Authorization(httpx2.Auth):
    """Adds a token to each request. The SDK's flows hold a lock until the answer comes, so they get only those requests
    for which there is no token yet, or for which it was refused.
    """

    def __init__(self, flow: httpx2.Auth, tokens: _Tokens, scope: str | None, addresses: tuple[str, ...]) -> None:
        """``addresses``: of the server and its authorization server. Metadata is read there and nowhere else."""
        self._places = frozenset(_place(httpx2.URL(address)) for address in addresses)
        self._flow = flow
        self._tokens = tokens
        self._scope = scope

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Part of the client's protocol for authentication."""
        if (token := self._tokens.usable) is not None:
            request.headers["authorization"] = f"Bearer {token}"
            response = yield request
            short = response.status_code == 403 and "insufficient_scope" in response.headers.get("www-authenticate", "")
            if response.status_code != 401 and not short:
                return
        flow = self._flow.async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                if outgoing.method == "GET" and _place(outgoing.url) not in self._places:
                    # A challenge may name any address, one behind our firewall too.
                    raise OAuthFlowError("the server's metadata is said to be at an address of somebody else")
                response = yield self._with_scope(outgoing)
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    def _with_scope(self, request: httpx2.Request) -> httpx2.Request:
        """The request for a token with the configured scope, in place of what the server advertises."""
        if self._scope is None or request.method != "POST" or _FORM not in request.headers.get("content-type", ""):
            return request
        form = {name: values[0] for name, values in parse_qs(request.content.decode()).items()}
        if form.get("grant_type") != "client_credentials":
            return request
        headers = {name: value for name, value in request.headers.items() if name == "authorization"}
        return httpx2.Request("POST", request.url, data={**form, "scope": self._scope}, headers=headers)


def _place(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def authorization_of(url: str, config: OAuth) -> httpx2.Auth:
    """What authorises the requests to this address. Raises ConfigError when a secret cannot be read."""
    tokens = _Tokens()
    return Authorization(_flow_of(url, config, tokens), tokens, config.scope, (url, config.issuer))


def _flow_of(url: str, config: OAuth, tokens: _Tokens) -> httpx2.Auth:
    if config.flow == "enterprise":
        return IdentityAssertionOAuthProvider(
            url,
            tokens,
            config.client_id,
            config.client_secret(),
            config.issuer,
            _Assertions(config).assertion,
            config.scope,
            config.client_auth,
        )
    if config.private_key_file is not None:
        parameters = SignedJWTParameters(
            issuer=config.client_id,
            subject=config.client_id,
            signing_key=expanded(file_in(config.private_key_file), "oauth.private_key_file", {}),
            signing_algorithm=config.private_key_algorithm,
        )
        assertion = parameters.create_assertion_provider()
        return PrivateKeyJWTOAuthProvider(url, tokens, config.client_id, assertion, config.scope, config.issuer)
    return ClientCredentialsOAuthProvider(
        url,
        tokens,
        config.client_id,
        config.client_secret(),
        config.client_auth,
        config.scope,
        config.issuer,
    )


class _Assertions:
    """Assertions of the company's identity provider, fresh for each exchange."""

    def __init__(self, config: OAuth) -> None:
        self._config = config

    async def assertion(self, audience: str, resource: str) -> str:
        """For this authorization server and this MCP server. Raises ConfigError and OAuthFlowError."""
        config = self._config
        given = expanded(file_in(config.assertion_file or ""), "oauth.assertion_file", {})
        if config.assertion_exchange is None:
            return given
        form = {
            "grant_type": _EXCHANGE,
            "requested_token_type": _ID_JAG,
            "audience": audience,
            "resource": resource,
            "subject_token": given,
            "subject_token_type": _ID_TOKEN,
            "client_id": config.assertion_client_id or config.client_id,
            **({"scope": config.scope} if config.scope else {}),
        }
        async with httpx2.AsyncClient(verify=ssl_context(), timeout=_EXCHANGE_SECONDS) as client:
            response = await client.post(config.assertion_exchange, data=form)
        try:
            answer = response.json()
        except ValueError:
            answer = None
        assertion = answer.get("access_token") if isinstance(answer, dict) else None
        if response.status_code != 200 or not isinstance(assertion, str):
            raise OAuthFlowError(f"the identity provider answered with HTTP status {response.status_code}")
        return assertion
