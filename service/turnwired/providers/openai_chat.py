"""The wire ``openai.chat``: chat completions of OpenAI and of the many servers that speak it.

What differs between servers is in the profile. Never retries and keeps nothing between calls but connections.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from urllib.parse import urlencode

from turnwired import __version__
from turnwired.domain.failure import Reason
from turnwired.domain.generation import ModelItem
from turnwired.domain.message import Message
from turnwired.domain.tool import Tool
from turnwired.providers import openai_chat_json as json_mode
from turnwired.providers import openai_chat_messages as messages
from turnwired.providers.credentials import KeySource, key_source
from turnwired.providers.errors import CallContext, provider_failure
from turnwired.providers.openai_chat_parser import ChatParser
from turnwired.providers.openai_chat_request import encode_body
from turnwired.providers.port import ModelRequest, ProviderInfo
from turnwired.providers.profiles import Profile, ToolCalling, host_and_port
from turnwired.providers.transport import Exchange, HttpTransport


class OpenAIChatProvider:
    """A ModelProvider over chat completions."""

    def __init__(
        self,
        profile: Profile,
        keys: KeySource | None = None,
        transport: HttpTransport | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """``keys``: by default the source that the profile names. ``transport`` is closed with the provider."""
        self._profile = profile
        self._keys = keys or key_source(profile, environ)
        self._transport = transport or HttpTransport()
        self._environ = environ
        self._json_mode = profile.tool_calling is ToolCalling.JSON_SCHEMA

    def __repr__(self) -> str:
        return f"OpenAIChatProvider({self._profile.name!r})"

    @property
    def info(self) -> ProviderInfo:
        """What may be shown of it."""
        profile = self._profile
        address = profile.address(self._environ)
        host, port = host_and_port(address)
        hint = "" if host else self._no_address()
        if host and profile.key_required and not self._keys.key():
            hint = self._no_key()
        return ProviderInfo(
            profile.name, profile.wire, profile.telemetry_name, host, port, profile.models, not hint, hint
        )

    def encode_system(self, blocks: Sequence[str], tools: Sequence[Tool]) -> bytes:
        """The system message; it explains the tools where the model does not know calls by itself."""
        return json_mode.encode_system(blocks, tools) if self._json_mode else messages.encode_system(blocks)

    def encode_message(self, message: Message) -> bytes:
        """One message as JSON objects joined by commas. Raises InvalidRequest."""
        encode = json_mode.encode_message if self._json_mode else messages.encode_message
        return encode(message, self._profile)

    def encode_tools(self, tools: Sequence[Tool]) -> bytes:
        """The tools array."""
        return messages.encode_tools(tools)

    async def generate(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelItem], None]:
        """Call the model and yield the items of each read. Raises ProviderError."""
        exchange = self._exchange(request)
        async with aclosing(self._transport.stream(exchange)) as batches:
            async for items in batches:
                yield items

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    def _exchange(self, request: ModelRequest) -> Exchange:
        profile = self._profile
        address = profile.address(self._environ)
        host, port = host_and_port(address)
        if not host:
            raise provider_failure(Reason.PROVIDER_NOT_CONFIGURED, self._no_address(), origin=profile.name)
        if not request.model:
            raise provider_failure(
                Reason.MODEL_NOT_FOUND, f"No model was chosen for provider {profile.name}.", origin=profile.name
            )
        key = self._keys.key()
        if not key and profile.key_required:
            raise provider_failure(Reason.PROVIDER_NOT_CONFIGURED, self._no_key(), origin=profile.name)
        return Exchange(
            url=f"{address}{profile.path}" + (f"?{urlencode(profile.query)}" if profile.query else ""),
            headers=self._headers(key, request.headers),
            body=encode_body(request, profile),
            limits=request.limits,
            context=CallContext(profile.name, request.model, self._keys.hint, f"{host}:{port}", key),
            parser=json_mode.JsonToolParser if self._json_mode else ChatParser,
        )

    def _headers(self, key: str, extra: Mapping[str, str]) -> dict[str, str]:
        profile = self._profile
        headers = {
            **extra,
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            "User-Agent": f"turnwired/{__version__}",
            **profile.headers,
        }
        for name, variable in profile.header_env.items():
            if value := self._environ.get(variable):
                headers[name] = value
        if key:
            headers[profile.auth_header] = f"{profile.auth_scheme} {key}" if profile.auth_scheme else key
        return headers

    def _no_address(self) -> str:
        variable = self._profile.base_url_env
        where = f"the profile's base_url or the environment variable {variable}" if variable else "its base_url"
        return f"Provider {self._profile.name} has no valid address: put an http or https URL into {where}."

    def _no_key(self) -> str:
        return f"Provider {self._profile.name} has no key: put it into {self._keys.hint}."
