"""Behaviours of the chat completions wire beside those of every wire, and of the schemas that it sends."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "CHAT-1": "A schema is changed only as the adaptations say, and always to the same text.",
    "CHAT-2": "What conforms to an adapted schema conforms to the original one, but for the losses that are told.",
    "CHAT-3": "References are inlined within bounds: a recursion and what would grow too large are cut and described.",
    "CHAT-4": "No schema makes an adaptation fail: what cannot be adapted stays as it is.",
    "CHAT-5": "A schema that strict mode would change the meaning of is sent as a hint instead.",
}
