"""Behaviours of runs that wait for their caller, outside of the turn machine, each with an id that its tests name."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "APPROVE-1": "What a run waits for, its questions and its session's standing answers are stored with the row that "
    "makes them so, all or nothing, and are found again after a restart.",
    "APPROVE-2": "A standing answer is kept once per session, belongs to it alone and goes with it.",
    "APPROVE-3": "Questions are listed oldest first, by run, session, agent and state, in pages that miss and repeat "
    "nothing, to their own tenant only.",
}
