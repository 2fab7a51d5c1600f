"""What a tool in Python may know about the call that it runs in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from turnwired.domain.run import Caller
from turnwired.tools.port import AskUser, InputAnswer, InputRequest, ProgressReporter
from turnwired.tools.result import json_of
from turnwired.tools.threads import CallState


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may know about the call it runs in. A parameter with this type hint gets it, unseen by the model."""

    caller: Caller
    run_id: str
    call_id: str
    session_id: str | None
    attempt: int
    headers: Mapping[str, str]
    _ask: AskUser | None
    _progress: ProgressReporter | None
    _loop: asyncio.AbstractEventLoop
    _loop_thread: int
    _state: CallState

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more: a plain function that takes long should look and return."""
        return self._state.given_up

    async def ask(self, message: str, input_schema: Mapping[str, object] | None = None) -> InputAnswer:
        """Ask a person, from an async tool, and wait for as long as the run waits; ``timeout.tool_call`` stands still.

        ``input_schema``: JSON Schema of an object to fill in; None: consent alone. ``action`` of the answer is
        "accept", "decline" or, when nobody answers in time or can be asked, "cancel". A process that ends meanwhile
        ends the call too: ask before anything is changed. Raises ToolError for a schema that cannot be used.
        """
        if self._ask is None:
            return InputAnswer("cancel")
        return await self._ask(InputRequest(message, None if input_schema is None else json_of(input_schema)))

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell how far the tool is, in units of its own. May be called from the tool's thread."""
        report = self._progress
        if report is None or self._state.given_up:
            return
        if threading.get_ident() == self._loop_thread:
            report(done, total, message)
        else:
            self._loop.call_soon_threadsafe(report, done, total, message)
