"""The provider of the embedded model: the chat completions wire, to a server that is a child process of ours."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from turnwired.domain.errors import FieldViolation
from turnwired.domain.failure import Reason
from turnwired.domain.generation import ModelItem
from turnwired.domain.message import Message
from turnwired.domain.tool import Tool
from turnwired.providers.credentials import KeyCredentials
from turnwired.providers.errors import provider_failure
from turnwired.providers.http_provider import HttpProvider
from turnwired.providers.json_tools import example_messages
from turnwired.providers.local.examples import EXAMPLES
from turnwired.providers.local.process import Endpoint, ModelServer
from turnwired.providers.local.weights import EMBEDDED, MODEL_NAME, models_directory, problem_with
from turnwired.providers.openai_chat import OpenAIChat
from turnwired.providers.port import CallLimits, ModelLimits, ModelRequest, ProviderInfo, TokenCount
from turnwired.providers.profiles import Profile
from turnwired.providers.transport import HttpTransport

CONTEXT_TOKENS: Final = 8192  # what the model was trained for
MEMORY_MIB: Final = 2048  # it takes 0.5 GiB with its context full
MAX_OUTPUT_TOKENS: Final = 512  # a model of this size may repeat itself for ever
_RUNTIME: Final = "xllamacpp"


class LocalProvider:
    """A ModelProvider over llama.cpp, which is started by the first call."""

    def __init__(self, profile: Profile, environ: Mapping[str, str] = os.environ) -> None:
        """``profile``: one whose server is ``embedded``, with a deployment's overrides."""
        self._profile = profile
        self._environ = environ
        self._directory = models_directory(environ)
        self._server = ModelServer(server_command(self._directory / EMBEDDED.file), origin=profile.name)
        self._transport = HttpTransport()
        self._wire = self._wire_to(Endpoint("http://127.0.0.1", ""))  # encodes; calls go to the child's own address
        self._endpoint: Endpoint | None = None

    @property
    def info(self) -> ProviderInfo:
        """What may be shown of it. It has no port before its first call."""
        port = int(self._endpoint.url.rpartition(":")[2]) if self._endpoint else 0
        problem = self._problem()
        return replace(
            self._wire.info,
            server_port=port,
            models=self._profile.models or (MODEL_NAME,),
            configured=not problem,
            hint=problem,
        )

    def encode_system(self, blocks: Sequence[str], tools: Sequence[Tool]) -> bytes:
        """The system message, and requests as already solved: without these a model of this size calls no tools."""
        pieces = [self._wire.encode_system(blocks, tools)]
        pieces += [self._wire.encode_message(message) for message in example_messages(EXAMPLES, tools)]
        return b",".join(piece for piece in pieces if piece)

    def encode_message(self, message: Message) -> bytes:
        """One message. Raises InvalidRequest."""
        return self._wire.encode_message(message)

    def encode_tools(self, tools: Sequence[Tool]) -> bytes:
        """The tools array."""
        return self._wire.encode_tools(tools)

    def check(self, request: ModelRequest) -> Sequence[FieldViolation]:
        """What of the request the model's server has no place for."""
        return self._wire.check(request)

    def limits(self, model: str) -> ModelLimits:  # noqa: ARG002 - the port's
        """What the model was trained for, whatever its name."""
        return ModelLimits(CONTEXT_TOKENS, MAX_OUTPUT_TOKENS, f"embedded model {MODEL_NAME}")

    async def count_tokens(self, request: ModelRequest) -> TokenCount:
        """Input tokens of a request. Starts no process."""
        return await self._wire.count_tokens(request)

    async def measure(self, model: str, pieces: Sequence[bytes]) -> Sequence[int]:
        """Tokens of each message, by its size."""
        return await self._wire.measure(model, pieces)

    async def generate(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelItem], None]:
        """Call the model, greedily unless the request says otherwise. Raises ProviderError."""
        if problem := self._problem():
            raise provider_failure(Reason.PROVIDER_NOT_CONFIGURED, problem, origin=self._profile.name)
        endpoint = await self._started(request.limits)
        if endpoint != self._endpoint:
            self._wire, self._endpoint = self._wire_to(endpoint), endpoint
        request = replace(
            request,
            max_output_tokens=request.max_output_tokens or MAX_OUTPUT_TOKENS,
            options=replace(request.options, temperature=request.options.temperature or 0.0),
        )
        async with aclosing(self._wire.generate(request)) as batches:
            async for items in batches:
                yield items

    async def aclose(self) -> None:
        """End the child process and close the connections to it."""
        await self._server.aclose()
        await self._transport.aclose()

    async def _started(self, limits: CallLimits) -> Endpoint:
        """The child's address within the limits of the call; a start that takes longer goes on for the next call."""
        seconds = min((limit for limit in (limits.total, limits.first_event) if limit is not None), default=None)
        try:
            async with asyncio.timeout(seconds):
                return await self._server.endpoint()
        except TimeoutError:
            message = f"The embedded model was not ready within {seconds:g} s; it is still starting."
            raise provider_failure(
                Reason.PROVIDER_TIMEOUT, message, retryable=True, origin=self._profile.name
            ) from None

    def _problem(self) -> str:
        if importlib.util.find_spec(_RUNTIME) is None:
            return "The embedded model's runtime is not installed: run `pip install 'turnwired[local]'`."
        return problem_with(EMBEDDED, self._directory)

    def _wire_to(self, endpoint: Endpoint) -> HttpProvider:
        # llama.cpp ends the connection after a stream without saying so first: the next call would find it broken.
        headers = {**self._profile.headers, "Connection": "close"}
        profile = replace(self._profile, base_url=f"{endpoint.url}/v1", base_url_env="", headers=headers)
        key = KeyCredentials(_Key(endpoint.key))
        return HttpProvider(profile, OpenAIChat(profile), key, self._transport, self._environ)


class _Key:
    """The key that the child was given."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def key(self) -> str:
        return self._value

    @property
    def hint(self) -> str:
        return "the embedded model's process"


def server_command(weights: os.PathLike[str], *, memory_mib: int = MEMORY_MIB) -> tuple[str, ...]:
    """The program that serves the model and its arguments."""
    # llama.cpp's threads wait for each other by spinning. One more than there are free cores made it 5 to 14 times
    # slower on a busy machine of two cores, so it gets half of them.
    threads = max(1, (os.cpu_count() or 1) // 2)
    return (
        *(sys.executable, "-m", "turnwired.providers.local.server"),
        *("--weights", os.fspath(weights), "--name", MODEL_NAME),
        *("--threads", str(threads), "--context-tokens", str(CONTEXT_TOKENS)),
        *("--memory-mib", str(memory_mib)),
    )
