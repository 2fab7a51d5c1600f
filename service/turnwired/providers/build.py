"""From a deployment's words to a provider: profile, overrides, and the wire that it speaks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from turnwired.domain.errors import ConfigError
from turnwired.providers.anthropic_messages import AnthropicMessages
from turnwired.providers.credentials import Credentials
from turnwired.providers.http_provider import HttpProvider
from turnwired.providers.openai_chat import OpenAIChat
from turnwired.providers.port import ModelProvider
from turnwired.providers.profiles import Profile, Wire, shipped, with_overrides
from turnwired.providers.transport import HttpTransport
from turnwired.providers.wire import WireFormat

LOCAL = "local"
"""The profile whose server is a child process of ours."""


def build_provider(
    name: str,
    *,
    profile: str,
    environ: Mapping[str, str],
    base_url: str | None = None,
    key_env: str | None = None,
    key_file: str | None = None,
    models: Sequence[str] = (),
    tool_calling: str | None = None,
) -> ModelProvider:
    """A provider called ``name``. Raises ConfigError when there is no such profile or an override does not fit it."""
    known = shipped()
    if profile not in known:
        raise ConfigError(f"there is no provider profile {profile!r}; set profile to one of {', '.join(sorted(known))}")
    row: dict[str, Any] = {"extends": profile}
    if base_url is not None:
        row |= {"base_url": base_url, "base_url_env": ""}  # what the configuration says wins over a variable
    if key_env is not None:
        row["key_env"] = key_env
    if key_file is not None:
        row |= {"key_file": key_file, "key_env": ""}
    if models:
        row["models"] = list(models)
    if tool_calling is not None:
        row["tool_calling"] = tool_calling
    built = with_overrides(known, {name: row})[name]
    if profile == LOCAL and base_url is None:
        from turnwired.providers.local.provider import LocalProvider

        return LocalProvider(built, environ)
    return provider_for(built, environ=environ)


def provider_for(
    profile: Profile,
    credentials: Credentials | None = None,
    transport: HttpTransport | None = None,
    environ: Mapping[str, str] = os.environ,
) -> HttpProvider:
    """The provider of one profile."""
    return HttpProvider(profile, wire_of(profile), credentials, transport, environ)


def wire_of(profile: Profile) -> WireFormat:
    """The wire that a profile speaks, set to its ways."""
    match profile.wire:
        case Wire.OPENAI_CHAT:
            return OpenAIChat(profile)
        case Wire.ANTHROPIC_MESSAGES:
            return AnthropicMessages(profile)
        case Wire.OPENAI_RESPONSES:
            raise ConfigError(f"providers.{profile.name}.wire: {profile.wire} is not there yet.")
