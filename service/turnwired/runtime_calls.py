"""Python functions of a program as tools of one of its turns: executed beside the run's reader, in the caller's task.

The run hands their calls out like those of any caller's tools; here they are made and their results handed in. It knows
the events of one run and the engine's steering, never how the run is executed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from turnwired.domain.errors import RequestError, StoreError, ToolError
from turnwired.domain.event import LoggedEvent, ToolCallArgumentsFinished, ToolCallExecuting, ToolCallStarted
from turnwired.domain.faults import where_raised
from turnwired.domain.message import Part, Text
from turnwired.domain.run import Caller
from turnwired.domain.tool import ClientTool, ToolSelection, ToolSource
from turnwired.engine.service import Engine
from turnwired.engine.steering import Handed
from turnwired.stray import ANY_FAULT, require_stray
from turnwired.tools.port import ToolInvocation, ToolOutput
from turnwired.tools.python import PythonToolset
from turnwired.tools.schema import parse_arguments

logger = logging.getLogger(__name__)


class OwnCalls:
    """The calls of one run that functions of the program answer. ``close`` it: what still runs then is cancelled."""

    def __init__(self, functions: Sequence[Callable[..., object]]) -> None:
        self._toolset = PythonToolset(functions)
        self._names: dict[str, str] = {}
        self._arguments: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def selection(self, asked: ToolSelection) -> ToolSelection:
        """What is asked for, with the functions as tools of the caller."""
        own = tuple(
            ClientTool(tool.ref.native_name, tool.description, tool.input_schema_json, tool.annotations)
            for tool in await self._toolset.tools()
        )
        return replace(asked, client_tools=(*asked.client_tools, *own))

    def take(self, engine: Engine, caller: Caller, run_id: str, session_id: str | None, logged: LoggedEvent) -> None:
        """Make a call that the run hands out."""
        event = logged.event
        match event:
            case ToolCallStarted(call_id) if event.tool is not None and event.tool.source is ToolSource.CLIENT:
                self._names[call_id] = event.tool.routed_name
            case ToolCallArgumentsFinished(call_id, arguments) if call_id in self._names:
                self._arguments[call_id] = arguments
            case ToolCallExecuting(call_id) if call_id in self._names:
                name, arguments = self._names[call_id], self._arguments.get(call_id, "")
                given = parse_arguments(arguments)
                invocation = ToolInvocation(
                    run_id, call_id, name, {} if isinstance(given, str) else given, caller, session_id
                )
                task = asyncio.get_running_loop().create_task(self._call(engine, invocation))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            case _:
                pass

    async def _call(self, engine: Engine, invocation: ToolInvocation) -> None:
        call_id = invocation.call_id
        try:
            handed = _handed(call_id, await self._toolset.call(invocation))
        except ToolError as error:
            handed = Handed(call_id, (Part("", Text(error.failure.message)),), is_error=True)
        try:
            await engine.steering.submit(invocation.caller, invocation.run_id, [handed])
        except (RequestError, StoreError) as error:  # the run has ended, or cannot be stored: its reader learns that
            logger.info("run %s: the result of %s was not taken: %s", invocation.run_id, call_id, error)
        except ANY_FAULT as error:  # task boundary: the run waits for its result until that expires
            require_stray(error)
            logger.error("run %s: the result of %s was not taken: %s", invocation.run_id, call_id, where_raised(error))  # noqa: TRY400 - never its text

    async def close(self) -> None:
        """Cancel what still runs, and wait for it."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._toolset.aclose()


def _handed(call_id: str, output: ToolOutput) -> Handed:
    return Handed(call_id, output.content, output.structured_json, output.is_error)
