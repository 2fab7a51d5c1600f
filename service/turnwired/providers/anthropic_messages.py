"""The wire ``anthropic.messages``: the Messages API of Anthropic, of clouds that offer it and of servers that speak it.

What differs between servers is in the profile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from turnwired.domain.errors import ConfigError, FieldViolation
from turnwired.domain.message import Message
from turnwired.domain.tool import Tool
from turnwired.providers import anthropic_messages_content as content
from turnwired.providers import anthropic_messages_request as bodies
from turnwired.providers.anthropic_messages_parser import MessagesParser
from turnwired.providers.port import ModelRequest
from turnwired.providers.profiles import Profile, PromptCache, StreamEnd, ToolCalling
from turnwired.providers.wire import CountCall, WireCall

PATH = "/messages"
COUNT_PATH = "/count_tokens"


class AnthropicMessages:
    """A WireFormat for the Messages API."""

    def __init__(self, profile: Profile) -> None:
        """Raises ConfigError for a profile that this wire cannot serve."""
        if profile.tool_calling is not ToolCalling.NATIVE:
            raise ConfigError(
                f"providers.{profile.name}.tool_calling: {profile.wire} has native tool calls only; use openai.chat "
                "for a model without them."
            )
        if unknown := sorted(profile.option_fields.keys() - bodies.KNOWN_OPTIONS):
            raise ConfigError(
                f"providers.{profile.name}.option_fields.{unknown[0]}: {profile.wire} has no such option; "
                f"known are {', '.join(bodies.KNOWN_OPTIONS)}."
            )
        if profile.prompt_cache is PromptCache.KEY:
            raise ConfigError(f"providers.{profile.name}.prompt_cache: {profile.wire} knows breakpoints or none.")
        if profile.stream_end is StreamEnd.LENIENT:
            raise ConfigError(
                f"providers.{profile.name}.stream_end: {profile.wire} ends each answer with an event of its own "
                "(message_stop); only openai.chat knows lenient."
            )
        self._profile = profile
        self._path = profile.path or PATH

    def encode_system(self, blocks: Sequence[str], tools: Sequence[Tool]) -> bytes:  # noqa: ARG002 - the port's
        """System blocks as text blocks joined by commas."""
        return content.encode_system(blocks, self._profile)

    def encode_message(self, message: Message) -> bytes:
        """One message as a JSON object. Raises InvalidRequest."""
        return content.encode_message(message, self._profile)

    def encode_tools(self, tools: Sequence[Tool]) -> bytes:
        """The tools array."""
        return content.encode_tools(tools, self._profile)

    def check(self, request: ModelRequest) -> Sequence[FieldViolation]:
        """What of the request the profile's server has no place for."""
        return bodies.violations_of(request, self._profile)

    def call(self, request: ModelRequest) -> WireCall:
        """The call. Raises ProviderError."""
        return WireCall(self._path, bodies.encode_body(request, self._profile), MessagesParser)

    def count(self, request: ModelRequest) -> CountCall | None:
        """The question for input tokens, where the server has a counter."""
        if not self._profile.token_counter:
            return None
        return CountCall(self._path + COUNT_PATH, bodies.encode_count(request, self._profile), _counted)


def _counted(answer: object) -> int | None:
    tokens = answer.get("input_tokens") if isinstance(answer, Mapping) else None
    return tokens if type(tokens) is int and tokens >= 0 else None
