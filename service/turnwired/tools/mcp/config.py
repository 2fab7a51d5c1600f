"""How a deployment names an MCP server: a child process that speaks over stdio, or an address. Knows no MCP."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from turnwired.domain.errors import ConfigError
from turnwired.domain.run import Caller
from turnwired.tools.hiding import hidden
from turnwired.tools.mcp.secrets import expanded, file_in, is_secret, names_caller, referred, refers

SAFE_ENVIRONMENT: Final = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *("SYSTEMROOT", "TEMP", "USERPROFILE"),
)
"""What a child inherits of our environment. Everything else, our own keys first of all, stays here unless named."""

_HEADER: Final = re.compile(r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
_RESERVED: Final = ("content-type", "accept", "host", "content-length", "transfer-encoding", "last-event-id")

_Seconds = Annotated[float, Field(gt=0, le=3600)]
_Pattern = Annotated[str, Field(min_length=1)]
_Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class McpServer(BaseModel):
    """What servers have in common. Times are in seconds.

    ``include`` and ``exclude`` are patterns (``*``) of the server's own tool names. ``namespace`` goes in front of
    them, as ``{namespace}__{tool}``; the server's id by default. Without a ``required`` server no run starts.
    ``lazy``: it is connected when the first run needs it. ``discovery_grace``: how long the start of the service, or a
    run that a ``lazy`` server is connected for, waits for one that has never answered. ``call_timeout`` holds beside
    the policy's.
    ``trust_annotations``: a call that was lost is made once more if the server calls the tool idempotent or read-only.
    ``resources`` and ``prompts`` are offered as tools. ``keepalive``: between pings of an idle server (2025 era).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    namespace: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,32}$")] | None = None
    include: tuple[_Pattern, ...] = ()
    exclude: tuple[_Pattern, ...] = ()
    required: bool = False
    lazy: bool = False
    trust_annotations: bool = False
    resources: bool = False
    prompts: bool = False
    connect_timeout: _Seconds = 20.0
    discovery_grace: Annotated[float, Field(ge=0, le=60)] = 10.0
    call_timeout: _Seconds | None = None
    close_timeout: _Seconds = 2.0
    keepalive: _Seconds = 60.0
    max_message_bytes: Annotated[int, Field(ge=64 * 1024, le=256 * 1024 * 1024)] = 16 * 1024 * 1024

    @model_validator(mode="after")
    def _required_is_not_lazy(self) -> Self:
        if self.required and self.lazy:
            raise ValueError("required and lazy exclude each other")
        return self

    @property
    def endpoint(self) -> str:
        """Where it is, as an operator is shown it: never with secrets."""
        return ""

    def hide(self, text: str, caller: Caller | None = None, ours: Mapping[str, str] | None = None) -> str:
        """What the server said, without the credentials that it has from us, should it repeat them."""
        return hidden(text, self._secrets(os.environ if ours is None else ours, caller))

    def _secrets(self, environ: Mapping[str, str], caller: Caller | None) -> Iterator[str]:
        """What is handed to the server and must not be told."""
        del environ, caller
        return iter(())


class StdioServer(McpServer):
    """A server that runs as a child process.

    ``env`` adds to the safe base; ``${NAME}`` in a value is the variable of that name in our own environment, ``$${``
    is a plain ``${``.
    """

    command: Annotated[str, Field(min_length=1)]
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    cwd: str | None = None

    @field_validator("command", "cwd")
    @classmethod
    def _no_nul(cls, value: str | None) -> str | None:
        if value is not None and "\0" in value:
            raise ValueError("may not hold a NUL character")
        return value

    @property
    def endpoint(self) -> str:
        """What an operator is shown: the command alone, since arguments may hold secrets."""
        return self.command

    def environment(self, ours: Mapping[str, str] | None = None) -> dict[str, str]:
        """The child's environment. Raises ConfigError for a variable that is named and not set."""
        source = os.environ if ours is None else ours
        environment = {name: source[name] for name in SAFE_ENVIRONMENT if name in source}
        for name, value in self.env.items():
            environment[name] = expanded(value, f"env.{name}", source)
        return environment

    def _secrets(self, environ: Mapping[str, str], caller: Caller | None) -> Iterator[str]:
        for name, value in self.env.items():
            yield from referred(value, environ, caller)
            if is_secret(name):
                with suppress(ConfigError):
                    yield expanded(value, name, environ)


class OAuth(BaseModel):
    """How we get tokens for a server by ourselves, without a person (OAuth 2.1).

    ``client_credentials``: as a client of our own (RFC 6749, 4.4). ``enterprise``: with an assertion of the company's
    identity provider (RFC 7523; ``io.modelcontextprotocol/enterprise-managed-authorization``), read from
    ``assertion_file`` for each exchange, or got for the identity token in it at ``assertion_exchange`` (RFC 8693).
    ``issuer`` is the authorization server that knows the client; secrets go nowhere else.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    flow: Literal["client_credentials", "enterprise"] = "client_credentials"
    issuer: str
    client_id: Annotated[str, Field(min_length=1)]
    client_secret_env: _Variable | None = None
    client_secret_file: str | None = None
    private_key_file: str | None = None
    private_key_algorithm: Literal["RS256", "ES256"] = "ES256"
    scope: str | None = None
    client_auth: Literal["client_secret_basic", "client_secret_post"] = "client_secret_basic"
    assertion_file: str | None = None
    assertion_exchange: str | None = None
    assertion_client_id: str | None = None

    @field_validator("issuer", "assertion_exchange")
    @classmethod
    def _is_url(cls, value: str | None) -> str | None:
        return None if value is None else _checked_url(value)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        given = [self.client_secret_env, self.client_secret_file, self.private_key_file]
        if sum(item is not None for item in given) != 1:
            raise ValueError("takes one of client_secret_env, client_secret_file and private_key_file")
        if self.flow == "enterprise" and self.assertion_file is None:
            raise ValueError('flow = "enterprise" needs an assertion_file')
        if self.flow == "enterprise" and self.private_key_file is not None:
            raise ValueError('flow = "enterprise" needs a client secret')
        if self.flow != "enterprise" and (self.assertion_file or self.assertion_exchange):
            raise ValueError('an assertion counts with flow = "enterprise" only')
        if self.assertion_client_id is not None and self.assertion_exchange is None:
            raise ValueError("assertion_client_id counts with an assertion_exchange only")
        return self

    def client_secret(self, environ: Mapping[str, str] | None = None) -> str:
        """The client's secret now. Raises ConfigError."""
        source = os.environ if environ is None else environ
        if self.client_secret_env is not None:
            return expanded(f"${{{self.client_secret_env}}}", "oauth.client_secret_env", source)
        return expanded(file_in(self.client_secret_file or ""), "oauth.client_secret_file", source)


class HttpServer(McpServer):
    """A server behind an address, over Streamable HTTP.

    Values of ``headers`` hold ``${NAME}`` or ``${file:/PATH}``, never a secret itself. ``caller_headers`` come over
    them for the calls of a run; in the path of their files ``{tenant}`` and ``{principal}`` stand for the caller.
    """

    url: str
    headers: dict[str, str] = Field(default_factory=dict)
    caller_headers: dict[str, str] = Field(default_factory=dict)
    oauth: OAuth | None = None

    @field_validator("url")
    @classmethod
    def _is_url(cls, value: str) -> str:
        return _checked_url(value)

    @field_validator("headers", "caller_headers")
    @classmethod
    def _are_headers(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if not _HEADER.fullmatch(name):
                raise ValueError("a header's name is letters, digits and hyphens")
            if name.lower() in _RESERVED or name.lower().startswith(("mcp-", "turnwire-")):
                raise ValueError(f"{name} is the protocol's own header")
        return value

    @model_validator(mode="after")
    def _secrets_are_elsewhere(self) -> Self:
        for where, headers in (("headers", self.headers), ("caller_headers", self.caller_headers)):
            for name, value in headers.items():
                if not refers(value):
                    raise ValueError(f"{where}.{name} takes ${{NAME}} or ${{file:/PATH}}: no secret stands here")
        if any(names_caller(value) for value in self.headers.values()):
            raise ValueError("headers are the same for every caller; {tenant} and {principal} belong in caller_headers")
        authorizes = any(name.lower() == "authorization" for name in (*self.headers, *self.caller_headers))
        if self.oauth is not None and authorizes:
            raise ValueError("oauth and an Authorization header exclude each other")
        return self

    @property
    def endpoint(self) -> str:
        """What an operator is shown: the address without query, where keys are found."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))

    def address(self, environ: Mapping[str, str] | None = None) -> str:
        """The whole address. Raises ConfigError for a variable that is named and not set."""
        return expanded(self.url, "url", os.environ if environ is None else environ)

    def request_headers(self, caller: Caller | None = None, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """The headers now, for this caller or for ourselves. Raises ConfigError."""
        source = os.environ if environ is None else environ
        found = {name: expanded(value, f"headers.{name}", source) for name, value in self.headers.items()}
        if caller is not None:
            for name, value in self.caller_headers.items():
                for other in [other for other in found if other.lower() == name.lower()]:
                    del found[other]
                found[name] = expanded(value, f"caller_headers.{name}", source, caller)
        for name, value in found.items():
            if not value.isascii() or not value.isprintable():
                raise ConfigError(f"headers.{name} is no text that a header can hold")
        return found

    def _secrets(self, environ: Mapping[str, str], caller: Caller | None) -> Iterator[str]:
        for value in (self.url, *self.headers.values()):
            yield from referred(value, environ)
        if caller is not None:
            for value in self.caller_headers.values():
                yield from referred(value, environ, caller)
        if self.oauth is not None and self.oauth.private_key_file is None:
            with suppress(ConfigError):
                yield self.oauth.client_secret()


def server_kind(data: Mapping[str, Any]) -> type[StdioServer | HttpServer]:
    """Which of the two a section describes."""
    return HttpServer if "url" in data and "command" not in data else StdioServer


def _checked_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("takes a URL such as https://mcp.example.com/mcp")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a URL must hold no user or password; use headers")
    return value
