"""Behaviours of the chat completions wire beside those of every wire, and of the schemas that it sends."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "CHAT-1": "A schema is changed only as the adaptations say, and always to the same text.",
    "CHAT-2": "What conforms to an adapted schema conforms to the original one, but for the losses that are told.",
    "CHAT-3": "References are inlined within bounds: a recursion and what would grow too large are cut and described.",
    "CHAT-4": "No schema makes an adaptation fail: what cannot be adapted stays as it is.",
    "CHAT-5": "A schema that strict mode would change the meaning of is sent as a hint instead.",
    "CHAT-6": "Reasoning details are joined to the blocks they were, once per turn, and given back as they were given.",
    "CHAT-7": "Extra content of calls and messages is kept with them and given back as it was given.",
    "CHAT-8": "Reasoning text is given back in the form and field that the profile names.",
    "CHAT-9": "What one provider wants back is never sent to another one, and nothing native is ever sent as text.",
    "CHAT-10": "Images, PDFs and audio are sent to servers that take them, and refused by the part where they do not.",
    "CHAT-11": "Images that a model makes are media; a damaged one is an error, and one elsewhere is shown by address.",
    "CHAT-12": "Generation options stand where the profile says; those without a place are told as field violations.",
    "CHAT-13": "A call refuses exactly the requests that the check finds violations in.",
    "CHAT-14": "Structured output is asked for in the way of the server, and explained where it is not enforced.",
    "CHAT-15": "A cache key is sent where the profile has one, and nowhere else.",
    "CHAT-16": "Schemas of tools and of output are sent in the server's dialect.",
    "CHAT-17": "Without an end marker an answer is over once the finish reason and the usage that is due have come.",
    "CHAT-18": "Reasoning is read from the fields that the profile names, and from no other.",
    "CHAT-19": "A chunk gives the same items whether it is decoded the fast way or the general one.",
    "CHAT-20": "Mutated events of real answers never crash the parser, make it hang or hold more than its bounds.",
    "CHAT-21": "A final answer under a JSON schema of calls is held to the schema of the output, whole and as JSON.",
}
