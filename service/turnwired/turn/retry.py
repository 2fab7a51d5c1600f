"""Whether and when a failed model call is tried again. Only before its first output, only for passing faults."""

from __future__ import annotations

from turnwired.domain.failure import Failure, Reason
from turnwired.policy.bounds import Bounds

LONGEST_RETRY_AFTER = 120.0
"""Seconds: a provider that asks to wait longer is not waited for; the caller decides."""
JITTER = 0.25
"""A delay is lengthened by up to this share, so that many runs do not come back at once."""

_PERMANENT = frozenset(
    {
        Reason.CONTEXT_OVERFLOW,
        Reason.PROVIDER_AUTH_FAILED,
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


def why_not(bounds: Bounds, attempt: int, failure: Failure, *, produced: bool) -> str | None:
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
    spread = 1.0 + JITTER * jitter
    backoff = min(bounds.retry_initial_delay * 2.0 ** min(attempt - 1, 60) * spread, bounds.retry_max_delay)
    return int(max(backoff, (failure.retry_after or 0.0) * spread) * 1e9)
