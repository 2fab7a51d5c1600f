"""The wire ``openai.chat``: chat completions of OpenAI and of the many servers that speak it.

What differs between servers is in the profile.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from turnwired.domain.errors import ConfigError, FieldViolation
from turnwired.domain.message import Message
from turnwired.domain.tool import Tool
from turnwired.providers import openai_chat_json as json_mode
from turnwired.providers import openai_chat_messages as messages
from turnwired.providers.openai_chat_fields import answer_form
from turnwired.providers.openai_chat_parser import ChatParser
from turnwired.providers.openai_chat_request import ChatRequests
from turnwired.providers.openai_chat_usual import usual_decoders
from turnwired.providers.port import ModelRequest
from turnwired.providers.profiles import Profile, StreamEnd, ToolCalling
from turnwired.providers.wire import CountCall, WireCall

PATH = "/chat/completions"


class OpenAIChat:
    """A WireFormat for chat completions."""

    def __init__(self, profile: Profile) -> None:
        """Raises ConfigError for a profile whose fields cannot be read."""
        self._profile = profile
        self._path = profile.path or PATH
        self._json_mode = profile.tool_calling is ToolCalling.JSON_SCHEMA
        self._requests = ChatRequests(profile)
        form = answer_form(profile)
        try:
            usual_decoders(form.reasoning_fields)
        except ValueError as error:
            raise ConfigError(f"providers.{profile.name}.reasoning_fields: {error}.") from None
        if self._json_mode and profile.stream_end is StreamEnd.LENIENT:
            raise ConfigError(
                f"providers.{profile.name}.stream_end: where calls are read from the answer's text, a text that was "
                "cut off could be taken for a whole one; lenient needs native tool calls."
            )
        self._parser = partial(json_mode.JsonToolParser if self._json_mode else ChatParser, form=form)
        self._raw_parser = partial(json_mode.JsonToolParser, form=form, raw_answer=True)

    def encode_system(self, blocks: Sequence[str], tools: Sequence[Tool]) -> bytes:
        """The system message; it explains the tools where the model does not know calls by itself."""
        return json_mode.encode_system(blocks, tools) if self._json_mode else messages.encode_system(blocks)

    def encode_message(self, message: Message) -> bytes:
        """One message as JSON objects joined by commas. Raises InvalidRequest."""
        encode = json_mode.encode_message if self._json_mode else messages.encode_message
        return encode(message, self._profile)

    def encode_tools(self, tools: Sequence[Tool]) -> bytes:
        """The tools array."""
        return messages.encode_tools(tools, self._profile)

    def check(self, request: ModelRequest) -> Sequence[FieldViolation]:
        """What of the request the profile's server has no place for."""
        return self._requests.violations(request)

    def call(self, request: ModelRequest) -> WireCall:
        """The call. Raises ProviderError."""
        parser = self._raw_parser if self._json_mode and request.output_format is not None else self._parser
        return WireCall(self._path, self._requests.body(request), parser)

    def count(self, request: ModelRequest) -> CountCall | None:  # noqa: ARG002 - the port's
        """There is no counter for this wire."""
        return None
