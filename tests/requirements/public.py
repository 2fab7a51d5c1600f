"""Rules about calls as callers meet them, beside the tests of the pure machine that decides them."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "PUBLIC-1": "Equal calls and short cycles of calls ask a person from the fourth round on.",
    "PUBLIC-2": "Only the configuration lets a tool be polled; what its server says of it does not.",
    "PUBLIC-3": "Where no rule matches, the policy decides by what a tool says of itself, and who is asked follows.",
    "PUBLIC-4": "Arguments of a wrong type are refused, repaired, or left to the function, as the policy says.",
}
