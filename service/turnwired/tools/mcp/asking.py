"""Questions that a server asks while it works on a call (elicitation), put to the person who may answer for that call.

In the 2025 era the server sends a request of its own, in the 2026 era an unfinished result that is asked for again with
the answers. Never asks somebody about another one's call: where it cannot be told whose it is, nobody is asked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Final, cast

import anyio

from turnwired.domain.errors import ToolError
from turnwired.domain.text import clean_text
from turnwired.tools.mcp.link import Answer, Answered, Asking
from turnwired.tools.port import InputRequest
from turnwired.tools.result import json_of

MAX_ROUNDS: Final = 10
"""Unfinished results of one call, as in the SDKs."""
MAX_QUESTIONS: Final = 10
_MAX_MESSAGE: Final = 4000
_PAUSES: Final = (0.05, 0.1, 0.25)  # seconds before an unfinished result without a question is asked for again
_CANCELLED: Final[Mapping[str, object]] = {"action": "cancel"}


CURRENT: Final[ContextVar[Asking | None]] = ContextVar("turnwire_mcp_asking", default=None)
"""Of the call in whose answer a message came, where the transport keeps that apart."""


async def elicited(asking: Asking | None, params: Mapping[str, object]) -> Mapping[str, object]:
    """Put an ``elicitation/create`` to the person; the result in MCP's words."""
    if asking is None:
        return _CANCELLED
    words = params.get("message")
    message = f"{asking.server_id}: {clean_text(words if isinstance(words, str) else '')[:_MAX_MESSAGE]}"
    schema = params.get("requestedSchema")
    url = params.get("url")
    if params.get("mode") == "url" or not isinstance(schema, dict):
        if isinstance(url, str):
            message = f"{message}\n{clean_text(url)[:_MAX_MESSAGE]}"
        request = InputRequest(message)
        schema = None
    else:
        request = InputRequest(message, json_of(schema))
    try:
        answer = await asking.ask(request)
    except ToolError:  # a schema that cannot be used
        return _CANCELLED
    if answer.action != "accept" or schema is None:
        return {"action": answer.action}
    return {"action": "accept", "content": {**_defaults(schema), **answer.values}}


async def until_complete(ask: Callable[[Mapping[str, object]], Awaitable[Answer]], asking: Asking | None) -> Answer:
    """The answer, once the server has been told all that it wants to know. ``ask`` makes the request, with more."""
    answer = await ask({})
    for round_ in range(MAX_ROUNDS):
        if not isinstance(answer, Answered) or answer.result.get("resultType") != "input_required" or asking is None:
            return answer
        wanted = answer.result.get("inputRequests")
        more: dict[str, object] = {}
        if isinstance(wanted, dict) and wanted:
            answers = await _answers(asking, cast("Mapping[str, object]", wanted))
            if answers is None:
                return answer
            more["inputResponses"] = answers
        else:
            await anyio.sleep(_PAUSES[min(round_, len(_PAUSES) - 1)])
        if "requestState" in answer.result:
            more["requestState"] = answer.result["requestState"]
        answer = await ask(more)
    return answer


async def _answers(asking: Asking, wanted: Mapping[str, object]) -> Mapping[str, object] | None:
    """One after the other, as a person reads them; None when it wants what is no question to a person."""
    if len(wanted) > MAX_QUESTIONS:
        return None
    found: dict[str, object] = {}
    for key, request in wanted.items():
        match request:
            case {"method": "elicitation/create", "params": dict(params)}:
                found[key] = await elicited(asking, cast("Mapping[str, object]", params))
            case _:
                return None
    return found


def _defaults(schema: Mapping[str, object]) -> dict[str, object]:
    properties = schema.get("properties")
    items = properties.items() if isinstance(properties, dict) else ()
    return {name: item["default"] for name, item in items if isinstance(item, dict) and "default" in item}
