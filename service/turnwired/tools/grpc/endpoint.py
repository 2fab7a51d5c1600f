"""Where a gRPC server is that Turnwire calls, and how it is called: address, TLS, token. Knows no gRPC."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from turnwired.domain.errors import ConfigError

MAX_TOKEN_BYTES: Final = 64 * 1024
_ADDRESS: Final = re.compile(
    r"(?:unix:.+|(?:dns:///)?(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5}))"
)
_VARIABLE: Final = r"^[A-Za-z_][A-Za-z0-9_]*$"

Seconds = Annotated[float, Field(gt=0, le=3600)]
Pattern = Annotated[str, Field(min_length=1)]


class Endpoint(BaseModel):
    """What the sections of all sources behind gRPC have. Times are in seconds, sizes in bytes.

    ``include`` and ``exclude`` are patterns of the tools' own names. ``namespace`` goes in front of them, the source's
    id by default. ``tls`` is on unless the address is of this machine or ``insecure`` is set. The token is read anew
    for each call and sent as ``authorization: Bearer``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: str
    tls: bool | None = None
    insecure: bool = False
    ca_file: Path | None = None
    token_env: Annotated[str, Field(pattern=_VARIABLE)] | None = None
    token_file: Path | None = None
    include: tuple[Pattern, ...] = ()
    exclude: tuple[Pattern, ...] = ()
    namespace: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,32}$")] | None = None
    required: bool = False
    discovery_timeout: Seconds = 8.0
    refresh_interval: Seconds = 300.0
    max_message_bytes: Annotated[int, Field(ge=1024, le=256 * 1024 * 1024)] = 4 * 1024 * 1024

    @field_validator("address")
    @classmethod
    def _is_address(cls, value: str) -> str:
        found = _ADDRESS.fullmatch(value)
        if found is None or (found["port"] is not None and not 0 < int(found["port"]) < 65536):
            raise ValueError('takes "host:port", "[::1]:port", "dns:///host:port" or "unix:/path"')
        return value

    @model_validator(mode="after")
    def _is_safe(self) -> Self:
        if self.insecure and self.tls:
            raise ValueError("tls and insecure exclude each other")
        if self.tls is False and not self.insecure and not self.is_local:
            raise ValueError(f"{self.address} is not of this machine; calls without TLS need insecure = true")
        if self.ca_file is not None and not self.secure:
            raise ValueError("ca_file has no use without tls")
        if self.token_env is not None and self.token_file is not None:
            raise ValueError("token_env and token_file exclude each other")
        return self

    @property
    def is_local(self) -> bool:
        """Whether only this machine can be meant."""
        found = _ADDRESS.fullmatch(self.address)
        host = "" if found is None or found["host"] is None else found["host"].strip("[]")
        if not host or host == "localhost":
            return True
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    @property
    def secure(self) -> bool:
        """Whether the connection is TLS."""
        return self.tls if self.tls is not None else not (self.insecure or self.is_local)

    def token(self, environ: Mapping[str, str] | None = None) -> str:
        """The token now, empty when none is configured. Raises ConfigError when it is configured and not there."""
        if self.token_env is not None:
            token = (os.environ if environ is None else environ).get(self.token_env, "").strip()
            where = f"environment variable {self.token_env}"
        elif self.token_file is not None:
            where = f"token file {self.token_file}"
            try:
                with self.token_file.open(encoding="ascii") as file:
                    token = file.read(MAX_TOKEN_BYTES).strip()
            except (OSError, UnicodeDecodeError):
                raise ConfigError(f"{where} cannot be read") from None
        else:
            return ""
        if not token or not token.isascii() or not token.isprintable():
            raise ConfigError(f"{where} holds no token")
        return token
