"""The words that ask for an answer of a schema, where a server cannot be held to it. The same on every wire; pure."""

from __future__ import annotations

from turnwired.domain.model import OutputFormat


def output_instruction(wanted: OutputFormat, *, tools: bool) -> str:
    """A paragraph for the end of the system's words. ``tools``: the model may call some before it answers."""
    first = "When no tool has to be called any more, answer" if tools else "Answer"
    return (
        f"{first} with one JSON value that conforms to this JSON Schema, without Markdown and with nothing before or "
        f"after it:\n{wanted.json_schema}"
    )
