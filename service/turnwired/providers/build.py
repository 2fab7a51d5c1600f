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
from turnwired.providers.openai_responses import OpenAIResponses
from turnwired.providers.port import ModelProvider
from turnwired.providers.profiles import Profile, Wire, shipped, with_overrides
from turnwired.providers.transport import HttpTransport
from turnwired.providers.wire import WireFormat


def known_profiles(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Profile]:
    """The shipped profiles and those of a configuration. Raises ConfigError that begins with ``profiles.<name>``."""
    return with_overrides(shipped(), rows, "profiles")


def profile_of(
    name: str,
    *,
    profile: str,
    known: Mapping[str, Profile] | None = None,
    base_url: str | None = None,
    key_env: str | None = None,
    key_file: str | None = None,
    models: Sequence[str] = (),
    tool_calling: str | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Profile:
    """The profile of a provider called ``name``: one of ``known``, with what the deployment says over it.

    ``fields`` are fields of a profile by their own names. Raises ConfigError that begins with ``providers.<name>``.
    """
    known = shipped() if known is None else known
    if profile not in known:
        raise ConfigError(
            f"providers.{name}: there is no provider profile {profile!r}; set profile to one of "
            f"{', '.join(sorted(known))}"
        )
    row: dict[str, Any] = {}
    if base_url is not None:
        # What the configuration says wins over a variable, and another server has other prices.
        row |= {"base_url": base_url, "base_url_env": "", "price_list": "", "embedded": False}
    if key_env is not None:
        row["key_env"] = key_env
    if key_file is not None:
        row |= {"key_file": key_file, "key_env": ""}
    if models:
        row["models"] = list(models)
    if tool_calling is not None:
        row["tool_calling"] = tool_calling
    row |= fields or {}
    if "extends" in row:
        raise ConfigError(f"providers.{name}.extends: a provider has a profile instead; write profile = ...")
    return with_overrides(known, {name: {**row, "extends": profile}})[name]


def build_provider(name: str, *, profile: str, environ: Mapping[str, str], **changes: Any) -> ModelProvider:
    """A provider called ``name``; ``changes`` are those of ``profile_of``. Raises ConfigError."""
    return start(profile_of(name, profile=profile, **changes), environ)


def start(profile: Profile, environ: Mapping[str, str]) -> ModelProvider:
    """The provider of one profile, with a server of its own if the profile has one."""
    if profile.embedded:
        from turnwired.providers.local.provider import LocalProvider

        return LocalProvider(profile, environ)
    return provider_for(profile, environ=environ)


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
        case Wire.OPENAI_RESPONSES:
            return OpenAIResponses(profile)
        case Wire.ANTHROPIC_MESSAGES:
            return AnthropicMessages(profile)
