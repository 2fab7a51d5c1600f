"""How a run ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from turnwired.domain.failure import Failure, Reason


class OutcomeKind(StrEnum):
    """Kinds of end. A run that waits has not ended, so WAITING is not among them."""

    ANSWERED = "ANSWERED"
    TOOL_ONLY = "TOOL_ONLY"
    MAX_STEPS = "MAX_STEPS"
    OUTPUT_LIMIT = "OUTPUT_LIMIT"
    PROVIDER_EOF = "PROVIDER_EOF"
    BUDGET_EXCEEDED = "BUDGET_EXCEEDED"
    REFUSED = "REFUSED"
    ABORTED = "ABORTED"
    ERRORED = "ERRORED"


@dataclass(frozen=True, slots=True)
class LimitTrip:
    """Which limit tripped: a path in Policy, the limit in force and the value that tripped it, in its unit.

    ``estimated``: the value was not measured but estimated.
    """

    policy_path: str
    limit: str
    observed: str
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The one end of a run. ``recoverable``: sending the turn again, perhaps with a wider limit, can help.

    ``partial``: there is output of the model, but it was cut short.
    """

    kind: OutcomeKind
    failure: Failure | None = None
    limit_trip: LimitTrip | None = None
    recoverable: bool = False
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that does not end the run but should be seen."""

    reason: Reason
    message: str
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
