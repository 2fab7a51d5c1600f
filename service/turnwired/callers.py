"""Who calls: from the token of a call to a caller with its tenant and roles, for everything that takes calls.

It knows the configuration's sections and where tokens are kept, and no transport. Tokens are held as digests only, and
compared in constant time.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from turnwired.config.identity import AnonymousConfig, CallerConfig
from turnwired.domain.errors import ConfigError, Unauthenticated
from turnwired.domain.run import Caller

_LOG = logging.getLogger(__name__)

MIN_TOKEN: Final = 16
MAX_TOKEN: Final = 4096
"""Characters of a token."""
FILE_SECONDS: Final = 1.0
"""How often a file is looked at for another token, while calls come."""
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""``b64token`` of RFC 6750, section 2.1."""

TokenDigest = Callable[[], bytes | None]
"""The digest of the token that counts now; None while there is none."""


@dataclass(frozen=True, slots=True)
class Callers:
    """The callers of a deployment. ``anonymous``: who a call without a token is; None: it is refused.

    ``roles`` and ``tenants`` are those of every principal by name, also of those that only agents run as.
    """

    known: tuple[tuple[TokenDigest, Caller], ...] = ()
    anonymous: Caller | None = field(default_factory=Caller)
    roles: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    tenants: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def configured(self) -> bool:
        """Whether the deployment says who its callers are: then only operators change what others use."""
        return bool(self.roles)

    def caller(self, authorizations: Sequence[str]) -> Caller:
        """Who sends these ``authorization`` values, of which there may be one: ``Bearer TOKEN``.

        Where no caller is configured nothing is asked, and nothing is looked at. Raises Unauthenticated.
        """
        if not self.known and self.anonymous is not None:
            return self.anonymous
        if not authorizations:
            if self.anonymous is None:
                raise Unauthenticated("The call shows no token: send 'authorization: Bearer TOKEN'.")
            return self.anonymous
        scheme, _, token = authorizations[0].partition(" ")
        if len(authorizations) > 1 or scheme.lower() != "bearer":
            raise Unauthenticated("The call's authorization is not one 'Bearer TOKEN'.")
        given = digest(token.strip())
        found: Caller | None = None
        for current, caller in self.known:
            counts = current()
            # Each is compared, so that the time does not tell which one it is.
            if counts is not None and hmac.compare_digest(counts, given):
                found = caller
        if found is None:
            raise Unauthenticated("The call's token is not known to this server.")
        return found

    def also(self, token: str, caller: Caller) -> Callers:
        """With one more caller, for a server that a process starts for itself alone."""
        own = digest(token)
        return replace(self, known=(*self.known, (lambda: own, caller)))


def digest(token: str) -> bytes:
    """What is kept of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def callers_of(
    callers: Sequence[CallerConfig], anonymous: AnonymousConfig | None, environ: Mapping[str, str], source: str
) -> Callers:
    """The callers of the configuration that ``source`` names. Raises ConfigError for tokens that are not there, that
    are too short to be safe, or that two of them have.
    """
    known: list[tuple[TokenDigest, Caller]] = []
    places: dict[bytes, int] = {}
    for index, config in enumerate(callers):
        if not config.signs_in:
            continue
        where = f"{source}: callers.{index}"
        current = _token(config, environ, where)
        now = current()
        assert now is not None, "a token that is not there is an error"
        if places.setdefault(now, index) != index:
            raise ConfigError(f"{where}: has the same token as callers.{places[now]}; each needs its own")
        known.append((current, Caller(config.tenant, config.principal, frozenset(config.roles))))
    nobody = Caller() if anonymous is None and not callers else None
    if anonymous is not None:
        nobody = Caller(anonymous.tenant, roles=frozenset(anonymous.roles))
    return Callers(
        tuple(known),
        nobody,
        {config.principal: frozenset(config.roles) for config in callers},
        {config.principal: config.tenant for config in callers},
    )


def _token(config: CallerConfig, environ: Mapping[str, str], where: str) -> TokenDigest:
    if config.token_file is not None:
        file = TokenFile(Path(config.token_file))
        file.read(f"{where}.token_file")
        return file
    assert config.token_env is not None, "it signs in"
    text = environ.get(config.token_env, "").strip()
    if not text:
        raise ConfigError(f"{where}.token_env: the environment variable {config.token_env} is not set")
    if (problem := _problem(text)) is not None:
        raise ConfigError(f"{where}.token_env: the token in {config.token_env} {problem}")
    kept = digest(text)
    return lambda: kept


def _problem(token: str) -> str | None:
    if not MIN_TOKEN <= len(token) <= MAX_TOKEN:
        return f"has {len(token)} characters; it needs {MIN_TOKEN} to {MAX_TOKEN}"
    if not _TOKEN.fullmatch(token):
        return "holds other characters than letters, digits and . _ ~ + / - with = at the end"
    return None


class TokenFile:
    """A token in a file, which may be replaced at any time. While it cannot be read, or holds none, nobody has it."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._due = 0.0
        self._seen: tuple[int, int, int] | None = None
        self._digest: bytes | None = None

    def __call__(self) -> bytes | None:
        """The digest of the token that the file holds now, or held a second ago."""
        now = self._clock()
        if now >= self._due:
            self._due = now + FILE_SECONDS
            try:
                self.read(str(self._path))
            except ConfigError as error:
                if self._digest is not None:
                    _LOG.warning("a caller cannot sign in any more: %s", error)
                self._seen = self._digest = None
        return self._digest

    def read(self, where: str) -> None:
        """Read the file if it is not the one that was read. Raises ConfigError."""
        try:
            found = self._path.stat()
            seen = (found.st_mtime_ns, found.st_size, found.st_ino)
            if seen == self._seen:
                return
            with self._path.open("rb") as file:
                text = file.read(MAX_TOKEN + 2).strip().decode("ascii")
        except OSError as error:
            reason = (error.strerror or os.strerror(error.errno or 0)).lower()
            raise ConfigError(f"{where}: {self._path} cannot be read: {reason}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{where}: {self._path} holds no token") from None
        if (problem := _problem(text)) is not None:
            raise ConfigError(f"{where}: the token in {self._path} {problem}")
        self._seen, self._digest = seen, digest(text)


def bearer(values: Iterable[tuple[str, str | bytes]]) -> list[str]:
    """The ``authorization`` values among headers or metadata."""
    return [value for key, value in values if key.lower() == "authorization" and isinstance(value, str)]
