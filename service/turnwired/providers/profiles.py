"""Provider profiles: what differs between providers, as data. Reads the shipped ``profiles.toml``; does no network I/O.

A wire asks the profile and never the provider's name. New providers are new rows.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Any, get_args, get_type_hints
from urllib.parse import urlsplit

from turnwired.domain.errors import ConfigError
from turnwired.domain.tool import ToolChoiceMode
from turnwired.providers.port import ModelLimits


class Wire(StrEnum):
    """Protocols between this service and providers."""

    OPENAI_CHAT = "openai.chat"
    OPENAI_RESPONSES = "openai.responses"
    ANTHROPIC_MESSAGES = "anthropic.messages"


class ToolCalling(StrEnum):
    """How a model is brought to call tools. JSON_SCHEMA: the answer is constrained to a call or a final answer."""

    NATIVE = "native"
    JSON_SCHEMA = "json_schema"


class CallIdForm(StrEnum):
    """What a server accepts as the id of a tool call. ALPHANUMERIC_9: Mistral takes nine letters and digits."""

    ANY = "any"
    ALPHANUMERIC_9 = "alphanumeric_9"


class SignIn(StrEnum):
    """What authorises a call: a key in a header, or a cloud's own sign-in."""

    KEY = "key"
    AZURE = "azure"
    AWS = "aws"
    GOOGLE = "google"


class StructuredOutput(StrEnum):
    """How a server is held to a JSON Schema: by itself, by its JSON mode with the schema explained, or by words."""

    JSON_SCHEMA = "json_schema"
    JSON_OBJECT = "json_object"
    PROMPT = "prompt"


class PromptCache(StrEnum):
    """How a server is told what to cache. KEY: prompt_cache_key; BREAKPOINTS: cache_control blocks."""

    NONE = "none"
    KEY = "key"
    BREAKPOINTS = "breakpoints"


class InputKind(StrEnum):
    """What a model takes beside text."""

    IMAGE = "image"
    PDF = "pdf"
    AUDIO = "audio"


class SchemaAdaptation(StrEnum):
    """What has to be changed in a JSON Schema before a server takes it."""

    INLINE_REFS = "inline_refs"
    NO_TOP_LEVEL_UNION = "no_top_level_union"
    NO_TYPE_ARRAYS = "no_type_arrays"
    CLOSED_OBJECTS = "closed_objects"
    ALL_REQUIRED = "all_required"
    NO_VALIDATION_KEYWORDS = "no_validation_keywords"


class UsageArrival(StrEnum):
    """Where a stream has its usage: in a chunk after the finish reason, beside it, in every chunk, or nowhere."""

    AFTER_FINISH = "after_finish"
    WITH_FINISH = "with_finish"
    EVERY_CHUNK = "every_chunk"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class ModelLimitRow:
    """Limits of the models whose name matches ``models`` (``*`` is any run of characters). 0: not known."""

    models: str
    context_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Profile:
    """One provider.

    ``name``: as agents name it. ``base_url``: of the API; ``base_url_env`` names a variable that overrides it.
    ``key_env`` or ``key_file``: where the key is; ``key_required``: calls without a key make no sense.
    ``auth_header``/``auth_scheme``: the key is sent as ``<header>: <scheme> <key>``.
    ``headers``: sent as they are; ``header_env``: header -> environment variable, sent when the variable is set.
    ``query``: added to the URL, such as Azure's api-version. ``path``: of the endpoint below the base URL, where it is
    not the wire's own; ``{model}`` in it stands for the model. ``sign_in``: see SignIn, with ``sign_in_options``.
    ``models``: offered by name; the first is the default. ``tool_calling``: see ToolCalling.
    ``tool_choice``: modes that the server obeys with native calls; under a schema any choice is obeyed.
    ``named_tool_choice``: it can be told to call one tool.
    ``parallel_tool_calls``: it knows the flag of that name. ``usage_option``: it knows stream_options.include_usage.
    ``output_tokens_field``: name of the cap. ``reasoning_effort_field``: empty, where effort cannot be told.
    ``reasoning_echo_field``: where the assistant's reasoning is given back; empty: it is left out.
    ``inputs``: what it takes in user messages beside text. ``call_ids``: see CallIdForm.
    ``structured_output``, ``prompt_cache``, ``usage``: see the types. ``schema_adaptations``: what its schemas lack.
    ``option_fields``: name of a GenerationOptions field -> name on the wire, where that is not the wire's own; empty:
    it cannot be told. ``done_marker``: a stream ends with ``[DONE]``. ``token_counter``: it counts input tokens.
    ``tokenizer``: name of the encoding that stands in for it, such as ``o200k_base``.
    ``reasoning_fields``: where reasoning is in a delta, first come. ``model_limits``: the first row that matches.
    ``body_fields``: fixed fields of every body, such as Vertex's ``anthropic_version``; ``model_in_body``: the model is
    named in the body too, and not in the URL alone.
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
    path: str = ""
    sign_in: SignIn = SignIn.KEY
    sign_in_options: Mapping[str, str] = field(default_factory=dict[str, str])
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
    reasoning_fields: tuple[str, ...] = ("reasoning_content", "reasoning", "reasoning_text")
    inputs: frozenset[InputKind] = frozenset({InputKind.IMAGE})
    call_ids: CallIdForm = CallIdForm.ANY
    structured_output: StructuredOutput = StructuredOutput.JSON_SCHEMA
    prompt_cache: PromptCache = PromptCache.NONE
    usage: UsageArrival = UsageArrival.AFTER_FINISH
    done_marker: bool = True
    token_counter: bool = False
    tokenizer: str = ""
    schema_adaptations: frozenset[SchemaAdaptation] = frozenset()
    option_fields: Mapping[str, str] = field(default_factory=dict[str, str])
    model_limits: tuple[ModelLimitRow, ...] = ()
    body_fields: Mapping[str, str] = field(default_factory=dict[str, str])
    model_in_body: bool = True

    def limits_of(self, model: str) -> ModelLimits:
        """What is known of a model."""
        for row in self.model_limits:
            if fnmatchcase(model, row.models):
                return ModelLimits(row.context_tokens or None, row.output_tokens or None)
        return ModelLimits()

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
    if hint in (frozenset[InputKind], frozenset[SchemaAdaptation]) and _all_text(value):
        return frozenset(_member(where, get_args(hint)[0], word) for word in value)
    if hint == tuple[ModelLimitRow, ...] and isinstance(value, list):
        return tuple(_limit_row(where, row) for row in value)
    if hint == Mapping[str, str] and isinstance(value, Mapping) and _all_text(list(value.values())):
        return dict(value)
    raise ConfigError(f"{where}: the value has the wrong type.")


def _limit_row(where: str, row: Any) -> ModelLimitRow:
    known = {item.name for item in fields(ModelLimitRow)}
    if not isinstance(row, Mapping) or not row.keys() <= known or not isinstance(row.get("models"), str):
        raise ConfigError(f"{where}: a row has models, and context_tokens or output_tokens.")
    counts = {name: row[name] for name in known - {"models"} if name in row}
    if not all(type(count) is int and count > 0 for count in counts.values()):
        raise ConfigError(f"{where}: a limit is a number of tokens above 0.")
    return ModelLimitRow(row["models"], **counts)


def _all_text(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _member(where: str, enum: type[StrEnum], value: str) -> StrEnum:
    try:
        return enum(value)
    except ValueError:
        allowed = ", ".join(member.value for member in enum)
        raise ConfigError(f"{where}: {value!r} is none of {allowed}.") from None
