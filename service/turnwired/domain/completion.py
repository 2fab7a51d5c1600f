"""What a deployment's own completion hook is asked, and how it answers. Pure data: who calls it is elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from turnwired.domain.message import Message
from turnwired.domain.outcome import OutcomeKind


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A run whose loop has ended without text after its tools.

    ``outcome`` is how it ends if nothing follows: TOOL_ONLY or MAX_STEPS. ``messages`` are those that the run added to
    the conversation, in order: assistant turns, each with calls followed by one message with all of their results.
    """

    run_id: str
    agent_id: str
    session_id: str | None
    outcome: OutcomeKind
    messages: tuple[Message, ...]


CompletionHook = Callable[[CompletionRequest], str | None]
"""Gives the instruction with which the model is asked for an answer, or None: the run is fine as it is.

Called in a thread of its own, once in a run at most, and not waited for longer than ten seconds.
"""

MAX_INSTRUCTION = 16_384
"""Characters of an instruction, whoever wrote it."""
