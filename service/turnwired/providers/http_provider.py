"""A ModelProvider over HTTP: one profile, one wire, one source of credentials. Knows no wire and no server by name.

Never retries and keeps nothing between calls but connections and signed-in credentials.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from urllib.parse import quote, urlencode

from turnwired import __version__
from turnwired.domain.errors import FieldViolation, ProviderError
from turnwired.domain.failure import Reason
from turnwired.domain.generation import ModelItem
from turnwired.domain.message import Message
from turnwired.domain.tool import Tool
from turnwired.providers.credentials import Authorization, Credentials, Outgoing, credentials_of
from turnwired.providers.errors import CallContext, provider_failure
from turnwired.providers.json_body import JsonBody
from turnwired.providers.port import CallLimits, ModelLimits, ModelRequest, ProviderInfo, TokenCount
from turnwired.providers.profiles import Profile, UsageArrival, host_and_port
from turnwired.providers.tokens import estimated, measured, tokenized
from turnwired.providers.transport import Exchange, HttpTransport
from turnwired.providers.wire import CountCall, WireCall, WireFormat

_NOT_A_PATH_SEGMENT = frozenset({".", ".."})
"""What every URL library takes for a step through the path, also in percent-encoding."""


class HttpProvider:
    """Calls what a profile describes, in the words of a wire."""

    def __init__(
        self,
        profile: Profile,
        wire: WireFormat,
        credentials: Credentials | None = None,
        transport: HttpTransport | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """``credentials``: by default the source that the profile names. ``transport`` is closed with the provider."""
        self._profile = profile
        self._wire = wire
        self._credentials = credentials or credentials_of(profile, environ)
        self._transport = transport or HttpTransport()
        self._environ = environ

    def __repr__(self) -> str:
        return f"HttpProvider({self._profile.name!r}, {self._profile.wire})"

    @property
    def info(self) -> ProviderInfo:
        """What may be shown of it."""
        profile = self._profile
        host, port = host_and_port(profile.address(self._environ))
        hint = "" if host else self._no_address()
        if host and profile.key_required and not self._credentials.ready():
            hint = self._no_key()
        return ProviderInfo(
            profile.name,
            profile.wire,
            profile.telemetry_name,
            host,
            port,
            profile.models,
            not hint,
            hint,
            profile.usage is not UsageArrival.NEVER,
            profile.stream_end,
            profile.layer_of("stream_end"),
        )

    def encode_system(self, blocks: Sequence[str], tools: Sequence[Tool]) -> bytes:
        """System blocks, for ``ModelRequest.system``."""
        return self._wire.encode_system(blocks, tools)

    def encode_message(self, message: Message) -> bytes:
        """One message as JSON objects joined by commas. Raises InvalidRequest."""
        return self._wire.encode_message(message)

    def encode_tools(self, tools: Sequence[Tool]) -> bytes:
        """The tools array."""
        return self._wire.encode_tools(tools)

    def check(self, request: ModelRequest) -> Sequence[FieldViolation]:
        """What of the request the profile's server has no place for."""
        return self._wire.check(request)

    def limits(self, model: str) -> ModelLimits:
        """What the profile knows of a model."""
        return self._profile.limits_of(model)

    async def count_tokens(self, request: ModelRequest) -> TokenCount:
        """Input tokens of a request: by the provider's counter, else by a tokenizer, else by its size."""
        why = ""
        call = self._wire.count(request)
        if call is not None:
            try:
                found = await self._ask(request, call)
            except ProviderError as error:
                why = f"the provider's counter failed: {error.failure.reason}"
            else:
                if found is not None:
                    return TokenCount(found, "the provider", exact=True)
                why = "the provider's counter gave no number"
        if self._profile.tokenizer:
            return await tokenized(request, self._profile.tokenizer)
        return estimated(request, why)

    async def measure(self, model: str, pieces: Sequence[bytes]) -> Sequence[int]:  # noqa: ARG002 - the port's
        """Tokens of each message, by the profile's tokenizer, else by its size."""
        return await measured(pieces, self._profile.tokenizer)

    async def generate(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelItem], None]:
        """Call the model and yield the items of each read. Raises ProviderError."""
        exchange = await self._exchange(request)
        async with aclosing(self._transport.stream(exchange)) as batches:
            async for items in batches:
                yield items

    async def aclose(self) -> None:
        """Close the connections and the credentials' source."""
        await self._credentials.aclose()
        await self._transport.aclose()

    async def _ask(self, request: ModelRequest, call: CountCall) -> int | None:
        body = JsonBody()
        exchange = await self._exchange(request, WireCall(call.path, call.body, lambda _: body, call.headers))
        async with aclosing(self._transport.stream(exchange)) as batches:
            async for _ in batches:
                pass
        return call.read(body.value)

    async def _exchange(self, request: ModelRequest, call: WireCall | None = None) -> Exchange:
        profile = self._profile
        address = profile.address(self._environ)
        host, port = host_and_port(address)
        if not host:
            raise provider_failure(Reason.PROVIDER_NOT_CONFIGURED, self._no_address(), origin=profile.name)
        if not request.model:
            raise provider_failure(
                Reason.MODEL_NOT_FOUND, f"No model was chosen for provider {profile.name}.", origin=profile.name
            )
        if profile.key_required and not self._credentials.ready():
            raise provider_failure(Reason.PROVIDER_NOT_CONFIGURED, self._no_key(), origin=profile.name)
        call = call or self._wire.call(request)
        if "{model}" in call.path and request.model in _NOT_A_PATH_SEGMENT:
            told = f"Provider {profile.name} has no model of that name: it would lead to another place of its server."
            raise provider_failure(Reason.MODEL_NOT_FOUND, told, origin=profile.name)
        url = self._url(address, call, request.model)
        headers = self._headers(request.headers, call)
        if request.renew_credentials:
            await self._credentials.renew()
        authorization = await self._authorized(Outgoing("POST", url, headers, call.body), request.limits)
        return Exchange(
            url=url,
            headers={**headers, **authorization.headers},
            body=call.body,
            limits=request.limits,
            context=CallContext(
                profile.name,
                request.model,
                self._credentials.hint,
                f"{host}:{port}",
                authorization.secret,
                profile.errors,
            ),
            parser=call.parser,
        )

    async def _authorized(self, outgoing: Outgoing, limits: CallLimits) -> Authorization:
        try:
            async with asyncio.timeout(limits.total):
                return await self._credentials.authorize(outgoing)
        except TimeoutError:
            longest = f"{limits.total or 0:g} s (timeout.iteration)"
            raise provider_failure(
                Reason.PROVIDER_TIMEOUT,
                f"Signing in for provider {self._profile.name} took longer than {longest}.",
                retryable=True,
                origin=self._profile.name,
            ) from None

    def _url(self, address: str, call: WireCall, model: str) -> str:
        path = call.path.replace("{model}", quote(model, safe="")) if "{model}" in call.path else call.path
        query = self._profile.query
        return f"{address}{path}?{urlencode(query)}" if query else f"{address}{path}"

    def _headers(self, extra: Mapping[str, str], call: WireCall) -> dict[str, str]:
        profile = self._profile
        headers = {
            **extra,
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            "User-Agent": f"turnwired/{__version__}",
            **call.headers,
            **profile.headers,
        }
        for name, variable in profile.header_env.items():
            if value := self._environ.get(variable):
                headers[name] = value
        return headers

    def _no_address(self) -> str:
        profile = self._profile
        if not profile.address_variables:
            return f"Provider {profile.name} has no valid address: put an http or https URL into its base_url."
        variables = " or ".join(dict.fromkeys(profile.address_variables))
        part = "a part of its address" if "://" in profile.base_url else "an http or https URL"
        return f"Provider {profile.name} has no valid address: put {part} into the environment variable {variables}."

    def _no_key(self) -> str:
        return f"Provider {self._profile.name} {self._credentials.lack}."
