"""The shape of the configuration, section by section. Pure data: it opens no file, and an unknown key is an error.

Policy sections are read through the table of leaves, so that a new leaf needs no line here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from types import NoneType
from typing import Annotated, Literal, cast, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    ValidationInfo,
    field_validator,
    model_validator,
)

from turnwired.config.address import ListenAddress, parse_listen
from turnwired.config.hooks import HooksConfig
from turnwired.config.http import HttpConfig
from turnwired.config.identity import AccessConfig, AnonymousConfig, CallerConfig, check_callers
from turnwired.config.words import Id, Variable, located
from turnwired.domain.model import GenerationOptions, Thinking, ThinkingMode
from turnwired.domain.policy import Policy
from turnwired.policy.leaves import policy_of
from turnwired.policy.options import option_violations
from turnwired.policy.validate import PolicyViolation, ceiling_violations, read_policy, violations

MEMORY = "memory"
"""The value of ``store.path`` that keeps everything in memory."""

SECRET_KEYS = frozenset({"api_key", "apikey", "key", "token", "secret", "password", "authorization"})
"""Keys that people try to write a secret into."""

NO_SECRETS = (
    "a secret does not belong in the configuration; set api_key_env to the name of an environment"
    " variable, or api_key_file to the path of a file that holds it"
)

_ATTRIBUTE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def _policy_reader(check: Callable[[Policy], list[PolicyViolation]]) -> Callable[[object], Policy]:
    def read(data: object) -> Policy:
        if isinstance(data, Policy):
            return data
        if not isinstance(data, Mapping):
            raise ValueError("takes a table such as {loop = {max_steps = 10}}")  # noqa: TRY004 - pydantic's protocol
        values, found = read_policy(cast(Mapping[str, object], data))
        policy = policy_of(values)
        for violation in (*found, *check(policy)):
            raise located(violation.field, violation.description)
        return policy

    return read


PolicySection = Annotated[InstanceOf[Policy], BeforeValidator(_policy_reader(violations))]
CeilingSection = Annotated[InstanceOf[Policy], BeforeValidator(_policy_reader(ceiling_violations))]


class _Section(BaseModel):
    """What all sections share."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ServerConfig(_Section):
    """The gRPC server.

    ``grace_seconds``: how long runs in flight may go on after SIGTERM before they are cancelled. ``heartbeat_seconds``:
    after so much silence an empty frame is sent on a stream. ``tool_host_addresses``: patterns of addresses beyond this
    machine at which tool hosts may register.
    """

    insecure_listen: bool = False
    listen: str = "127.0.0.1:7443"
    grace_seconds: float = Field(default=10.0, ge=0, le=3600)
    max_active_runs: int = Field(default=2000, ge=1, le=1_000_000)
    max_run_depth: int = Field(default=4, ge=0, le=100)
    heartbeat_seconds: float = Field(default=15.0, ge=1, le=600)
    reflection: bool = True
    allow_tool_host_registration: bool = False
    tool_host_addresses: tuple[Annotated[str, Field(min_length=1)], ...] = ()

    @field_validator("listen")
    @classmethod
    def _check_listen(cls, value: str, info: ValidationInfo) -> str:
        address = parse_listen(value)
        if not address.is_local and not info.data.get("insecure_listen", False):
            raise ValueError(
                f"{value} can be reached from other machines, and this version has no TLS; listen on 127.0.0.1, or set"
                " server.insecure_listen = true behind a proxy that has it"
            )
        return value

    @model_validator(mode="after")
    def _check_tool_hosts(self) -> ServerConfig:
        if self.tool_host_addresses and not self.allow_tool_host_registration:
            raise located("tool_host_addresses", "counts with allow_tool_host_registration = true only")
        return self

    @property
    def address(self) -> ListenAddress:
        """``listen``, taken apart."""
        return parse_listen(self.listen)


class StoreConfig(_Section):
    """Where runs and sessions are kept: the path of an SQLite database, or ``memory``."""

    path: str = Field(default="turnwire.db", min_length=1)

    @field_validator("path")
    @classmethod
    def _check_path(cls, value: str) -> str:
        # A database of that name would be kept for durable, and runs that wait left to a start that finds none of them.
        if value != MEMORY and value.strip(": ").lower() == MEMORY:
            raise ValueError(f'{value} is no path of a database; did you mean "{MEMORY}"?')
        return value


class TelemetryConfig(_Section):
    """Where traces and metrics go. None: the standard OTEL_* variables decide, and without them nothing is sent."""

    otlp_endpoint: str | None = None

    @field_validator("otlp_endpoint")
    @classmethod
    def _check_endpoint(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("takes a URL such as http://127.0.0.1:4317")
        return value


MAX_PRICE = Decimal(10**9)
"""Of money per million tokens or per millisecond: what is more is a slip of the pen, and no sum could hold it."""


class PriceConfig(_Section):
    """What one model costs: money per million tokens, per millisecond of a call on own hardware (``gpu_ms``), or both.

    A cache rate that is not set is the input rate, a reasoning rate the output rate.
    """

    input_per_million: Decimal | None = Field(default=None, ge=0, le=MAX_PRICE)
    output_per_million: Decimal | None = Field(default=None, ge=0, le=MAX_PRICE)
    cache_read_per_million: Decimal | None = Field(default=None, ge=0, le=MAX_PRICE)
    cache_write_per_million: Decimal | None = Field(default=None, ge=0, le=MAX_PRICE)
    reasoning_per_million: Decimal | None = Field(default=None, ge=0, le=MAX_PRICE)
    gpu_ms: Decimal | None = Field(default=None, ge=0, le=MAX_PRICE)
    currency: str = Field(default="USD", pattern="^[A-Z]{3}$")

    @model_validator(mode="after")
    def _check_what_is_priced(self) -> PriceConfig:
        missing = [name for name in ("input_per_million", "output_per_million") if getattr(self, name) is None]
        if self.gpu_ms is None and missing:
            raise located(missing[0], "is required, unless gpu_ms prices the time of a call")
        return self


class ProviderConfig(_Section):
    """One model provider. ``profile`` None is the provider's own name; the first of ``models`` is its default.

    The key is read from a variable or a file when it is needed and is nowhere in here. ``list_prices``: the public
    list of prices counts for models that ``prices`` does not name. Every other key is a field of the profile, which the
    providers know and check: see ``profile_fields``.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    profile: Id | None = None
    base_url: str | None = None
    api_key_env: Variable | None = None
    api_key_file: str | None = None
    models: tuple[str, ...] = ()
    tool_calling: Literal["native", "json_schema"] | None = None
    prices: Mapping[str, PriceConfig] = Field(default_factory=dict[str, PriceConfig])
    list_prices: bool = True

    @field_validator("base_url")
    @classmethod
    def _check_base_url(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("takes a URL such as https://api.example.com/v1")
        if value is not None and "@" in value.split("/")[2]:
            raise ValueError("a URL must hold no user or password; use api_key_env or api_key_file")
        return value

    @property
    def profile_fields(self) -> Mapping[str, object]:
        """Fields of the profile that this provider has in another way, as they were written."""
        return self.model_extra or {}

    @model_validator(mode="after")
    def _check_key(self) -> ProviderConfig:
        for key in self.profile_fields:
            if key.lower().replace("-", "_") in SECRET_KEYS:
                raise located(key, NO_SECRETS)
        for own, field_name in (("api_key_env", "key_env"), ("api_key_file", "key_file")):
            if field_name in self.profile_fields:
                raise located(field_name, f"is called {own} here")
        if self.api_key_env is not None and self.api_key_file is not None:
            raise located("api_key_file", "the key comes from api_key_env already; set one of the two")
        return self


class ToolSelectionConfig(_Section):
    """Which tools an agent sees, by routed name; ``*`` matches any run of characters, no include means all."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class ThinkingConfig(_Section):
    """Whether the model reasons before it answers. ``budget_tokens`` only with ``enabled``."""

    mode: Literal["adaptive", "enabled", "disabled"] | None = None
    budget_tokens: int | None = None


class OptionsConfig(_Section):
    """How an agent's model generates. What is not set is the provider's default."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    stop_sequences: tuple[str, ...] = ()
    thinking: ThinkingConfig = Field(default_factory=ThinkingConfig)

    @property
    def options(self) -> GenerationOptions:
        """The same in the words of the domain."""
        mode = ThinkingMode.UNSPECIFIED if self.thinking.mode is None else ThinkingMode(self.thinking.mode.upper())
        plain = self.model_dump(exclude={"thinking"})
        return GenerationOptions(**plain, thinking=Thinking(mode, self.thinking.budget_tokens))

    @model_validator(mode="after")
    def _check_ranges(self) -> OptionsConfig:
        for violation in option_violations(self.options, ""):
            raise located(violation.field.removeprefix("."), violation.description)
        return self


def _one_block(value: object) -> object:
    return (value,) if isinstance(value, str) else value


class AgentConfig(_Section):
    """One agent. ``model`` is ``provider/model``; None is the first model of the first provider that names one.

    ``agents`` are those that it may call as tools. ``run_as``: the principal as whom it calls tools; None: the caller.
    """

    instructions: Annotated[tuple[str, ...], BeforeValidator(_one_block)] = ()
    model: str | None = None
    policy: PolicySection = Field(default_factory=Policy)
    tools: ToolSelectionConfig = Field(default_factory=ToolSelectionConfig)
    options: OptionsConfig = Field(default_factory=OptionsConfig)
    description: str = ""
    agents: tuple[str, ...] = ()
    run_as: str | None = None

    @field_validator("model")
    @classmethod
    def _check_model(cls, value: str | None) -> str | None:
        provider, _, model = (value or "").partition("/")
        if value is not None and not (provider and model):
            raise ValueError('takes "provider/model", such as "openai/gpt-5.4-mini"')
        return value


def _check_attribute(value: str) -> str:
    if not _ATTRIBUTE.fullmatch(value):
        raise ValueError('takes "module:attribute", such as "my_package.tools:search"')
    return value


class PollingConfig(_Section):
    """Tools, by routed name, that may be called again and again: no repetition of theirs counts as going in circles."""

    names: tuple[str, ...] = ()


class ToolsConfig(_Section):
    """Python tools: those named here, and those that installed packages offer under ``turnwired.tools``.

    ``collisions``: who has a name that several sources claim. Of more than ``find_above`` tools (0: never) a model is
    shown those that match ``pinned``, or that the agent names without a ``*``, and a tool to find the others.
    """

    collisions: Literal["priority", "namespace", "reject"] = "priority"
    find_above: int = Field(default=100, ge=0)
    pinned: tuple[str, ...] = ()
    python: tuple[Annotated[str, AfterValidator(_check_attribute)], ...] = ()
    entry_points: bool = True
    polling: PollingConfig = Field(default_factory=PollingConfig)


class McpConfig(_Section):
    """MCP servers that operators add while the service runs: of which kinds they may. None by default: a child process
    may do what the service may, and an address may be one that only the service reaches.
    """

    allow_add: tuple[Literal["stdio", "streamable_http"], ...] = ()


class CompletionConfig(_Section):
    """Completion hooks by name: functions that say whether a run without an answer asks for one, and with which words.

    Those that installed packages offer under ``turnwired.completion`` are there besides.
    """

    hooks: Mapping[Id, Annotated[str, AfterValidator(_check_attribute)]] = Field(default_factory=dict[str, str])


class Config(_Section):
    """The whole configuration. Of ``profiles`` and the sources of tools the adapters own the shape."""

    server: ServerConfig = Field(default_factory=ServerConfig)
    store: StoreConfig = Field(default_factory=StoreConfig)
    telemetry: TelemetryConfig = Field(default_factory=TelemetryConfig)
    profiles: Mapping[Id, Mapping[str, object]] = Field(default_factory=dict[str, Mapping[str, object]])
    providers: Mapping[Id, ProviderConfig]
    agents: Mapping[Id, AgentConfig]
    tools: ToolsConfig = Field(default_factory=ToolsConfig)
    completion: CompletionConfig = Field(default_factory=CompletionConfig)
    hooks: HooksConfig = Field(default_factory=HooksConfig)
    mcp: McpConfig = Field(default_factory=McpConfig)
    mcp_servers: Mapping[Id, Mapping[str, object]] = Field(default_factory=dict[str, Mapping[str, object]])
    grpc_services: Mapping[Id, Mapping[str, object]] = Field(default_factory=dict[str, Mapping[str, object]])
    operator: Mapping[str, object] = Field(default_factory=dict[str, object])
    tool_hosts: Mapping[Id, Mapping[str, object]] = Field(default_factory=dict[str, Mapping[str, object]])
    callers: Annotated[tuple[CallerConfig, ...], Field(max_length=1000)] = ()
    anonymous: AnonymousConfig | None = None
    http: HttpConfig = Field(default_factory=HttpConfig)
    access: Annotated[tuple[AccessConfig, ...], Field(max_length=1000)] = ()
    policy: PolicySection = Field(default_factory=Policy)
    ceiling: CeilingSection = Field(default_factory=Policy)
    source: str = Field(default="built-in", exclude=True)
    """The file that was read, as messages name it. Not a key: ``load_config`` sets it."""

    @model_validator(mode="after")
    def _check_agents(self) -> Config:
        for agent_id, agent in self.agents.items():
            for other in agent.agents:
                if other not in self.agents:
                    known = ", ".join(self.agents)
                    raise located(f"agents.{agent_id}.agents", f'there is no agent "{other}"; configured: {known}')
        return self

    @model_validator(mode="after")
    def _check_callers(self) -> Config:
        check_callers(self.callers, self.anonymous)
        known = {caller.principal for caller in self.callers}
        for agent_id, agent in self.agents.items():
            if agent.run_as is not None and agent.run_as not in known:
                raise located(f"agents.{agent_id}.run_as", f'no entry of callers has the principal "{agent.run_as}"')
        return self

    @model_validator(mode="after")
    def _check_models(self) -> Config:
        known = ", ".join(self.providers) or "none"
        for agent_id, agent in self.agents.items():
            path = f"agents.{agent_id}.model"
            provider = (agent.model or "").partition("/")[0]
            if agent.model is None and self.default_model() is None:
                raise located(path, f"is required, because no provider names its models; {self._where_to_name_them()}")
            if agent.model is not None and provider not in self.providers:
                raise located(path, f'there is no provider "{provider}"; configured: {known}')
        return self

    def _where_to_name_them(self) -> str:
        name = next(iter(self.providers), "NAME")
        return f'add models = ["..."] to providers.{name}'

    def default_model(self) -> str | None:
        """``provider/model`` of agents that name none: the first model of the first provider that has any."""
        for name, provider in self.providers.items():
            if provider.models:
                return f"{name}/{provider.models[0]}"
        return None


def key_paths(section: type[BaseModel] = Config, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every key that the file may hold, as a path; ``*`` stands for a name that the user chooses."""
    for name, member in section.model_fields.items():
        if member.exclude:
            continue
        path = (*prefix, name)
        arguments = get_args(member.annotation)
        below = [
            each for each in (member.annotation, *arguments) if isinstance(each, type) and issubclass(each, BaseModel)
        ]
        if not below:
            yield path
        elif not arguments or NoneType in arguments:
            yield from key_paths(below[0], path)
        else:  # a table of them by name, or a list
            yield from key_paths(below[0], (*path, "*"))
