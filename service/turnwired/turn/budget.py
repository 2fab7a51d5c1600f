"""How a run ends that may spend no more: the words that say which budget it was and what to do. Pure."""

from __future__ import annotations

from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.outcome import LimitTrip, OutcomeKind
from turnwired.turn.ending import Ending

_ADVICE = {
    "session": "begin a new session, with a summary of this one",
    "tenant": "send the turn again on the next UTC day",
}


def reached(trip: LimitTrip) -> Ending:
    """The end of a run whose next tokens no budget covers."""
    whose = trip.policy_path.partition(".max_")[2].partition("_")[0]
    advice = _ADVICE.get(whose, "ask for less in one turn")
    about = "about " if trip.estimated else ""
    failure = Failure(
        FailurePhase.MODEL,
        Reason.LIMIT_REACHED,
        f"The budget {trip.policy_path} of {trip.limit} does not last: what comes next makes it {about}"
        f"{trip.observed}. What was done is kept; raise the budget, or {advice}.",
    )
    return Ending(OutcomeKind.BUDGET_EXCEEDED, failure, trip)
