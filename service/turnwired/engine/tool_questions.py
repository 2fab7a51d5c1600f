"""Questions that tools ask people while they run: from the tool that waits to the turn machine, and the answer back.

One question of a call is open at a time. What a person fills in goes to the tool alone: into no event, log or store.
What an answer decides is the turn machine's to say; this module knows no clock and starts no task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import cast

from turnwired.domain.approval import Approval, ApprovalDecision, ApprovalKind
from turnwired.domain.errors import FieldViolation, InvalidRequest
from turnwired.domain.text import clean_text, parse_json
from turnwired.tools.port import InputAnswer, InputRequest
from turnwired.turn.effects import AnswerTool
from turnwired.turn.facts import InputAsked, InputDropped

MOST_TITLE_CHARACTERS = 2000


class ToolQuestions:
    """The questions of one run's tools. ``feed`` takes a fact for the turn machine."""

    def __init__(self, feed: Callable[[InputAsked | InputDropped], None]) -> None:
        self._feed = feed
        self._open: dict[str, tuple[InputRequest, asyncio.Future[InputAnswer]]] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._filled: dict[str, Mapping[str, object]] = {}

    async def ask(self, call_id: str, request: InputRequest) -> InputAnswer:
        """Ask on behalf of a call, and wait: for as long as the run waits for people."""
        async with self._turns.setdefault(call_id, asyncio.Lock()):
            answer: asyncio.Future[InputAnswer] = asyncio.get_running_loop().create_future()
            self._open[call_id] = request, answer
            try:
                self._feed(InputAsked(call_id, _title(request.message), request.schema_json))
                return await answer
            finally:
                del self._open[call_id]
                if answer.cancelled():  # else an answer to this question would be taken for one to the next
                    self._feed(InputDropped(call_id))

    def answered(self, effect: AnswerTool) -> None:
        """Give a tool the answer. Its call may have ended by now."""
        values = self._filled.pop(effect.approval_id, {})
        found = self._open.get(effect.call_id)
        if found is None or found[1].done():
            return
        match effect.decision:
            case ApprovalDecision.ONCE | ApprovalDecision.ALWAYS:
                found[1].set_result(InputAnswer("accept", values))
            case ApprovalDecision.REJECT:
                found[1].set_result(InputAnswer("decline"))
            case None:
                found[1].set_result(InputAnswer("cancel"))

    def require_fitting(self, asked: Approval, decision: ApprovalDecision, input_json: str | None) -> None:
        """Keep what a person filled in, until the machine has taken the answer. Raises InvalidRequest.

        Called right before the answer is fed, with nothing in between.
        """
        if asked.kind is not ApprovalKind.INPUT:
            if input_json is not None:
                raise _invalid("input_json", "goes with questions of kind INPUT only")
            return
        if decision is ApprovalDecision.ALWAYS:
            raise _invalid("decision", "a tool that asks for input is answered ONCE or REJECT")
        if decision is ApprovalDecision.REJECT or asked.input_schema_json is None:
            if input_json is not None:
                raise _invalid("input_json", "goes with ONCE, where the question has an input_schema_json")
            return
        if input_json is None:
            raise _invalid("input_json", "is required: values that match the question's input_schema_json")
        values = _object(input_json)
        found = self._open.get(asked.call.call_id)
        problems = [] if found is None else list(found[0].problems(values))
        if problems:
            raise _invalid("input_json", f"does not match the question's input_schema_json: {'; '.join(problems)}")
        self._filled[asked.approval_id] = values


def _title(message: str) -> str:
    clean = clean_text(message)
    return clean if len(clean) <= MOST_TITLE_CHARACTERS else f"{clean[: MOST_TITLE_CHARACTERS - 1]}\u2026"


def _object(text: str) -> Mapping[str, object]:
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        raise _invalid("input_json", "is no JSON") from None
    if not isinstance(value, dict):
        raise _invalid("input_json", "must be a JSON object")
    return cast("Mapping[str, object]", value)


def _invalid(field: str, description: str) -> InvalidRequest:
    return InvalidRequest([FieldViolation(field, description)])
