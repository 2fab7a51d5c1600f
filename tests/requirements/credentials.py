"""Behaviours of keys, cloud sign-in and of the one retry after rejected credentials, each with an id."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "CRED-1": "The first rejection of credentials in an iteration leads at once to one attempt with renewed ones.",
    "CRED-2": "A second rejection in an iteration, one after output and one on the last attempt end the run.",
    "CRED-3": "A wait that would outlast the run's or its caller's deadline is not begun, and the failure says so.",
    "CRED-4": "By default attempts are 8 and delays 2 s doubling to 30 s, spread by jitter at the cap too.",
}
