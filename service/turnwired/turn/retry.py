"""Whether and when a failed model call is tried again. Only before its first output, only for passing faults.

Rejected credentials are renewed and tried again once in an iteration, since a key or token may have been replaced. A
conversation that the provider finds too long is shortened once in an iteration, where the policy says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnwired.domain.failure import Failure, Reason
from turnwired.domain.policy import HistoryOverflowMode
from turnwired.policy.bounds import Bounds

LONGEST_RETRY_AFTER = 120.0
"""Seconds: a provider that asks to wait longer is not waited for; the caller decides."""
JITTER = 0.25
"""Share by which a delay is shortened, and what a provider asked for lengthened, at most: many runs that failed at once
are not to come back at once, also when all of them wait for the longest time."""

_PERMANENT = frozenset(
    {
        Reason.CONTEXT_OVERFLOW,
        Reason.PROVIDER_FORBIDDEN,
        Reason.PROVIDER_QUOTA_EXHAUSTED,
        Reason.PROVIDER_REJECTED,
        Reason.PROVIDER_NOT_CONFIGURED,
        Reason.PROVIDER_CONTENT_FILTERED,
        Reason.MODEL_NOT_FOUND,
        Reason.MODEL_REFUSED,
    }
)
"""Trying again cannot help, whatever a wire says of ``retryable``."""


@dataclass(frozen=True, slots=True)
class Again:
    """There is another attempt after ``delay_ns``.

    ``renew``: at once, and with credentials read or fetched anew. ``shorten``: at once, and without the oldest groups.
    """

    delay_ns: int
    renew: bool = False
    shorten: bool = False


@dataclass(frozen=True, slots=True)
class GiveUp:
    """There is no other attempt. ``why``: words to add to the failure; empty where the failure says it all."""

    why: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """A failed attempt.

    ``number``: from 1. ``produced``: readers have seen output of it. ``renewed``: this iteration has renewed the
    credentials already, ``shortened``: left out history. ``jitter``: in [0, 1). ``remaining_ns``: until the run must
    end; None: it need not.
    """

    number: int
    failure: Failure
    produced: bool
    renewed: bool
    shortened: bool
    jitter: float
    remaining_ns: int | None


def after(bounds: Bounds, attempt: Attempt) -> Again | GiveUp:
    """What follows a failed attempt."""
    failure = attempt.failure
    if failure.reason is Reason.PROVIDER_AUTH_FAILED:
        if attempt.renewed:
            return GiveUp("The credentials were read anew, and rejected again.")
        renewable = not attempt.produced and attempt.number < bounds.max_attempts
        return Again(0, renew=True) if renewable else GiveUp("")
    if failure.reason is Reason.CONTEXT_OVERFLOW and bounds.history_overflow is HistoryOverflowMode.TRUNCATE:
        may = not attempt.shortened and not attempt.produced and attempt.number < bounds.max_attempts
        return Again(0, shorten=True) if may else GiveUp("")
    why = _why_not(bounds, attempt.number, failure, produced=attempt.produced)
    if why is not None:
        return GiveUp(why)
    delay, left = delay_ns(bounds, attempt.number, failure, attempt.jitter), attempt.remaining_ns
    if left is not None and delay >= left:
        return GiveUp(
            f"Not tried again, because the wait of {delay / 1e9:.1f} s would outlast the {max(left, 0) / 1e9:.1f} s "
            "that the run has left (timeout.run or the caller's deadline)."
        )
    return Again(delay)


def _why_not(bounds: Bounds, attempt: int, failure: Failure, *, produced: bool) -> str | None:
    """Why a failed attempt is not followed by another, as words to add to the failure; None when it is."""
    if not failure.retryable or failure.reason in _PERMANENT:
        return ""
    if produced:
        return "Not tried again, because output had already been sent."
    if failure.retry_after is not None and failure.retry_after > LONGEST_RETRY_AFTER:
        return (
            f"Not tried again, because the provider asks to wait {failure.retry_after:.0f} s "
            f"and a run waits at most {LONGEST_RETRY_AFTER:.0f} s."
        )
    if attempt >= bounds.max_attempts:
        return f"Given up after {attempt} attempts (retry.max_attempts)." if attempt > 1 else ""
    return None


def delay_ns(bounds: Bounds, attempt: int, failure: Failure, jitter: float) -> int:
    """Nanoseconds to wait after ``attempt`` (from 1): doubling up to the cap, never less than the provider asked."""
    share = JITTER * jitter
    backoff = min(bounds.retry_initial_delay * 2.0 ** min(attempt - 1, 60), bounds.retry_max_delay)
    return int(max(backoff * (1.0 - share), (failure.retry_after or 0.0) * (1.0 + share)) * 1e9)
