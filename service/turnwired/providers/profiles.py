"""Provider profiles: what differs between providers, as data. Reads the shipped ``profiles.toml``; does no network I/O.

A wire asks the profile and never the provider's name. New providers are new rows. The text below a field of ``Profile``
is its one explanation: docs/providers.md is made from it (scripts/profile_docs.py).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

from turnwired.domain.errors import ConfigError
from turnwired.domain.policy import PolicyLayer
from turnwired.domain.tool import ToolChoiceMode
from turnwired.providers.errors import ErrorRule
from turnwired.providers.port import ModelLimits
from turnwired.providers.profile_values import as_toml, did_you_mean, hints_of, read_value

_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*(?:\|[A-Za-z_][A-Za-z0-9_]*)*)(?::-([^{}]*))?\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"}
)
_SECRET_PARAMETERS = frozenset({"key", "api_key", "api-key", "apikey", "access_token", "token"})


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
    NO_ADDITIONAL_PROPERTIES = "no_additional_properties"


class UsageArrival(StrEnum):
    """Where a stream has its usage: in a chunk after the finish reason, beside it, in every chunk, or nowhere."""

    AFTER_FINISH = "after_finish"
    WITH_FINISH = "with_finish"
    EVERY_CHUNK = "every_chunk"
    NEVER = "never"


class StreamEnd(StrEnum):
    """What ends an answer: its finish reason alone, or also the end of the body."""

    STRICT = "strict"
    LENIENT = "lenient"


@dataclass(frozen=True, slots=True)
class ModelLimitRow:
    """Limits of the models whose name matches ``models`` (``*`` is any run of characters). 0: not known."""

    models: str
    context_tokens: int = 0
    output_tokens: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError for a row that says nothing, which would only hide the rows behind it."""
        if not (self.context_tokens or self.output_tokens):
            raise ValueError("a row needs context_tokens, output_tokens or both")


@dataclass(frozen=True, slots=True)
class Profile:
    """One provider, as data. docs/providers.md lists the fields in the words below them."""

    name: str
    wire: Wire
    """What is spoken with it."""
    telemetry_name: str
    """Value of ``gen_ai.provider.name`` in telemetry."""
    base_url: str = ""
    """Of the API. ``{VARIABLE}`` stands for an environment variable, ``{A|B}`` for the first that is set,
    ``{A:-text}`` for it or else a text."""
    base_url_env: str = ""
    """Environment variable that replaces the base URL when it is set."""
    key_env: str = ""
    """Environment variable that holds the key."""
    key_file: str = ""
    """File that holds the key; read again when it changes, and before the variable."""
    key_required: bool = True
    """Calls without a key make no sense: they are refused before anybody is called."""
    auth_header: str = "Authorization"
    """Header that carries the key."""
    auth_scheme: str = "Bearer"
    """Word before the key in that header; empty: none."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Headers that are sent as they are, never a key. An empty value takes one away, here and in ``header_env``."""
    header_env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Header -> environment variable that holds its value; sent when the variable is set."""
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    """Parameters that are added to every URL."""
    hosts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Host that the base URL comes to -> the host to use for it, such as that of Vertex's regions that are none."""
    path: str = ""
    """Of the endpoint below the base URL, where it is not the wire's own; ``{model}`` stands for the model."""
    sign_in: SignIn = SignIn.KEY
    """What authorises a call: a key, or the sign-in of a cloud."""
    sign_in_options: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the sign-in needs to know, such as a scope or a region."""
    models: tuple[str, ...] = ()
    """Models that are offered by name; the first is the default. Others can be named as well."""
    price_list: str = ""
    """How the package ``genai-prices`` calls the provider; empty: it is looked up by the base URL."""
    embedded: bool = False
    """The server is a child process of this one, unless a base URL is set."""
    tool_calling: ToolCalling = ToolCalling.NATIVE
    """How the model is brought to call tools: by the server, or by a schema that the answer is held to."""
    tool_choice: frozenset[ToolChoiceMode] = frozenset(
        {ToolChoiceMode.AUTO, ToolChoiceMode.NONE, ToolChoiceMode.REQUIRED}
    )
    """Tool choices that the server obeys with native calls; by a schema any is obeyed."""
    named_tool_choice: bool = True
    """It can be told to call one certain tool."""
    parallel_tool_calls: bool = True
    """It knows the flag that forbids several calls in one answer."""
    usage_option: bool = True
    """It has to be asked for usage with ``stream_options.include_usage``, and knows that field."""
    output_tokens_field: str = "max_completion_tokens"
    """Name of the cap of output tokens (chat completions), or names joined by dots."""
    reasoning_effort_field: str = "reasoning_effort"
    """Name of the reasoning effort (chat completions), or names joined by dots; empty: no wire can tell it."""
    include: tuple[str, ...] = ("reasoning.encrypted_content",)
    """What answers shall hold beside the usual (responses)."""
    reasoning_echo_field: str = ""
    """Field of an assistant message that gives its reasoning back; ``content.thinking``: as thinking parts of the
    content; empty: reasoning is left out."""
    reasoning_fields: tuple[str, ...] = ("reasoning_content", "reasoning", "reasoning_text")
    """Where reasoning is in a chunk (chat completions); the first that has text counts."""
    inputs: frozenset[InputKind] = frozenset({InputKind.IMAGE})
    """What it takes in user messages beside text."""
    call_ids: CallIdForm = CallIdForm.ANY
    """What it accepts as the id of a tool call."""
    structured_output: StructuredOutput = StructuredOutput.JSON_SCHEMA
    """How it is held to a schema: by itself, by its JSON mode with the schema explained, or by words alone."""
    structured_output_with_tools: bool = True
    """It is held to a schema or to JSON also while tools are offered; else it is told in words then."""
    strict_optional_properties: int = 1000
    """Properties that a schema may leave optional for the server to be held to it; with more it is a hint or words."""
    strict_unions: int = 1000
    """Unions that such a schema may have."""
    prompt_cache: PromptCache = PromptCache.NONE
    """How it is told what to cache: not at all, by a key, or by breakpoints."""
    usage: UsageArrival = UsageArrival.AFTER_FINISH
    """Where a stream has its usage (chat completions)."""
    done_marker: bool = True
    """A stream ends with ``[DONE]`` (chat completions)."""
    stream_end: StreamEnd = StreamEnd.STRICT
    """An answer counts only with its finish reason; or also without one, if each call in it is whole (chat completions
    with native tool calls), for servers that never send it. Then text that was cut off cannot be told from a whole
    one."""
    token_counter: bool = False
    """It has an endpoint that counts input tokens."""
    tokenizer: str = ""
    """Encoding that counts where the provider does not, such as ``o200k_base``; empty: tokens are estimated."""
    schema_adaptations: frozenset[SchemaAdaptation] = frozenset()
    """What is changed in a JSON Schema before it is sent."""
    option_fields: Mapping[str, str] = field(default_factory=dict[str, str])
    """Generation option -> its name on the wire, where that is not the wire's own; empty: it cannot be told. In chat
    completions names may be joined by dots, and ``thinking`` may be followed by its words, as in
    ``thinking.type=enabled|disabled``; responses have no field for it, and tell it by the effort."""
    model_limits: tuple[ModelLimitRow, ...] = ()
    """Tokens that models take and give by themselves; the first row counts whose ``models`` matches (``*``: any text).
    Rows of a profile that builds on another come before those of the other."""
    body_fields: Mapping[str, str] = field(default_factory=dict[str, str])
    """Fixed fields of every body, such as Vertex's ``anthropic_version``."""
    model_in_body: bool = True
    """The model is named in the body too, and not in the URL alone."""
    errors: tuple[ErrorRule, ...] = ()
    """What its errors mean, where the general rules do not know. Rows come before those of the profile that this one
    builds on, and before the general rules."""
    # Which layer set which field: what rows say is in the fields above.
    layers: Mapping[str, PolicyLayer] = field(default_factory=dict[str, PolicyLayer], compare=False, repr=False)

    @staticmethod
    def settable() -> tuple[str, ...]:
        """The fields that a row may set. The layers in which each was set are known and no field of a row."""
        return tuple(item.name for item in fields(Profile) if item.name not in {"name", "layers"})

    def layer_of(self, field_name: str) -> PolicyLayer:
        """Who supplied a field: the configuration, a row of this release, or nobody."""
        return self.layers.get(field_name, PolicyLayer.RUNTIME_DEFAULT)

    def limits_of(self, model: str) -> ModelLimits:
        """What is known of a model, and which row says so."""
        for row in self.model_limits:
            if fnmatchcase(model, row.models):
                source = f"profile {self.name}, models {row.models}"
                return ModelLimits(row.context_tokens or None, row.output_tokens or None, source)
        return ModelLimits()

    def address(self, environ: Mapping[str, str]) -> str:
        """The base URL in force, without a trailing slash; empty when none is known."""
        url = (environ.get(self.base_url_env) if self.base_url_env else None) or self._filled(environ)
        return url.strip().rstrip("/")

    def _filled(self, environ: Mapping[str, str]) -> str:
        url = self.base_url
        for place in _PLACE.finditer(self.base_url):
            values = (environ.get(name, "").strip() for name in place[1].split("|"))
            value = next(filter(None, values), place[2] or "").rstrip("/")
            if not value:
                return ""
            url = url.replace(place[0], value)
        scheme, _, rest = url.partition("://")
        host, slash, path = rest.partition("/")
        return f"{scheme}://{self.hosts[host]}{slash}{path}" if host in self.hosts else url

    @property
    def address_variables(self) -> tuple[str, ...]:
        """The environment variables that the base URL depends on."""
        inside = [name for place in _PLACE.finditer(self.base_url) for name in place[1].split("|")]
        return tuple(filter(None, (*inside, self.base_url_env)))


@lru_cache(maxsize=256)  # asked for at each call, of the few addresses of a deployment
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
    return with_overrides({}, tomllib.loads(text), "profiles", PolicyLayer.PROVIDER_NATIVE)


def with_overrides(
    base: Mapping[str, Profile],
    rows: Mapping[str, Mapping[str, Any]],
    section: str = "providers",
    layer: PolicyLayer = PolicyLayer.DEPLOYMENT,
) -> dict[str, Profile]:
    """``base`` with rows of a configuration changed or added, in any order. ``layer``: who says what they say.

    A row ``extends`` another one, by default the one of its own name in ``base``. What it says replaces what that one
    says; entries of tables replace one by one, and lists of tables come before. Raises ConfigError that begins with
    ``<section>.<name>.<field>``.
    """
    profiles = dict(base)
    waiting = dict(rows)

    def build(name: str, below: tuple[str, ...]) -> None:
        values = dict(waiting.pop(name))
        where = f"{section}.{name}"
        parent = values.pop("extends", name)
        if not isinstance(parent, str):
            raise ConfigError(f"{where}.extends: takes the name of a profile")
        if parent in waiting and parent != name:
            build(parent, (*below, name))
        if parent in below:
            raise ConfigError(f"{where}.extends: {parent} builds on {name} itself")
        below_it = profiles.get(parent)
        if below_it is None and "extends" in rows[name]:
            close = did_you_mean(parent, {*base, *rows} - {name}) or "; turnwire profiles lists them"
            other = " but this one" if parent == name else ""
            raise ConfigError(f"{where}.extends: there is no profile {parent[:64]!r}{other}{close}")
        profiles[name] = _built(where, name, below_it, values, layer)

    for name in rows:
        if name in waiting:
            build(name, ())
    return profiles


def _built(where: str, name: str, parent: Profile | None, values: Mapping[str, object], layer: PolicyLayer) -> Profile:
    typed = {field_name: _typed(where, field_name, value) for field_name, value in values.items()}
    if parent is not None:
        profile = replace(parent, name=name, **{key: _joined(getattr(parent, key), new) for key, new in typed.items()})
    elif "wire" not in typed:
        raise ConfigError(f"{where}: say which wire it speaks, or which profile it extends")
    else:
        profile = Profile(name=name, **{"telemetry_name": name, **typed})
    layers = {**profile.layers, **dict.fromkeys(typed, layer)}
    profile = replace(profile, headers=_set(profile.headers), header_env=_set(profile.header_env), layers=layers)
    _check(where, profile)
    return profile


def _set(entries: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in entries.items() if value}


def _joined(below: Any, above: Any) -> Any:
    """What a field is where a row says ``above`` and the one it builds on ``below``."""
    if isinstance(below, Mapping):
        return {**below, **above}
    if isinstance(below, tuple) and any(isinstance(item, ModelLimitRow | ErrorRule) for item in (*below, *above)):
        return (*above, *(item for item in below if item not in above))
    return above


def _typed(where: str, name: str, value: object) -> Any:
    hints = hints_of(Profile)
    if name not in Profile.settable():
        close = did_you_mean(name, Profile.settable())
        raise ConfigError(f"{where}.{name}: a provider profile has no such field{close}")
    return read_value(f"{where}.{name}", hints[name], value)


def _check(where: str, profile: Profile) -> None:
    # A provider's section has names of its own for these two.
    own = "api_" if where.startswith("providers.") else ""
    key_env, key_file = f"{own}key_env", f"{own}key_file"
    url = _PLACE.sub("x", profile.base_url)
    if profile.base_url.startswith("{"):  # the variable brings the scheme
        url = f"https://{url}"
    if "{" in url or (url and host_and_port(url) == ("", 0)):
        raise ConfigError(f"{where}.base_url: takes an http or https URL such as https://api.example.com/v1")
    if "@" in urlsplit(url).netloc:
        raise ConfigError(f"{where}.base_url: a URL must hold no user or password; use {key_env} or {key_file}")
    if profile.sign_in is not SignIn.KEY and (profile.key_env or profile.key_file):
        field_name = key_file if profile.key_file else key_env
        raise ConfigError(f'{where}.{field_name}: it signs in to {profile.sign_in}; a key needs sign_in = "key"')
    if not profile.auth_header:
        raise ConfigError(f"{where}.auth_header: takes the name of a header")
    if any("\r" in text or "\n" in text for pair in profile.headers.items() for text in pair):
        raise ConfigError(f"{where}.headers: a header cannot have line breaks")
    for field_name, table, secret in (
        ("headers", profile.headers, _SECRET_HEADERS),
        ("query", profile.query, _SECRET_PARAMETERS),
    ):
        if found := sorted(key for key in table if key.lower() in secret):
            raise ConfigError(
                f"{where}.{field_name}.{found[0]}: a key does not belong here; use {key_env} or header_env"
            )
    variables = {"base_url_env": profile.base_url_env, key_env: profile.key_env}
    variables |= {f"header_env.{header}": variable for header, variable in profile.header_env.items()}
    for field_name, variable in variables.items():
        if variable and not _VARIABLE.fullmatch(variable):
            raise ConfigError(f"{where}.{field_name}: takes the name of an environment variable, not what is in it")


def profile_toml(profile: Profile) -> str:
    """The whole row as a table of a configuration file; reading it gives an equal profile."""
    lines = [f"{name} = {as_toml(getattr(profile, name))}" for name in Profile.settable()]
    return "\n".join([f"[profiles.{profile.name}]", *lines, ""])
