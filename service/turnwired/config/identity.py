"""The sections of identity: who calls, by which token, and which tools which roles may have. Pure data.

No token is in here: a caller's is in an environment variable or in a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from turnwired.config.words import Id, Variable, located
from turnwired.domain.run import DEFAULT_TENANT


def _check_principal(value: str) -> str:
    if not value.isprintable() or value != value.strip():
        raise ValueError("a principal is one line of printable characters")
    return value


Principal = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_check_principal)]
Roles = Annotated[tuple[Id, ...], Field(max_length=64)]


class CallerConfig(BaseModel):
    """One caller. Without a token nobody signs in as it; agents may run as it.

    A principal may stand here more than once, each time with another token: that is how tokens are changed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    principal: Principal
    tenant: Id = DEFAULT_TENANT
    roles: Roles = ()
    token_env: Variable | None = None
    token_file: str | None = None

    @model_validator(mode="after")
    def _check_token(self) -> CallerConfig:
        if self.token_env is not None and self.token_file is not None:
            raise located("token_file", "the token comes from token_env already; set token_env or token_file")
        return self

    @property
    def signs_in(self) -> bool:
        """Whether it has a token."""
        return self.token_env is not None or self.token_file is not None


class AnonymousConfig(BaseModel):
    """Who callers without a token are. Where there are ``callers`` and this section is not, they are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tenant: Id = DEFAULT_TENANT
    roles: Roles = ()


class AccessConfig(BaseModel):
    """Which tools, by patterns of routed names, callers with one of these roles may have; no roles: every caller."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    roles: Roles = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_patterns(self) -> AccessConfig:
        if not self.allow and not self.deny:
            raise ValueError("says nothing; set allow or deny, or both")
        return self


def check_callers(callers: Sequence[CallerConfig], anonymous: AnonymousConfig | None) -> None:
    """Raises a located error for callers that contradict each other, or that nobody can be."""
    known: dict[str, CallerConfig] = {}
    for index, caller in enumerate(callers):
        first = known.setdefault(caller.principal, caller)
        if (first.tenant, frozenset(first.roles)) != (caller.tenant, frozenset(caller.roles)):
            words = f"principal {caller.principal!r} stands here before with another tenant or other roles"
            raise located(f"callers.{index}.principal", words)
    if callers and anonymous is None and not any(caller.signs_in for caller in callers):
        words = "nobody could call: give a caller token_env or token_file, or add the section anonymous"
        raise located("callers", words)
