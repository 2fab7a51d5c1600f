"""The apps that the configuration wants told over gRPC, with their certificates and where their tokens come from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import anyio.to_thread

from turnwired.config.hooks import GrpcHookConfig, HooksConfig
from turnwired.domain.errors import ConfigError
from turnwired.rpc.hook_client import HookApp

MAX_TOKEN_BYTES: Final = 64 * 1024


def hook_apps(config: HooksConfig, environ: Mapping[str, str], source: str) -> list[HookApp]:
    """The apps of the configuration that ``source`` names. Raises ConfigError for what is not there at the start."""
    return [_app(name, app, environ, f"{source}: hooks.grpc.{name}") for name, app in config.grpc.items()]


def _app(name: str, config: GrpcHookConfig, environ: Mapping[str, str], where: str) -> HookApp:
    return HookApp(
        name=name,
        address=config.address,
        kinds=None if config.events is None else frozenset(config.events),
        deadline=config.deadline_seconds,
        tls=config.tls,
        root_certificates=None if config.ca_file is None else _certificates(config.ca_file, where),
        token=_token(config, environ, where),
    )


def _certificates(path: str, where: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        reason = (error.strerror or "unknown error").lower()
        raise ConfigError(f"{where}.ca_file: {path} cannot be read: {reason}") from None


def _token(config: GrpcHookConfig, environ: Mapping[str, str], where: str) -> Callable[[], Awaitable[str]] | None:
    """A file is read anew for every call, so that a token can be changed; it need not be there at the start."""
    if config.token_file is not None:
        path = Path(config.token_file)

        async def read() -> str:
            return await anyio.to_thread.run_sync(_read, path)

        return read
    if config.token_env is None:
        return None
    token = environ.get(config.token_env, "")
    if not token.strip():
        raise ConfigError(f"{where}.token_env: the environment variable {config.token_env} is not set")

    async def give() -> str:
        return token

    return give


def _read(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.read(MAX_TOKEN_BYTES)
