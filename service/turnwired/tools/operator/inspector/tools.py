"""The inspector's tools: what each takes and says, whose session it uses, and when a session ends.

A session belongs to the caller who attached, and to one target. How a process is asked is in ``session``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import anyio
import anyio.to_thread
import orjson
from pydantic import Field

from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import Data, Part, Text
from turnwired.tools.context import ToolContext
from turnwired.tools.operator.config import InspectorConfig, InspectorTarget, host_and_port, is_loopback
from turnwired.tools.operator.failures import blocked, failed
from turnwired.tools.operator.files import content
from turnwired.tools.operator.inspector.connection import Connection, InspectorLost, InspectorRefused
from turnwired.tools.operator.inspector.discovery import NoInspector, discover
from turnwired.tools.operator.inspector.kinship import is_ours, listens_here
from turnwired.tools.operator.inspector.session import Session, Thrown
from turnwired.tools.operator.inspector.values import hottest
from turnwired.tools.port import ToolOutput
from turnwired.tools.python import tool

SAMPLING_US: Final = 1000
_CLOSE_SECONDS: Final = 5.0

_Key = tuple[str, str, str]
"""Tenant, principal and target."""

_Target = Annotated[str, Field(min_length=3, max_length=300)]
_File = Annotated[str, Field(min_length=1, max_length=1000)]
_Line = Annotated[int, Field(ge=1, le=10_000_000)]
_Code = Annotated[str, Field(min_length=1, max_length=20_000)]
_Seconds = Annotated[float, Field(gt=0, le=300)]


@dataclass(slots=True)
class _Held:
    session: Session
    timer: asyncio.TimerHandle | None = None
    in_use: int = 0


@dataclass(slots=True)
class InspectorTools:
    """The tools over the targets of a configuration, and the sessions that are open."""

    config: InspectorConfig
    _held: dict[_Key, _Held] = field(default_factory=dict[_Key, _Held])
    _opening: int = 0
    _closed: bool = False
    _closing: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    @property
    def functions(self) -> Sequence[Callable[..., object]]:
        """The tools."""
        return (self.inspector_attach, self.evaluate, self.set_breakpoint, self.set_logpoint, self.profile_cpu)

    @tool(destructive=False, open_world=False)
    async def inspector_attach(self, target: _Target, context: ToolContext) -> ToolOutput:
        """Attach to the inspector of a Node process. The other inspector tools need this first.

        Args:
            target: host:port of the inspector, as the configuration names it, such as "127.0.0.1:9229".
        """
        found = self._target("inspector_attach", target)
        key = (context.caller.tenant, context.caller.principal, found.address.lower())
        self._drop(key)
        if len(self._held) + self._opening >= self.config.max_sessions:
            most = self.config.max_sessions
            raise failed("inspector_attach", f"{most} sessions are open, which are the most", "too_many_sessions")
        self._opening += 1
        try:
            session, told = await self._attached(found)
        finally:
            self._opening -= 1
        if self._closed:
            await session.aclose()
            raise failed("inspector_attach", "the service is ending", "closed")
        self._drop(key)  # of another call that attached meanwhile
        self._held[key] = held = _Held(session)
        self._wait_for_use(key, held)
        return content(Data(orjson.dumps(told).decode()))

    @tool(destructive=True, open_world=False)
    async def evaluate(
        self, target: _Target, expression: _Code, context: ToolContext, max_seconds: _Seconds = 5.0
    ) -> ToolOutput:
        """Run JavaScript in the process and give its value. It can change anything there.

        Args:
            target: The target that was attached to.
            expression: The code; a promise is awaited.
            max_seconds: Code that takes longer is stopped.
        """
        seconds = min(max_seconds, self.config.max_wait_seconds)
        async with self._session("evaluate", target, context) as session:
            return await _shown("evaluate", session.evaluate(expression, seconds))

    @tool(destructive=True, open_world=False)
    async def set_breakpoint(
        self,
        target: _Target,
        file: _File,
        line: _Line,
        context: ToolContext,
        condition: Annotated[str, Field(max_length=5000)] = "",
        expressions: Annotated[list[_Code], Field(max_length=10)] = [],  # noqa: B006  never changed
        wait_seconds: _Seconds = 10.0,
    ) -> ToolOutput:
        """Wait until a line is reached, tell the call stack and the variables there, and let the process go on.

        The process stands still while it is looked at. The breakpoint is gone when the call is over.

        Args:
            target: The target that was attached to.
            file: The end of the script's path or URL, such as "src/server.js".
            line: The line, from 1.
            condition: Only when this JavaScript is true there.
            expressions: JavaScript whose values are wanted there.
            wait_seconds: For how long to wait.
        """
        seconds = min(wait_seconds, self.config.max_wait_seconds)
        async with self._session("set_breakpoint", target, context) as session:
            work = session.breakpoint(file, line, condition, expressions, seconds)
            return await _shown("set_breakpoint", work)

    @tool(destructive=True, open_world=False)
    async def set_logpoint(
        self,
        target: _Target,
        file: _File,
        line: _Line,
        expression: _Code,
        context: ToolContext,
        wait_seconds: _Seconds = 10.0,
        max_hits: Annotated[int, Field(ge=1, le=1000)] = 20,
    ) -> ToolOutput:
        """Collect what an expression gives each time that a line is reached. The process does not stand still.

        The logpoint is gone when the call is over.

        Args:
            target: The target that was attached to.
            file: The end of the script's path or URL, such as "src/server.js".
            line: The line, from 1.
            expression: JavaScript, evaluated there; what it changes stays changed.
            wait_seconds: For how long to collect.
            max_hits: After so many it ends.
        """
        seconds = min(wait_seconds, self.config.max_wait_seconds)
        async with self._session("set_logpoint", target, context) as session:
            return await _shown("set_logpoint", session.logpoint(file, line, expression, seconds, max_hits))

    @tool(destructive=False, open_world=False)
    async def profile_cpu(self, target: _Target, context: ToolContext, seconds: _Seconds = 5.0) -> ToolOutput:
        """Measure where the process spends its time, by function. It runs a little slower meanwhile.

        Args:
            target: The target that was attached to.
            seconds: For how long.
        """
        async with self._session("profile_cpu", target, context) as session:
            profile = await session.profile(min(seconds, self.config.max_wait_seconds), SAMPLING_US)
            return content(Data(orjson.dumps(hottest(profile)).decode()))

    # --- sessions -----------------------------------------------------------------------------------------------------

    def _target(self, name: str, target: str) -> InspectorTarget:
        for found in self.config.targets:
            if found.address.lower() == target.lower():
                return found
        known = ", ".join(found.address for found in self.config.targets)
        raise blocked(name, "blocked_target", f"the configuration has these targets: {known}")

    async def _attached(self, target: InspectorTarget) -> tuple[Session, dict[str, object]]:
        name = "inspector_attach"
        host, port = host_and_port(target.address)
        assert port is not None, "the configuration has checked it"
        near = is_loopback(host)
        if near and await anyio.to_thread.run_sync(listens_here, port):
            raise _self_refused()
        try:
            found = await discover(host, port)
            connection = await Connection.open(host, port, found.path, self.config.max_message_bytes)
        except (NoInspector, InspectorLost, OSError):
            raise failed(name, "no inspector of a Node process answers there", "no_inspector") from None
        session = Session(connection, self.config.max_pause_seconds)
        try:
            with _told(name):
                about = await session.about()
            pid = about.get("pid")
            if near and (not isinstance(pid, int) or await anyio.to_thread.run_sync(is_ours, pid)):
                raise _self_refused()
        except BaseException:
            await session.aclose()
            raise
        return session, {**about, "target": target.address, "title": found.title, "url": found.url}

    @asynccontextmanager
    async def _session(self, name: str, target: str, context: ToolContext) -> AsyncIterator[Session]:
        key = (context.caller.tenant, context.caller.principal, self._target(name, target).address.lower())
        held = self._held.get(key)
        if held is None:
            raise failed(name, "there is no session with this target: call inspector_attach first", "not_attached")
        held.in_use += 1
        try:
            async with held.session.lock:
                with _told(name):
                    yield held.session
        finally:
            held.in_use -= 1
            if held.session.connection.lost:
                self._drop(key)
            elif self._held.get(key) is held:
                self._wait_for_use(key, held)

    def _wait_for_use(self, key: _Key, held: _Held) -> None:
        if held.timer is not None:
            held.timer.cancel()
        loop = asyncio.get_running_loop()
        held.timer = loop.call_later(self.config.idle_seconds, self._idle, key, held)

    def _idle(self, key: _Key, held: _Held) -> None:
        if self._held.get(key) is held and not held.in_use:
            self._drop(key)

    def _drop(self, key: _Key) -> None:
        held = self._held.pop(key, None)
        if held is None:
            return
        if held.timer is not None:
            held.timer.cancel()
        task = asyncio.create_task(held.session.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def aclose(self) -> None:
        """End all sessions, within bounds: a process that is held goes on."""
        self._closed = True
        for key in tuple(self._held):
            self._drop(key)
        if self._closing:
            await asyncio.wait(set(self._closing), timeout=_CLOSE_SECONDS)


@contextmanager
def _told(name: str) -> Iterator[None]:
    """What goes wrong in a session is a failure of the tool."""
    try:
        yield
    except InspectorLost:
        raise failed(name, "the session has ended; attach again", "session_lost") from None
    except InspectorRefused:
        raise failed(name, "the inspector refused it", "refused") from None
    except TimeoutError:
        raise failed(name, "there was no answer in time", "timeout") from None


def _self_refused() -> ToolError:
    return blocked("inspector_attach", "blocked_self", "this is the service itself, or a process that it started")


async def _shown(name: str, work: Awaitable[Mapping[str, Any]]) -> ToolOutput:
    """The result, or what the process says against it: its words are for the model, none of them for the failure."""
    try:
        found = await work
    except Thrown as error:
        return _against(name, "threw", "the code threw", str(error))
    except InspectorRefused as error:
        return _against(name, "refused", "the inspector refused it", str(error))
    return content(Data(orjson.dumps(found).decode()))


def _against(name: str, code: str, words: str, said: str) -> ToolOutput:
    failure = Failure(FailurePhase.TOOL, Reason.TOOL_FAILED, f"{name}: {words}", origin=name, origin_code=code)
    return ToolOutput((Part("", Text(said)),), is_error=True, failure=failure)
