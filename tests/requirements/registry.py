"""The composition of the registry: decorators, collisions, changes of the tools and finding them, each with an id."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "REG-1": "Decorators of a source stack in any order and change nothing but what they are for.",
    "REG-2": "A source's own cap holds beside the policy's: the smaller one cuts, and the original size is told.",
    "REG-3": "A validated source is called with valid arguments only, and its structured results are checked.",
    "REG-4": "A name claimed by several sources goes where the policy says: namespace, priority or reject.",
    "REG-5": "Who has a name does not depend on the order in which sources answer.",
    "REG-6": "A collision is a notice of the runs whose selection it concerns, and of no others.",
    "REG-7": "Options of a source stand in its section, whatever its kind; a bad one is refused with its place.",
    "REG-8": "A source holds up runs no longer than its bound in all, not each of them anew.",
    "REG-9": "Sources come and go while the service runs.",
    "REG-10": "A source may have a permission of its own, about which rules speak by native names.",
    "REG-11": "A run's tools are fixed in an iteration; what sources change enters with the next and is announced.",
    "REG-12": "What the model is shown only grows: new tools stand behind, and one that went is still shown.",
    "REG-13": "A call of a tool that went is an error that says so; one that comes back is where it was.",
    "REG-14": "A source that is lost or connects anew and lists the same changes no byte and announces nothing.",
    "REG-15": "Changes of the tools are in the trace, and readers fold them to what the model was shown.",
    "REG-16": "Of more tools than the threshold only pinned ones and the one that finds others are shown.",
    "REG-17": "Tools that were found are shown from the next iteration on, behind the others, in the order of calls.",
    "REG-18": "A search ranks names above descriptions, gives the same for the same words, and takes any words.",
    "REG-19": "A tool that is known but not shown can be called.",
    "REG-23": "Whatever a schema refers to and however, the form that is shown can be adapted for every provider.",
    "REG-24": "A provider that refuses additionalProperties is sent schemas without it; arguments are held to it here.",
    "REG-22": "A caller finds the tools that it may have and no others.",
    "REG-20": "What was shown and found in a run holds after a restart, from its log alone.",
    "REG-25": "No run waits for a source that has not answered, but for one that is required or connected for it.",
    "REG-26": "Who starts a service waits, bounded, until the sources have answered, and is told for whom.",
    "REG-27": "That a source is there, or fails, is told to those alone who could have a tool of it.",
    "REG-21": "Only what changes in a listing is compiled anew, and equal selections share one view.",
}
