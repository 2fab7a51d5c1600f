"""The sections of hooks: Python objects, and apps that are told over gRPC. Pure data, as the other sections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from turnwired.config.address import parse_listen
from turnwired.config.words import Id, Variable
from turnwired.domain.hook_kind import HookKind


class GrpcHookConfig(BaseModel):
    """An app that implements HookService, and how it is called.

    ``events``: kinds that it is told of; None: all, with those of later versions; empty: ends of runs only. The token
    is read from a variable or a file and is nowhere in here.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: str
    events: tuple[HookKind, ...] | None = None
    deadline_seconds: float = Field(default=10.0, ge=0.1, le=600)
    tls: bool = False
    ca_file: str | None = None
    insecure: bool = False
    token_env: Variable | None = None
    token_file: str | None = None

    @field_validator("address")
    @classmethod
    def _check_address(cls, value: str) -> str:
        address = parse_listen(value)
        if not address.unix_path and address.port == 0:
            raise ValueError("needs a port")
        return value

    @model_validator(mode="after")
    def _check_security(self) -> GrpcHookConfig:
        if self.tls and self.insecure:
            raise ValueError("tls and insecure exclude each other; set one of the two")
        if self.ca_file is not None and not self.tls:
            raise ValueError("ca_file counts with tls = true only")
        if not (self.tls or self.insecure or parse_listen(self.address).is_local):
            raise ValueError(
                f"{self.address} is on another machine; set tls = true, or insecure = true where something else"
                " encrypts what is sent"
            )
        if self.token_env is not None and self.token_file is not None:
            raise ValueError("the token comes from token_env already; set token_env or token_file")
        return self


class HooksConfig(BaseModel):
    """What is told of events and ends of runs: what is named here (``module`` or ``module:attribute``), what installed
    packages offer under ``turnwired.hooks``, and apps behind gRPC, by name.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    python: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = ()
    entry_points: bool = True
    grpc: Mapping[Id, GrpcHookConfig] = Field(default_factory=dict[str, GrpcHookConfig])
