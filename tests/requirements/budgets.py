"""Budgets of tokens and money: per run, per session, and per tenant and UTC day."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "BUDGET-1": "A call that no budget covers is not made: BUDGET_EXCEEDED with path, limit, value and what to do.",
    "BUDGET-2": "A call that fits with a shorter answer is made with that limit; reaching it is the budget's end.",
    "BUDGET-3": "A stream is cut at its budget, past it by max(32 tokens, 2 %) at most, whatever its reads are.",
    "BUDGET-4": "What was said before the cut is kept; calls of a cut answer settle as not executed.",
    "BUDGET-5": "Budgets of money hold the same way, for models priced by tokens and by time.",
    "BUDGET-6": "Totals of a session and of a tenant's day count all runs, also those without budgets, of no other.",
    "BUDGET-7": "Totals survive a restart, in every store; a row handed in twice is added once.",
    "BUDGET-8": "Reservations are atomic over all accounts and runs: side by side they do not pass a limit.",
    "BUDGET-9": "A reservation is given back when a call ends, is cancelled or fails, or the run cannot be stored.",
    "BUDGET-10": "Real usage takes the place of the reservation; retries, synthesis and corrections count.",
    "BUDGET-11": "Money without a price, or in another currency, is refused before the run: LIMIT_NOT_MEASURABLE.",
    "BUDGET-12": "A provider that reports no usage is held by estimates, and the run says so: LIMIT_ESTIMATED.",
    "BUDGET-13": "Near a limit the provider's counter is asked, and its count is what is reserved.",
    "BUDGET-14": "A child run spends from the budgets of its ancestors too.",
    "BUDGET-15": "Budgets come through every layer and the ceiling, and ResolvePolicy shows them.",
    "BUDGET-16": "Over any runs side by side, spending passes no limit by more than one overshoot.",
    "BUDGET-17": "A run without budgets is sent as ever, and nothing is kept for it.",
    "BUDGET-18": "A session budget bounds a run of no session by itself.",
    "BUDGET-19": "What a crashed run had spent by its log counts after the restart.",
    "BUDGET-20": "The provider's own count of the input is believed while it streams.",
    "BUDGET-21": "The document on budgets holds: its code prints what it says.",
    "BUDGET-22": "A budget that trips in the pass for a missing answer ends the run as a budget.",
    "BUDGET-23": "What cannot be read from the store ends the run before it spends anything.",
    "BUDGET-24": "A deleted session's totals go with it; its tenant's stay.",
}
