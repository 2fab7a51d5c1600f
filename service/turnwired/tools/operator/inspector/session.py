"""What is done in a session with an inspector: values, pauses, lines that are reached, profiles.

Whatever is set in the process is taken away again by the call that set it, also when that is cancelled. Knows the
methods of the protocol, no tool and no configuration.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import anyio

from turnwired.tools.operator.inspector.connection import Connection, InspectorLost, InspectorRefused
from turnwired.tools.operator.inspector.values import GIVE_JSON, described, frames_of, short

REQUEST_SECONDS: Final = 5.0
CLEAN_SECONDS: Final = 2.0
_MARGIN_SECONDS: Final = 2.0
_GROUP: Final = "turnwire"
_NO_JSON: Final = frozenset({"error", "regexp", "promise", "proxy", "generator", "weakmap", "weakset"})
_MAX_SCOPES: Final = 3
_MAX_SCRIPTS: Final = 10_000
_MAX_VARIABLES: Final = 50
_MAX_HIT: Final = 2000
_TO_TEXT: Final = (
    "(f => {{ try {{ const v = f(); return String(typeof v === 'string' ? v : JSON.stringify(v)).slice(0, {most}) }}"
    " catch (e) {{ return ('threw ' + String(e)).slice(0, {most}) }} }})"
)
"""Of a function: what it gives, as text. Called where the line is, so that it sees what is there."""


class Thrown(Exception):
    """The code of the call threw, or cannot be compiled. The text is the process's."""


@dataclass(slots=True)
class Session:
    """A session with one process. Calls of it are made one at a time."""

    connection: Connection
    max_pause: float
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _paused: asyncio.Queue[Mapping[str, Any]] | None = None
    _awaited: str = ""
    _hits: list[str] = field(default_factory=list[str])
    _binding: str = ""
    _full: asyncio.Event = field(default_factory=asyncio.Event)
    _max_hits: int = 0
    _scripts: dict[str, str] = field(default_factory=dict[str, str])
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def __post_init__(self) -> None:
        self.connection.listener = self._event

    def _event(self, method: str, params: Mapping[str, Any]) -> None:
        match method:
            case "Debugger.paused":
                ours = self._awaited and self._awaited in params.get("hitBreakpoints", ())
                if ours and self._paused is not None and self._paused.empty():
                    self._paused.put_nowait(params)
                else:  # of a debugger statement, or of another time round: nobody looks, so nothing is held
                    self._beside(self._resume())
            case "Debugger.scriptParsed" if len(self._scripts) < _MAX_SCRIPTS:
                self._scripts[str(params.get("scriptId"))] = str(params.get("url", ""))
            case "NodeRuntime.waitingForDisconnect":  # the process wants to end, and waits for us
                self._beside(self.connection.aclose())
            case "Runtime.bindingCalled" if params.get("name") == self._binding:
                if len(self._hits) < self._max_hits:
                    self._hits.append(str(params.get("payload", ""))[:_MAX_HIT])
                if len(self._hits) >= self._max_hits:
                    self._full.set()
            case "Inspector.detached":
                self._full.set()
                if self._paused is not None and self._paused.empty():
                    self._paused.put_nowait({})
            case _:
                pass

    def _beside(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _resume(self) -> None:
        with suppress(InspectorLost, InspectorRefused, TimeoutError):
            await self.connection.request("Debugger.resume", CLEAN_SECONDS)

    async def about(self) -> Mapping[str, Any]:
        """Id and version of the process."""
        with suppress(InspectorRefused):  # of old versions: there a process that wants to end waits until it is idle
            await self._ask("NodeRuntime.notifyWhenWaitingForDisconnect", enabled=True)
        expression = "({pid: process.pid, version: process.version})"
        answer = await self._ask("Runtime.evaluate", expression=expression, returnByValue=True, silent=True)
        value = answer.get("result", {}).get("value")
        return value if isinstance(value, dict) else {}

    async def evaluate(self, expression: str, seconds: float) -> Mapping[str, Any]:
        """What an expression gives, awaited if it is a promise. Raises Thrown.

        Code that does not end is stopped after ``seconds`` by the process itself.
        """
        try:
            answer = await self.connection.request(
                "Runtime.evaluate",
                seconds + _MARGIN_SECONDS,
                expression=expression,
                objectGroup=_GROUP,
                includeCommandLineAPI=True,
                awaitPromise=True,
                timeout=round(seconds * 1000),
                silent=True,
            )
            _raise_thrown(answer)
            return await self._whole(answer.get("result", {}))
        finally:
            await self._clean(("Runtime.releaseObjectGroup", {"objectGroup": _GROUP}))

    async def _whole(self, remote: Mapping[str, Any]) -> Mapping[str, Any]:
        handle = remote.get("objectId")
        if handle is None or remote.get("type") == "function" or remote.get("subtype") in _NO_JSON:
            return described(remote)
        answer = await self._ask(
            "Runtime.callFunctionOn", functionDeclaration=GIVE_JSON, objectId=handle, returnByValue=True, silent=True
        )
        return described(remote, answer.get("result", {}).get("value"))

    async def breakpoint(
        self, file: str, line: int, condition: str, expressions: Sequence[str], seconds: float
    ) -> Mapping[str, Any]:
        """Wait until a line is reached, look, and let the process go on. Raises Thrown for a bad condition."""
        await self._compiles(condition)
        self._paused = asyncio.Queue(1)
        async with self._debugging():
            where = await self._set(file, line, condition)
            hit: Mapping[str, Any] | None = None
            with anyio.move_on_after(seconds):
                hit = await self._paused.get()
            if self.connection.lost:
                raise InspectorLost
            found: dict[str, object] = {"hit": hit is not None, "locations": where}
            if hit is not None:
                with anyio.move_on_after(self.max_pause) as scope:
                    await self._look(hit, expressions, found)
                if scope.cancelled_caught:
                    found["cut"] = f"the process is held for {self.max_pause:g} s at most"
                await self._resume()
            return found

    async def _look(self, hit: Mapping[str, Any], expressions: Sequence[str], found: dict[str, object]) -> None:
        frames = hit.get("callFrames", [])
        found["call_stack"] = frames_of(frames, self._scripts)
        if not frames:
            return
        values: dict[str, object] = {}
        for expression in expressions:
            values[expression] = await self._there(frames[0]["callFrameId"], expression)
        if values:
            found["expressions"] = values
        variables: dict[str, object] = {}
        for scope in [each for each in frames[0].get("scopeChain", []) if each.get("type") != "global"][:_MAX_SCOPES]:
            handle = scope.get("object", {}).get("objectId")
            answer = await self._ask("Runtime.getProperties", objectId=handle, ownProperties=True, generatePreview=True)
            for each in answer.get("result", [])[: _MAX_VARIABLES - len(variables)]:
                variables.setdefault(str(each.get("name"))[:200], short(each.get("value", {})))
        found["variables"] = variables

    async def _there(self, frame: str, expression: str) -> Mapping[str, Any]:
        """What an expression gives in a frame of the call stack."""
        milliseconds = round(self.max_pause * 1000)
        try:
            answer = await self._ask(
                "Debugger.evaluateOnCallFrame",
                callFrameId=frame,
                expression=expression,
                objectGroup=_GROUP,
                silent=True,
                timeout=milliseconds,
            )
        except InspectorRefused as error:  # it took too long
            return {"threw": str(error)}
        thrown = _thrown(answer)
        return {"threw": thrown} if thrown else await self._whole(answer.get("result", {}))

    async def logpoint(self, file: str, line: int, expression: str, seconds: float, max_hits: int) -> Mapping[str, Any]:
        """Collect what an expression gives each time that a line is reached; the process is never held."""
        await self._compiles(f"({expression}\n)")
        self._hits, self._max_hits, self._full = [], max_hits, asyncio.Event()
        self._binding = f"__turnwire_{secrets.token_hex(8)}"
        forget = {"expression": f"delete globalThis.{self._binding}", "silent": True}
        try:
            await self._ask("Runtime.enable")
            await self._ask("Runtime.addBinding", name=self._binding)
            async with self._debugging():
                condition = f"{self._binding}({_TO_TEXT.format(most=_MAX_HIT)}(() => ({expression}\n))), false"
                where = await self._set(file, line, condition)
                with anyio.move_on_after(seconds):
                    await self._full.wait()
            if self.connection.lost:
                raise InspectorLost
            return {"hits": list(self._hits), "complete": not self._full.is_set(), "locations": where}
        finally:
            removed = ("Runtime.removeBinding", {"name": self._binding})
            self._binding = ""
            await self._clean(removed, ("Runtime.evaluate", forget), ("Runtime.disable", {}))

    async def profile(self, seconds: float, interval_us: int) -> Mapping[str, Any]:
        """A profile of the processor's time, as the protocol has it."""
        await self._ask("Profiler.enable")
        try:
            await self._ask("Profiler.setSamplingInterval", interval=interval_us)
            await self._ask("Profiler.start")
            with anyio.move_on_after(seconds):
                await self.connection.ended.wait()
            answer = await self._ask("Profiler.stop")
        finally:
            await self._clean(("Profiler.disable", {}))
        profile: Mapping[str, Any] = answer.get("profile", {})
        return profile

    @asynccontextmanager
    async def _debugging(self) -> AsyncIterator[None]:
        """With the debugger on. Whatever happens, it is off at the end, and the process goes on."""
        try:
            await self._ask("Debugger.enable")
            yield
        finally:
            self._awaited, self._paused = "", None
            self._scripts.clear()
            await self._clean(
                ("Runtime.releaseObjectGroup", {"objectGroup": _GROUP}),
                ("Debugger.resume", {}),
                ("Debugger.disable", {}),
            )

    async def _set(self, file: str, line: int, condition: str) -> list[str]:
        """Set the breakpoint; where it is now. A file is named by the end of its URL."""
        pattern = f"(^|[/\\\\]){re.escape(file.lstrip('/'))}$"
        answer = await self._ask(
            "Debugger.setBreakpointByUrl", urlRegex=pattern, lineNumber=line - 1, condition=condition
        )
        self._awaited = str(answer.get("breakpointId", ""))
        return [f"line {int(each.get('lineNumber', 0)) + 1}" for each in answer.get("locations", [])[:10]]

    async def _compiles(self, code: str) -> None:
        if not code:
            return
        try:
            await self._ask("Runtime.enable")
            answer = await self._ask("Runtime.compileScript", expression=code, sourceURL="", persistScript=False)
        finally:
            await self._clean(("Runtime.disable", {}))
        _raise_thrown(answer)

    async def _ask(self, method: str, **params: object) -> Mapping[str, Any]:
        return await self.connection.request(method, REQUEST_SECONDS, **params)

    async def _clean(self, *requests: tuple[str, Mapping[str, object]]) -> None:
        """Take away what was set. A process that does not answer loses the session, and with it all that was set."""
        with anyio.move_on_after(CLEAN_SECONDS, shield=True) as scope:
            for method, params in requests:
                with suppress(InspectorRefused):
                    try:
                        await self.connection.request(method, CLEAN_SECONDS, **params)
                    except InspectorLost:
                        return
                    except TimeoutError:
                        break
            else:
                return
        if scope.cancelled_caught or not self.connection.lost:
            await self.connection.aclose()

    async def aclose(self) -> None:
        """End the session."""
        await self.connection.aclose()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=CLEAN_SECONDS)


def _thrown(answer: Mapping[str, Any]) -> str:
    details = answer.get("exceptionDetails")
    if not isinstance(details, dict):
        return ""
    exception = details.get("exception", {})
    return str(exception.get("description") or exception.get("value") or details.get("text") or "it threw")[:_MAX_HIT]


def _raise_thrown(answer: Mapping[str, Any]) -> None:
    if words := _thrown(answer):
        raise Thrown(words)
