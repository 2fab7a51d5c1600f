"""Provider profiles: what differs between providers, as data. Reads the shipped ``profiles.toml``; does no network I/O.

A wire asks the profile and never the provider's name. New providers are new rows.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any, get_type_hints
from urllib.parse import urlsplit

from turnwired.domain.errors import ConfigError
from turnwired.domain.tool import ToolChoiceMode


class Wire(StrEnum):
    """Protocols between this service and providers."""

    OPENAI_CHAT = "openai.chat"


class ToolCalling(StrEnum):
    """How a model is brought to call tools. JSON_SCHEMA: the answer is constrained to a call or a final answer."""

    NATIVE = "native"
    JSON_SCHEMA = "json_schema"


class CallIdForm(StrEnum):
    """What a server accepts as the id of a tool call. ALPHANUMERIC_9: Mistral takes nine letters and digits."""

    ANY = "any"
    ALPHANUMERIC_9 = "alphanumeric_9"


@dataclass(frozen=True, slots=True)
class Profile:
    """One provider.

    ``name``: as agents name it. ``base_url``: of the API; ``base_url_env`` names a variable that overrides it.
    ``key_env`` or ``key_file``: where the key is; ``key_required``: calls without a key make no sense.
    ``auth_header``/``auth_scheme``: the key is sent as ``<header>: <scheme> <key>``.
    ``headers``: sent as they are; ``header_env``: header -> environment variable, sent when the variable is set.
    ``query``: added to the URL, such as Azure's api-version. ``path``: of the endpoint below the base URL.
    ``models``: offered by name; the first is the default. ``tool_calling``: see ToolCalling.
    ``tool_choice``: modes that the server obeys with native calls; under a schema any choice is obeyed.
    ``named_tool_choice``: it can be told to call one tool.
    ``parallel_tool_calls``: it knows the flag of that name. ``usage_option``: it knows stream_options.include_usage.
    ``output_tokens_field``: name of the cap. ``reasoning_effort_field``: empty, where effort cannot be told.
    ``reasoning_echo_field``: where the assistant's reasoning is given back; empty: it is left out.
    ``images``: it takes images in user messages. ``call_ids``: see CallIdForm.
    """

    name: str
    wire: Wire
    telemetry_name: str
    base_url: str = ""
    base_url_env: str = ""
    key_env: str = ""
    key_file: str = ""
    key_required: bool = True
    auth_header: str = "Authorization"
    auth_scheme: str = "Bearer"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    header_env: Mapping[str, str] = field(default_factory=dict[str, str])
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    path: str = "/chat/completions"
    models: tuple[str, ...] = ()
    tool_calling: ToolCalling = ToolCalling.NATIVE
    tool_choice: frozenset[ToolChoiceMode] = frozenset(
        {ToolChoiceMode.AUTO, ToolChoiceMode.NONE, ToolChoiceMode.REQUIRED}
    )
    named_tool_choice: bool = True
    parallel_tool_calls: bool = True
    usage_option: bool = True
    output_tokens_field: str = "max_completion_tokens"
    reasoning_effort_field: str = "reasoning_effort"
    reasoning_echo_field: str = ""
    images: bool = True
    call_ids: CallIdForm = CallIdForm.ANY

    def address(self, environ: Mapping[str, str]) -> str:
        """The base URL in force, without a trailing slash; empty when none is known."""
        url = (environ.get(self.base_url_env) if self.base_url_env else None) or self.base_url
        return url.strip().rstrip("/")


def host_and_port(url: str) -> tuple[str, int]:
    """Host and port of a base URL; ("", 0) when it is no http or https URL."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        return "", 0
    return (parts.hostname, port) if parts.scheme in {"http", "https"} and parts.hostname else ("", 0)


@cache
def shipped() -> Mapping[str, Profile]:
    """The profiles of this release by name."""
    text = resources.files("turnwired.providers").joinpath("profiles.toml").read_text(encoding="utf-8")
    return with_overrides({}, tomllib.loads(text))


def with_overrides(base: Mapping[str, Profile], rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Profile]:
    """``base`` with rows of a configuration changed or added. Raises ConfigError naming the row and the field."""
    profiles = dict(base)
    for name, row in rows.items():
        values = dict(row)
        parent = values.pop("extends", name)
        if parent in profiles:
            profiles[name] = replace(profiles[parent], name=name, **_typed(name, values))
        elif parent == name:
            values.setdefault("telemetry_name", name)
            if "wire" not in values:
                raise ConfigError(f"providers.{name}: say which wire it speaks, or which profile it extends.")
            profiles[name] = Profile(name=name, **_typed(name, values))
        else:
            raise ConfigError(f"providers.{name}.extends: there is no profile {parent!r}.")
        _check(profiles[name])
    return profiles


def _check(profile: Profile) -> None:
    where = f"providers.{profile.name}"
    if profile.base_url and host_and_port(profile.base_url) == ("", 0):
        raise ConfigError(f"{where}.base_url: not an http or https URL.")
    if any("\r" in text or "\n" in text for pair in profile.headers.items() for text in pair):
        raise ConfigError(f"{where}.headers: a header cannot have line breaks.")


def _typed(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(Profile)
    known = {item.name for item in fields(Profile)} - {"name"}
    typed: dict[str, Any] = {}
    for key, value in values.items():
        if key not in known:
            raise ConfigError(f"providers.{name}.{key}: there is no such field of a provider profile.")
        typed[key] = _value(f"providers.{name}.{key}", hints[key], value)
    return typed


def _value(where: str, hint: Any, value: Any) -> object:
    if isinstance(hint, type) and issubclass(hint, StrEnum) and isinstance(value, str):
        return _member(where, hint, value)
    if hint in (bool, str) and isinstance(value, hint):
        return value
    if hint == tuple[str, ...] and _all_text(value):
        return tuple(value)
    if hint == frozenset[ToolChoiceMode] and _all_text(value):
        return frozenset(_member(where, ToolChoiceMode, word.upper()) for word in value)
    if hint == Mapping[str, str] and isinstance(value, Mapping) and _all_text(list(value.values())):
        return dict(value)
    raise ConfigError(f"{where}: the value has the wrong type.")


def _all_text(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _member(where: str, enum: type[StrEnum], value: str) -> StrEnum:
    try:
        return enum(value)
    except ValueError:
        allowed = ", ".join(member.value for member in enum)
        raise ConfigError(f"{where}: {value!r} is none of {allowed}.") from None
