"""Who may speak to the ASGI app at all: the host that a request names, the origin of a page, and the caller's token.

It stands in front of all that is served over HTTP, bounds the time in which a request has to come in, and lets no fault
out. It knows callers, and nothing of what is behind it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

import anyio
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnwired.callers import Callers, bearer
from turnwired.domain.errors import Unauthenticated
from turnwired.domain.faults import where_raised
from turnwired.domain.run import Caller
from turnwired.stray import ANY_FAULT

_LOG = logging.getLogger(__name__)

BODY_SECONDS: Final = 30.0
"""How long a request may take to come in."""
CALLER: Final = "turnwired.caller"
"""Key of the scope under which the caller is."""
_LOCAL: Final = ("127.0.0.1", "localhost", "[::1]")
_WEB_SCHEMES: Final = ("http://", "https://")


class Guard:
    """An ASGI app around another. ``hosts`` and ``origins`` come beside those of the loopback.

    What is behind the paths of ``knows_callers`` asks for tokens itself, and refuses in the words of its protocol.
    """

    def __init__(
        self,
        app: ASGIApp,
        callers: Callers,
        hosts: tuple[str, ...] = (),
        origins: tuple[str, ...] = (),
        *,
        knows_callers: AbstractSet[str] = frozenset(),
    ) -> None:
        self._app = app
        self._callers = callers
        self._hosts = hosts
        self._origins = origins
        self._knows_callers = knows_callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an HTTP request; nothing else is served."""
        if scope["type"] != "http":
            return
        begun = ended = False

        async def watched(message: Message) -> None:
            nonlocal begun, ended
            begun = True
            ended = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        try:
            answer = self._refusal(Headers(scope=scope), scope)
            if answer is None:
                await self._app(scope, _timely(receive), watched)
            else:
                await answer(scope, receive, watched)
        except ClientDisconnect:
            pass
        except ANY_FAULT as error:  # task boundary: the caller learns that there was one, the log where
            if _is_cut(error):
                status, words = 503, "stopping"
            else:
                status, words = 500, "internal"
                _LOG.error("an HTTP request failed: %s", where_raised(error))
            if not begun:
                await JSONResponse({"error": words}, status)(scope, receive, send)
            elif not ended:
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _refusal(self, headers: Headers, scope: Scope) -> Response | None:
        """Why the request is not for this server, or not from a caller of it; None: the caller is in the scope."""
        if not self._is_ours(headers.getlist("host")):
            return JSONResponse({"error": "misdirected", "message": "The Host is not one of this server."}, 421)
        if not self._may_come_from(headers.getlist("origin")):
            return JSONResponse(
                {"error": "forbidden", "message": "The Origin is not one that this server serves."}, 403
            )
        if scope["path"] in self._knows_callers:
            return None
        try:
            scope[CALLER] = self._callers.caller(bearer(headers.items()))
        except Unauthenticated as error:
            told = {"error": "unauthenticated", "message": error.message}
            return JSONResponse(told, 401, {"www-authenticate": 'Bearer realm="turnwire"'})
        return None

    def _is_ours(self, given: list[str]) -> bool:
        if len(given) != 1:
            return False
        host = given[0].lower()
        return host in self._hosts or _without_port(host) in (*_LOCAL, *self._hosts)

    def _may_come_from(self, given: list[str]) -> bool:
        """Only browsers say an origin; what says none is a program."""
        if not given:
            return True
        origin = given[0].lower()
        if len(given) > 1 or origin in self._origins:
            return len(given) == 1
        scheme = next((scheme for scheme in _WEB_SCHEMES if origin.startswith(scheme)), None)
        return scheme is not None and _without_port(origin.removeprefix(scheme)) in _LOCAL


def _is_cut(error: BaseException) -> bool:
    """Whether the server stops, and has waited for this request for as long as it may."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def caller_in(scope: Mapping[str, object]) -> Caller:
    """The caller of a request that the guard let in."""
    caller = scope[CALLER]
    assert isinstance(caller, Caller), "the guard stands in front"
    return caller


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() and not (host.endswith("]")) else host


def _timely(receive: Receive) -> Receive:
    """The request as it comes, but for one that does not come to its end: its sender is taken for gone."""
    deadline = anyio.current_time() + BODY_SECONDS
    whole = False

    async def receive_in_time() -> Message:
        nonlocal whole
        if whole:
            return await receive()
        with anyio.move_on_at(deadline):
            message = await receive()
            whole = not message.get("more_body", False)
            return message
        whole = True
        return {"type": "http.disconnect"}

    return receive_in_time
