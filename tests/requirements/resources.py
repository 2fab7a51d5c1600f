"""Resources in Python, each behaviour with an id that its tests name."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "RES-1": "A resource is a tool for each verb that its class has, named by verb and resource, and nothing else.",
    "RES-2": "Verbs say what they may do; other methods are tools only when marked, and say it themselves.",
    "RES-3": "A call is one transaction: committed with its result, rolled back with its error, seen by no other.",
    "RES-4": "The audit row of a change is written in its transaction; without it the change does not happen.",
    "RES-5": "Transaction and context are unseen by the model; the other parameters are as those of functions.",
    "RES-6": "What get does not find is an error that the model can act on.",
    "RES-7": "A class that cannot be a resource is refused with one sentence that says why.",
    "RES-8": "Resources come from the configuration, from entry points, or from a program.",
    "RES-9": "Methods that are not async run in a thread, transaction and audit with them; async ones on the loop.",
}
