"""The composition root: from a configuration to a running engine, and to a service around it.

The only module that knows every adapter. ``assembled`` is the engine alone, for a program that runs turns in its own
process; ``running`` puts the server in front of the same engine.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio
from pydantic import BaseModel, ValidationError

from turnwired import __version__
from turnwired.callers import Callers, callers_of
from turnwired.config.load import load_config, read_config
from turnwired.config.model import MEMORY, Config, ProviderConfig
from turnwired.config.translate import agents_of, ceiling_of, default_model_of, policy_layer_of, rate_card_of
from turnwired.domain.errors import ConfigError
from turnwired.domain.faults import where_raised
from turnwired.domain.mcp import McpTransport
from turnwired.domain.model import ModelSelection
from turnwired.domain.run import OPERATOR_ROLE, Caller
from turnwired.domain.tool import ToolSource
from turnwired.domain.usage import Cost, Usage
from turnwired.engine.completion_loading import completion_hooks
from turnwired.engine.hook_loading import entry_point_hooks, load_hooks
from turnwired.engine.hooks import Hook
from turnwired.engine.ports import EngineConfig, PriceOf, Wiring
from turnwired.engine.service import Engine
from turnwired.loading import load
from turnwired.policy.ratecard import ListedProvider, RateCard
from turnwired.providers.build import known_profiles, profile_of, start
from turnwired.providers.overview import ProfileSummary, summary
from turnwired.providers.port import ModelProvider
from turnwired.providers.profiles import Profile, profile_toml, shipped
from turnwired.rpc.agent_service import AgentService
from turnwired.rpc.auth import Gate
from turnwired.rpc.hook_apps import hook_apps
from turnwired.rpc.hook_client import HookClient
from turnwired.rpc.interceptor import TelemetryInterceptor
from turnwired.rpc.mcp_server_service import McpServerService
from turnwired.rpc.server import Listen, RpcServer
from turnwired.rpc.server_service import HasPrice, ServerService
from turnwired.rpc.session_service import SessionService
from turnwired.rpc.tool_host_service import ToolHostRegistryService
from turnwired.rpc.turn_service import TurnService
from turnwired.store.memory import MemoryStore
from turnwired.store.port import Store
from turnwired.store.sqlite import SqliteStore
from turnwired.telemetry.opening import open_telemetry
from turnwired.telemetry.port import McpTelemetry, Telemetry
from turnwired.telemetry.settings import settings_from_environment
from turnwired.tools.access import Access, AccessRule
from turnwired.tools.catalog import CollisionPolicy
from turnwired.tools.discovery import FirstDiscovery
from turnwired.tools.grpc.config import GrpcService
from turnwired.tools.grpc.endpoint import Endpoint
from turnwired.tools.grpc.toolset import GrpcToolset
from turnwired.tools.host.config import ToolHostConfig
from turnwired.tools.host.registrations import Admission, Registrations
from turnwired.tools.host.toolset import HostToolset
from turnwired.tools.mcp.config import McpServer, server_kind
from turnwired.tools.mcp.servers import McpServerPool, Member
from turnwired.tools.mcp.toolset import McpToolset
from turnwired.tools.options import SourceOptions, split_options
from turnwired.tools.output import compile_output
from turnwired.tools.port import Toolset, is_toolset
from turnwired.tools.python import PythonToolset, entry_point_functions, load_functions
from turnwired.tools.registry import Registry, Source

if TYPE_CHECKING:
    from turnwired.http.server import HttpServer

logger = logging.getLogger(__name__)

MAX_REQUEST_BYTES = 16 << 20
DEFAULT_AGENT = "default"
MOST_WARMED = 1000

S = TypeVar("S", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Service:
    """A service that is up."""

    engine: Engine
    rpc: RpcServer
    address: str
    grace_seconds: float
    warm: asyncio.Event
    """Set when what loads in the background is there: prices, SDKs, the tools of every source that answers."""
    discovery: FirstDiscovery
    """Goes on beside the service. Whoever wants the first run to have the tools of slow sources waits for it."""
    http: HttpServer | None = None

    async def drain(self) -> None:
        """Refuse new runs, let those in flight finish within the grace period, cancel and store the rest."""
        await self.rpc.refuse()
        async with _beside(self.engine.stop(self.grace_seconds), to_its_end=True):
            if self.http is not None:
                await self.http.stop(self.grace_seconds)


@dataclass(frozen=True, slots=True)
class Additions:
    """What a program hands over beside its configuration. All of it is closed with the engine.

    ``tools`` are Python functions, and sources under their tools' own names, behind the functions of the configuration;
    ``sources`` come last. ``providers`` stand in for
    those that the configuration calls by the same name.
    """

    tools: Sequence[object] = ()
    sources: Sequence[Source] = ()
    providers: Mapping[str, ModelProvider] = field(default_factory=dict[str, ModelProvider])


@dataclass(frozen=True, slots=True)
class Assembly:
    """An engine that is up, and what a server in front of it has to know. ``warm``, ``discovery`` as in ``Service``."""

    engine: Engine
    telemetry: Telemetry
    card: RateCard
    warm: asyncio.Event
    discovery: FirstDiscovery
    callers: Callers
    tool_hosts: Registrations
    mcp_servers: McpServerPool


def configured(given: Path | Mapping[str, object] | None, environ: Mapping[str, str]) -> Config:
    """The configuration of a file, of data in the shape of one, or of what is found without being told.

    Python tools and hooks may stand in modules beside the file; installed packages come first. Raises ConfigError.
    """
    offered = offered_models()
    if isinstance(given, Mapping):
        config = read_config(given, environ, offered)
    else:
        config = load_config(given, environ, offered=offered)
    directory = str(Path(config.source).resolve().parent)
    by_name = (config.tools.python, config.hooks.python, config.completion.hooks)
    if any(by_name) and directory not in sys.path:
        sys.path.append(directory)
    return config


@asynccontextmanager
async def assembled(
    config: Config, environ: Mapping[str, str] = os.environ, additions: Additions | None = None
) -> AsyncIterator[Assembly]:
    """The engine with all that it is wired with, from the first opened file to the last stored row.

    It opens no socket of its own. Raises ConfigError with one clear line.
    """
    added = additions or Additions()
    callers = callers_of(config.callers, config.anonymous, environ, config.source)
    async with AsyncExitStack() as stack:
        telemetry = _telemetry(config, environ)
        stack.callback(telemetry.aclose)
        store = _store(config)
        await store.start()
        stack.push_async_callback(store.aclose)
        providers = _providers(config, environ, added.providers)
        for provider in providers.values():
            stack.push_async_callback(provider.aclose)
        _tell_what_is_missing(providers)
        members: list[Member] = []
        hosts = _tool_hosts(config)
        sources = [
            *_sources(config, telemetry.mcp, added, members),
            *(source for _, source in hosts),
            *added.sources,
        ]
        registry = Registry(
            sources,
            collisions=CollisionPolicy(config.tools.collisions),
            find_above=config.tools.find_above,
            pinned=config.tools.pinned,
            access=_access(config),
        )
        await registry.start()
        stack.push_async_callback(registry.aclose)
        admission = Admission(config.server.allow_tool_host_registration, config.server.tool_host_addresses)
        registrations = Registrations(registry, admission, [toolset for toolset, _ in hosts])
        stack.push_async_callback(registrations.aclose)
        card = price_card(config, environ)
        warm = asyncio.Event()
        lazy = [member.toolset.set_id for member in members if member.config.lazy]
        discovery = FirstDiscovery(registry, lazy)
        await stack.enter_async_context(_beside(_warm(card, config, registry, discovery, warm)))
        hooks = _python_hooks(config)
        for app in hook_apps(config.hooks, environ, config.source):
            client = HookClient(app)
            stack.push_async_callback(client.aclose)
            hooks.append(client.hook())
        wiring = _wiring(config, providers, registry, store, telemetry, _pricing(card), hooks, callers)
        engine = await stack.enter_async_context(Engine(wiring))
        servers = _mcp_servers(config, registry, members, telemetry.mcp)
        yield Assembly(engine, telemetry, card, warm, discovery, callers, registrations, servers)


@asynccontextmanager
async def running(
    config: Config,
    environ: Mapping[str, str] = os.environ,
    own_token: str | None = None,
    additions: Additions | None = None,
) -> AsyncIterator[Service]:
    """The service from its first listening socket to its last stored row. Raises ConfigError with one clear line.

    ``own_token``: shows an operator, whoever else may call: for a server that a process starts for itself alone.
    """
    async with assembled(config, environ, additions) as assembly, AsyncExitStack() as stack:
        engine, callers = assembly.engine, assembly.callers
        if own_token is not None:
            callers = callers.also(own_token, Caller(principal="cli", roles=frozenset((OPERATOR_ROLE,))))
        rpc = RpcServer(
            Listen(config.server.listen, MAX_REQUEST_BYTES, config.server.reflection),
            TurnService(engine),
            ServerService(
                engine,
                _default_agent(config),
                default_model_of(config),
                MAX_REQUEST_BYTES,
                _price_finder(assembly.card),
                durable=config.store.path != MEMORY,
            ),
            [TelemetryInterceptor(assembly.telemetry.rpc)],
            sessions=SessionService(assembly.engine),
            agents=AgentService(assembly.engine),
            tool_hosts=ToolHostRegistryService(assembly.tool_hosts),
            mcp_servers=McpServerService(assembly.mcp_servers),
            gate=Gate(callers),
        )
        readiness = _Readiness(rpc)
        await rpc.start(ready=False)
        engine.on_store_change = readiness.store_changed
        stack.push_async_callback(rpc.stop, 1.0)
        await stack.enter_async_context(_beside(readiness.wait_for(assembly.discovery)))
        http = await _http(config, engine, callers, rpc)
        if http is not None:
            stack.push_async_callback(http.stop, 1.0)
        address, grace = _address(config, rpc.port), config.server.grace_seconds
        yield Service(engine, rpc, address, grace, assembly.warm, assembly.discovery, http)


async def _http(config: Config, engine: Engine, callers: Callers, rpc: RpcServer) -> HttpServer | None:
    if config.http.listen is None:
        return None
    await load("turnwired.http.server")
    if config.http.mcp:
        await load("turnwired.http.mcp_endpoint")  # the SDK of MCP takes a second to import
    if config.http.connect:
        await load("turnwired.http.connect_endpoint")
    from turnwired.http.server import HttpServer

    server = HttpServer(config.http, callers, engine.outside, rpc.here)
    await server.start()
    return server


@dataclass(slots=True)
class _Readiness:
    """What health watchers are told: ready while the store works, once each source has answered or had its time, and
    every required source has been there.
    """

    rpc: RpcServer
    complete: bool = False
    store_works: bool = True

    async def store_changed(self, works: bool) -> None:
        """The store stopped working, or works again."""
        self.store_works = works
        await self.rpc.serving(works=works and self.complete)

    async def wait_for(self, discovery: FirstDiscovery) -> None:
        """Be ready when the tools are known, as far as they can be."""
        await discovery.wait()
        await discovery.required_usable()
        self.complete = True
        await self.rpc.serving(works=self.store_works)


@asynccontextmanager
async def _beside(work: Coroutine[None, None, None], *, to_its_end: bool = False) -> AsyncIterator[None]:
    """Work that goes on beside the service and is cancelled with it, unless it is waited for ``to_its_end``.

    Not a task group: that would put what ends the service, a port in use for instance, into an exception group.
    """
    task = asyncio.create_task(work)
    try:
        yield
        if to_its_end:
            await asyncio.wait([task])
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (failure := task.exception()) is not None:
            logger.error("work beside the service failed: %s", where_raised(failure))


def _wiring(
    config: Config,
    providers: Mapping[str, ModelProvider],
    registry: Registry,
    store: Store,
    telemetry: Telemetry,
    price_of: PriceOf,
    hooks: Sequence[Hook],
    callers: Callers,
) -> Wiring:
    layer = policy_layer_of(config)
    return Wiring(
        config=EngineConfig(
            default_agent=_default_agent(config),
            max_active_runs=config.server.max_active_runs,
            max_run_depth=config.server.max_run_depth,
            heartbeat_seconds=config.server.heartbeat_seconds,
            leave_waiting=config.store.path != MEMORY,
            deployment_policy=layer.policy,
            deployment_ref=layer.ref,
            ceiling=ceiling_of(config),
            polling_tools=frozenset(config.tools.polling.names),
            principals=callers.roles,
            tenants=callers.tenants,
        ),
        agents=agents_of(config),
        providers=providers,
        default_model=default_model_of(config),
        registry=registry,
        store=store,
        telemetry=telemetry,
        price_of=price_of,
        hooks=tuple(hooks),
        compile_output=compile_output,
        completion_hooks=completion_hooks(config.completion.hooks),
    )


def _python_hooks(config: Config) -> list[Hook]:
    return [*load_hooks(config.hooks.python), *(entry_point_hooks() if config.hooks.entry_points else ())]


def _access(config: Config) -> Access:
    return Access(tuple(AccessRule(frozenset(rule.roles), rule.allow, rule.deny) for rule in config.access))


async def _warm(
    card: RateCard, config: Config, registry: Registry, discovery: FirstDiscovery, warm: asyncio.Event
) -> None:
    """Load the prices that the configured agents need, and tools but those of lazy sources, ahead of runs."""
    models = {(agent.model.provider, agent.model.model) for agent in agents_of(config).values() if agent.model}
    prices = asyncio.create_task(anyio.to_thread.run_sync(card.warm, models, abandon_on_cancel=True))
    try:
        await discovery.run()
        await registry.prepare()
        await prices
    finally:
        prices.cancel()
    warm.set()


def _pricing(card: RateCard) -> PriceOf:
    warmed: set[tuple[str, str]] = set()

    async def price_of(model: ModelSelection) -> Callable[[Usage, int], Cost | None]:
        key = (model.provider, model.model)
        if key not in warmed and len(warmed) < MOST_WARMED:
            warmed.add(key)
            await anyio.to_thread.run_sync(card.warm, [key])  # the public list takes up to a second to load
        return card.price_of(*key, datetime.now(UTC))

    return price_of


def _price_finder(card: RateCard) -> HasPrice:
    async def has_price(model: ModelSelection) -> bool:
        return await anyio.to_thread.run_sync(card.has_price, model.provider, model.model)

    return has_price


def _default_agent(config: Config) -> str:
    return DEFAULT_AGENT if DEFAULT_AGENT in config.agents else next(iter(config.agents))


def _address(config: Config, port: int) -> str:
    listen = config.server.address
    if listen.unix_path:
        return f"unix:{listen.unix_path}"
    host = f"[{listen.host}]" if ":" in listen.host else listen.host
    return f"{host}:{port}"


def _store(config: Config) -> Store:
    return MemoryStore() if config.store.path == MEMORY else SqliteStore(Path(config.store.path))


def _telemetry(config: Config, environ: Mapping[str, str]) -> Telemetry:
    return open_telemetry(
        settings_from_environment(environ, service_version=__version__, endpoint=config.telemetry.otlp_endpoint)
    )


def _providers(
    config: Config, environ: Mapping[str, str], added: Mapping[str, ModelProvider]
) -> dict[str, ModelProvider]:
    profiles = provider_profiles(config).items()
    try:
        return {name: added[name] if name in added else start(profile, environ) for name, profile in profiles}
    except ConfigError as error:
        raise ConfigError(f"{config.source}: {error}") from None


def offered_models() -> dict[str, tuple[str, ...]]:
    """Models of the profiles of this release, by profile: what ``load_config`` takes for providers that name none."""
    return {name: profile.models for name, profile in shipped().items()}


def provider_profiles(config: Config) -> dict[str, Profile]:
    """The profile of each configured provider, with all that the configuration says over it. Raises ConfigError."""
    try:
        known = known_profiles(config.profiles)
        return {name: _profile(name, provider, known) for name, provider in config.providers.items()}
    except ConfigError as error:
        raise ConfigError(f"{config.source}: {error}") from None


def _profile(name: str, config: ProviderConfig, known: Mapping[str, Profile]) -> Profile:
    return profile_of(
        name,
        profile=config.profile or name,
        known=known,
        base_url=config.base_url,
        key_env=config.api_key_env,
        key_file=config.api_key_file,
        models=config.models,
        tool_calling=config.tool_calling,
        fields=config.profile_fields,
    )


def profile_summaries(config: Config, environ: Mapping[str, str]) -> list[ProfileSummary]:
    """All profiles, those of the configured providers with what the configuration says. Raises ConfigError."""
    mine = provider_profiles(config)
    known = known_profiles(config.profiles)
    return [summary(profile, environ, configured=profile.name in mine) for profile in {**known, **mine}.values()]


def profile_text(config: Config, name: str) -> str | None:
    """A configured provider's or else a profile's row in force, as TOML; None when there is none of the name."""
    profile = {**known_profiles(config.profiles), **provider_profiles(config)}.get(name)
    return None if profile is None else profile_toml(profile)


def price_card(config: Config, environ: Mapping[str, str]) -> RateCard:
    """What the models of the configured providers cost."""
    return rate_card_of(config, {name: _listed(item, environ) for name, item in provider_profiles(config).items()})


def _listed(profile: Profile, environ: Mapping[str, str]) -> ListedProvider:
    """By the list's own id, unless a variable leads to another server than the profile's."""
    address = profile.address(environ)
    moved = profile.address({}) not in ("", address)
    return ListedProvider(profile.price_list, None if profile.price_list and not moved else address or None)


def _tell_what_is_missing(providers: Mapping[str, ModelProvider]) -> None:
    for provider in providers.values():
        if not provider.info.configured:
            logger.warning("%s", provider.info.hint)


def _sources(config: Config, telemetry: McpTelemetry, added: Additions, members: list[Member]) -> list[Source]:
    """All sources in order. MCP servers are put into ``members`` besides."""
    functions: list[object] = [*load_functions(config.tools.python)]
    if config.tools.entry_points:
        found, failures = entry_point_functions()
        functions += found
        for failure in failures:
            logger.warning("tool entry point left out: %s", failure.message)
    functions += [item for item in added.tools if not is_toolset(item)]
    toolsets = [item for item in added.tools if is_toolset(item)]
    sources = [Source(PythonToolset(functions))] if functions else []
    sources += [Source(toolset) for toolset in toolsets]
    for server_id, data in config.mcp_servers.items():
        where = f"{config.source}: mcp_servers.{server_id}"
        options, own = _split(data, where)
        server = _read(server_kind(own), own, where)
        toolset = McpToolset(server_id, server, telemetry)
        members.append(Member(toolset, options.priority))
        sources.append(_source(toolset, server, options, ToolSource.MCP))
    for service_id, data in config.grpc_services.items():
        where = f"{config.source}: grpc_services.{service_id}"
        options, own = _split(data, where)
        service = _read(GrpcService, own, where)
        sources.append(_source(GrpcToolset(service_id, service), service, options, ToolSource.GRPC))
    if config.operator:
        sources.append(Source(_operator_tools(config), kind=ToolSource.OPERATOR))
    return sources


def _tool_hosts(config: Config) -> list[tuple[HostToolset, Source]]:
    """The apps of the configuration, and each as a source."""
    found: list[tuple[HostToolset, Source]] = []
    for host_id, data in config.tool_hosts.items():
        where = f"{config.source}: tool_hosts.{host_id}"
        options, own = _split(data, where)
        host = _read(ToolHostConfig, own, where)
        toolset = HostToolset(host_id, host)
        found.append((toolset, _source(toolset, host, options, ToolSource.HOST)))
    return found


def _mcp_servers(
    config: Config, registry: Registry, members: Sequence[Member], telemetry: McpTelemetry
) -> McpServerPool:
    async def enter(toolset: McpToolset) -> None:
        await registry.add(_source(toolset, toolset.config, SourceOptions(), ToolSource.MCP))

    return McpServerPool(
        members,
        telemetry,
        frozenset(McpTransport(kind.upper()) for kind in config.mcp.allow_add),
        lambda: registry.set_ids,  # with the apps that have registered since
        enter,
        registry.remove,
    )


def _source(toolset: Toolset, section: McpServer | Endpoint, options: SourceOptions, kind: ToolSource) -> Source:
    return Source(
        options.decorated(toolset),
        namespace=section.namespace or toolset.set_id,
        include=section.include,
        exclude=section.exclude,
        required=section.required,
        lazy=isinstance(section, McpServer) and section.lazy,
        priority=options.priority,
        kind=kind,
    )


def _split(data: Mapping[str, object], where: str) -> tuple[SourceOptions, Mapping[str, object]]:
    common, own = split_options(data)
    return _read(SourceOptions, common, where), own


def _operator_tools(config: Config) -> Toolset:
    """Imported only where there are any: with what they need they take a quarter of a second."""
    from turnwired.tools.operator.config import OperatorConfig
    from turnwired.tools.operator.toolset import OperatorToolset

    return OperatorToolset(_read(OperatorConfig, config.operator, f"{config.source}: operator"))


def _read(section: type[S], data: Mapping[str, object], where: str) -> S:
    """A section whose shape is its adapter's. Raises ConfigError, which repeats no value: it could be a key."""
    try:
        return section.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join((where, *map(str, first["loc"])))
        raise ConfigError(f"{path}: {first['msg'].removeprefix('Value error, ')}") from None
