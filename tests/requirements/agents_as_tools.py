"""Agents that call agents, and runs made on behalf of others, each behaviour with an id that its tests name."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "CHILD-1": "An agent's agents are tools of its runs, under a name of their own, behind those of the deployment.",
    "CHILD-2": "A call of an agent is a run with a log of its own; parent and call name it, it names its parent.",
    "CHILD-3": "What the called agent answers is the call's result; an end without an answer is a typed error.",
    "CHILD-4": "Ending the parent, by whatever, ends its children before the parent is reported ended.",
    "CHILD-5": "The depth of runs is bounded: at the bound no agents are offered, and no child is started.",
    "CHILD-6": "A caller may make a run on behalf of an active run of its own; that of an ended one is refused.",
    "CHILD-7": "An agent that is not there is left out and reported; the configuration may name only its own.",
    "CHILD-8": "A request leaves out agents as it leaves out tools.",
    "CHILD-9": "An agent's call has the time limits of its run, not the one of a tool call.",
    "CHILD-11": "A run below that waits for its caller shows in the progress of the call above it.",
    "CHILD-10": "Agents of agents are stored, read and changed as every field of an agent.",
}
