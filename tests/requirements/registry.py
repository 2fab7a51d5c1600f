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
}
