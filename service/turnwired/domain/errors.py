"""The one exception tree of the service. It knows no transport: ``rpc`` maps these to gRPC statuses.

TurnwireError
├── RequestError            the caller's request cannot be taken
│   ├── InvalidRequest      one or more fields break a rule            -> INVALID_ARGUMENT
│   ├── Unauthenticated     nobody knows who calls                     -> UNAUTHENTICATED
│   ├── PermissionDenied    the caller may not do this                 -> PERMISSION_DENIED
│   ├── NotFound            no such agent, session, run, approval      -> NOT_FOUND
│   ├── Conflict            the state does not allow it                -> FAILED_PRECONDITION / ALREADY_EXISTS / ABORTED
│   ├── OutOfRange          the events asked for are not stored        -> OUT_OF_RANGE
│   └── Unavailable         overloaded, shutting down, store down      -> UNAVAILABLE / RESOURCE_EXHAUSTED
├── CodecError              bytes or a message of the contract do not say what they must
├── ProviderError           a model call failed; carries a Failure
├── ToolError               a tool call failed; carries a Failure
├── StoreError              the store could not do it
│   ├── Fenced              another owner has appended to the run's log
│   └── StoreUnavailable    try again later
└── ConfigError             the configuration cannot be used; one line says why
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from turnwired.domain.failure import Failure, Reason


class TurnwireError(Exception):
    """Base of everything this service raises on purpose."""


class RequestError(TurnwireError):
    """The caller's request cannot be taken. ``message`` is safe to show; ``metadata`` goes into ErrorInfo."""

    def __init__(self, reason: Reason, message: str, metadata: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.metadata = dict(metadata or {})


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One broken rule: ``field`` is a path in the request, such as ``turn.policy.loop.max_steps``."""

    field: str
    description: str


class InvalidRequest(RequestError):
    """One or more fields break a rule."""

    def __init__(
        self,
        violations: list[FieldViolation],
        reason: Reason = Reason.INVALID_REQUEST,
    ) -> None:
        super().__init__(reason, "; ".join(f"{v.field}: {v.description}" for v in violations))
        self.violations = violations


class Unauthenticated(RequestError):
    """The call shows no credential, or none that counts."""

    def __init__(self, message: str) -> None:
        super().__init__(Reason.UNAUTHENTICATED, message)


class PermissionDenied(RequestError):
    """The caller is known and may not do this."""

    def __init__(self, message: str, metadata: Mapping[str, str] | None = None) -> None:
        super().__init__(Reason.PERMISSION_DENIED, message, metadata)


class NotFound(RequestError):
    """Nothing has this id, or the caller may not see it."""


class Conflict(RequestError):
    """The state of the run or session does not allow it."""


class OutOfRange(RequestError):
    """The events asked for are not stored any more."""


class Unavailable(RequestError):
    """The service cannot take the request now. ``retry_after`` is in seconds."""

    def __init__(self, reason: Reason, message: str, retry_after: float | None = None) -> None:
        super().__init__(reason, message)
        self.retry_after = retry_after


class CodecError(TurnwireError):
    """Bytes or a message of the contract do not say what they must. ``path`` leads to the place, as in BadRequest."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.problem = problem
        self.path = path

    def within(self, outer: str) -> CodecError:
        """The same error seen from one level further out."""
        dot = "." if self.path and not self.path.startswith("[") else ""
        return CodecError(self.problem, f"{outer}{dot}{self.path}")


class ProviderError(TurnwireError):
    """A model call failed. The failure says whether trying again may help."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class ToolError(TurnwireError):
    """A tool call failed in a way that the model is told about."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class StoreError(TurnwireError):
    """The store could not do it."""


class Fenced(StoreError):
    """Another owner has appended to the run's log: this execution must stop and record nothing."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or written now. ``uncertain``: what was asked for may have been done, or still be."""

    def __init__(self, message: str, *, uncertain: bool = False) -> None:
        super().__init__(message)
        self.uncertain = uncertain


class ConfigError(TurnwireError):
    """The configuration cannot be used. The message is one line that says what to change."""


class DatabaseInUse(ConfigError):
    """Another server has the database open."""
