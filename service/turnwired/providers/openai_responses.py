"""The wire ``openai.responses``: the Responses API of OpenAI and of the servers that speak it.

What differs between servers is in the profile.
"""

from __future__ import annotations

from collections.abc import Sequence

from turnwired.domain.errors import ConfigError, FieldViolation
from turnwired.domain.message import Message
from turnwired.domain.tool import Tool
from turnwired.providers import openai_responses_messages as messages
from turnwired.providers.openai_responses_parser import ResponsesParser
from turnwired.providers.openai_responses_request import OPTIONS, counted, encode_body, encode_count, violations
from turnwired.providers.port import ModelRequest
from turnwired.providers.profiles import Profile, PromptCache, StreamEnd, ToolCalling
from turnwired.providers.wire import CountCall, WireCall

PATH = "/responses"
COUNT_PATH = "/input_tokens"


class OpenAIResponses:
    """A WireFormat for the Responses API."""

    def __init__(self, profile: Profile) -> None:
        """Raises ConfigError for a tool-calling mode or an option that this wire does not have."""
        if profile.tool_calling is not ToolCalling.NATIVE:
            raise ConfigError(
                f"providers.{profile.name}.tool_calling: {profile.wire} has native tool calls only; "
                "use a profile of the wire openai.chat."
            )
        if unknown := sorted(profile.option_fields.keys() - OPTIONS):
            raise ConfigError(
                f"providers.{profile.name}.option_fields.{unknown[0]}: {profile.wire} has no such option; "
                f"known are {', '.join(OPTIONS)}."
            )
        if profile.prompt_cache is PromptCache.BREAKPOINTS:
            raise ConfigError(f"providers.{profile.name}.prompt_cache: {profile.wire} knows key or none.")
        if profile.stream_end is StreamEnd.LENIENT:
            raise ConfigError(
                f"providers.{profile.name}.stream_end: {profile.wire} ends each answer with an event of its own "
                "(response.completed); only openai.chat knows lenient."
            )
        self._profile = profile
        self._path = profile.path or PATH

    def encode_system(self, blocks: Sequence[str], tools: Sequence[Tool]) -> bytes:  # noqa: ARG002 - the port's
        """The instructions."""
        return messages.encode_system(blocks)

    def encode_message(self, message: Message) -> bytes:
        """One message as input items joined by commas. Raises InvalidRequest."""
        return messages.encode_message(message, self._profile)

    def encode_tools(self, tools: Sequence[Tool]) -> bytes:
        """The tools array."""
        return messages.encode_tools(tools, self._profile)

    def check(self, request: ModelRequest) -> Sequence[FieldViolation]:
        """What of the request the wire or the profile's server has no place for."""
        return violations(request, self._profile)

    def call(self, request: ModelRequest) -> WireCall:
        """The call. Raises ProviderError."""
        return WireCall(self._path, encode_body(request, self._profile), ResponsesParser)

    def count(self, request: ModelRequest) -> CountCall | None:
        """The question to the server's own counter, where the profile knows of one."""
        if not self._profile.token_counter:
            return None
        return CountCall(self._path + COUNT_PATH, encode_count(request, self._profile), counted)
