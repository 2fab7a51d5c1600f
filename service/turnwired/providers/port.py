"""The port to model providers: what the engine asks for and what a wire gives back. Knows no wire.

A wire serialises the canonical request and turns the answer's bytes into batches of ``ModelItem`` (see
``turnwired.domain.generation``), one batch per socket read. It never retries: the turn machine owns that.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from turnwired.domain.errors import FieldViolation
from turnwired.domain.generation import ModelItem
from turnwired.domain.message import Message
from turnwired.domain.model import GenerationOptions, OutputFormat
from turnwired.domain.policy import PolicyLayer
from turnwired.domain.tool import Tool, ToolChoice


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Time limits of one model call in seconds; None: no limit. The engine sets them from the policy.

    ``first_event`` runs from the request to the first item; ``idle`` is re-armed by content only, never by pings or
    empty deltas; ``thinking_idle`` replaces ``idle`` while the provider is known to think silently; ``total`` covers
    the whole call. The wire enforces them and raises ProviderError(PROVIDER_TIMEOUT).
    """

    total: float | None = None
    first_event: float | None = None
    idle: float | None = None
    thinking_idle: float | None = None


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model call, canonical. ``system``, ``messages`` and ``tools`` are already encoded by ``encode_*``.

    The encoded pieces are kept by the caller from iteration to iteration, so that a wire only joins bytes. ``tools``
    is empty when the model must not call any; ``offered`` are the same tools, for a wire that has to name them in
    another way. ``output_format``: the final answer must be JSON of this schema. ``cache_key``: equal for requests
    that share their beginning, opaque to the provider. ``headers`` carries trace propagation.
    ``renew_credentials``: the provider rejected those of the attempt before; read or fetch them anew.
    """

    model: str
    messages: Sequence[bytes]
    system: bytes = b""
    tools: bytes = b""
    tool_choice: ToolChoice = field(default_factory=ToolChoice)
    offered: Sequence[Tool] = ()
    parallel_tool_calls: bool | None = None
    max_output_tokens: int | None = None
    reasoning_effort: str | None = None
    options: GenerationOptions = field(default_factory=GenerationOptions)
    output_format: OutputFormat | None = None
    cache_key: str = ""
    renew_credentials: bool = False
    provider_options: Mapping[str, object] = field(default_factory=dict[str, object])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    limits: CallLimits = field(default_factory=CallLimits)


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """What a model takes and gives by itself, in tokens; None: not known. The layer PROVIDER_NATIVE of a policy.

    ``source`` says who knows it, such as a profile and the models that its row is for.
    """

    context_tokens: int | None = None
    output_tokens: int | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Input tokens of a request. ``exact``: the provider itself counted; else ``method`` says how it was estimated."""

    tokens: int
    method: str
    exact: bool = False


@dataclass(frozen=True, slots=True)
class ProviderInfo:
    """What GetServerInfo and telemetry say of a provider. Never holds a credential.

    ``telemetry_name`` is the value of ``gen_ai.provider.name`` (OpenTelemetry GenAI); ``configured`` is False when
    calls cannot work, and ``hint`` then says what to do. ``reports_usage`` is False where it is known never to.
    ``stream_end``: what ends an answer, "strict" or "lenient", and the layer that says so.
    """

    name: str
    wire: str
    telemetry_name: str
    server_address: str
    server_port: int
    models: tuple[str, ...] = ()
    configured: bool = True
    hint: str = ""
    reports_usage: bool = True
    stream_end: str = "strict"
    stream_end_layer: PolicyLayer = PolicyLayer.RUNTIME_DEFAULT


class ModelProvider(Protocol):
    """One configured provider. Implementations are safe for any number of concurrent calls."""

    @property
    def info(self) -> ProviderInfo:
        """What may be shown of it."""
        ...

    def encode_system(self, blocks: Sequence[str], tools: Sequence[Tool]) -> bytes:
        """Encode the system blocks for ``ModelRequest.system`` (b"" when there are none).

        ``tools`` are the tools offered: a provider whose tool-calling mode is not native explains them here.
        """
        ...

    def encode_message(self, message: Message) -> bytes:
        """Encode one message as this wire's JSON bytes: one or more JSON objects joined by commas, no brackets.

        Deterministic: the same message gives the same bytes, so that prompt caches hold.
        Raises InvalidRequest when the wire cannot carry a part.
        """
        ...

    def encode_tools(self, tools: Sequence[Tool]) -> bytes:
        """Encode the tools in the given order as this wire's JSON array bytes."""
        ...

    def check(self, request: ModelRequest) -> Sequence[FieldViolation]:
        """What of a request this provider has no place for: paths below the turn and what to do. No I/O.

        ``messages`` and ``tools`` may be empty still. The run is refused before it exists; ``generate`` meets only
        requests without violations, and raises ProviderError for others.
        """
        ...

    def limits(self, model: str) -> ModelLimits:
        """What the profile knows of a model."""
        ...

    async def count_tokens(self, request: ModelRequest) -> TokenCount:
        """Input tokens of a request: by the provider's counter, else a tokenizer, else an estimate. Raises nothing.

        Bounded by ``request.limits``; a counter that fails is replaced by the next best.
        """
        ...

    async def measure(self, model: str, pieces: Sequence[bytes]) -> Sequence[int]:
        """Tokens of each encoded message, by a tokenizer, else from its size. Asks nobody, and raises nothing."""
        ...

    def generate(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelItem], None]:
        """Call the model and yield one batch of items per socket read.

        Ends normally when the body ends, also without a GenerationStopped (the machine then says EOF). Raises
        ProviderError with a typed failure for everything else, partial output having been yielded before. Closing
        the generator or cancelling the task closes the connection at once.
        """
        ...

    async def aclose(self) -> None:
        """Close connections and child processes. Bounded."""
        ...
