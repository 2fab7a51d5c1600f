"""Behaviours of the wire openai.responses, each with an id that its tests name."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "RESP-1": "Every recorded answer gives its truth in reads of any size; at most 1 % is disputed, with reasons.",
    "RESP-2": "A recorded error is of its kind, also inside a 200 and in a failed response.",
}
