"""The operator tools as a ``Toolset``: which are on, what each asks for, and how a call of one is made.

What the tools are it learns from their functions; who may see or call them is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import anyio
import anyio.to_thread

from turnwired.domain.approval import PermissionRequest
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.tool import Tool, ToolSource
from turnwired.tools.operator.asking import request_of
from turnwired.tools.operator.changing import FileChanging
from turnwired.tools.operator.config import OperatorConfig
from turnwired.tools.operator.fetch import Fetching, Resolver, SystemResolver
from turnwired.tools.operator.files import FileReading
from turnwired.tools.operator.inspector.tools import InspectorTools
from turnwired.tools.operator.rooted import Rooted
from turnwired.tools.port import ToolInvocation, ToolOutput
from turnwired.tools.python import PythonToolset
from turnwired.tools.threads import WorkerPool

SET_ID: Final = "operator"
MAX_THREADS: Final = 8
_LOOK_SECONDS: Final = 5.0


class OperatorToolset:
    """A ``Toolset`` over what the configuration turns on."""

    def __init__(self, config: OperatorConfig, resolver: Resolver | None = None) -> None:
        """``resolver``: who is asked for the addresses of names; by default the system."""
        self._config = config
        self._resolver = resolver or SystemResolver()
        self._rooted = None if config.files is None else Rooted(config.files)
        self._inspector = None if config.inspector is None else InspectorTools(config.inspector)
        self._functions = PythonToolset(self._all(), set_id=SET_ID, pool=WorkerPool(MAX_THREADS))
        self._missing: tuple[Failure, ...] = ()
        self._tools: tuple[Tool, ...] = ()

    @property
    def set_id(self) -> str:
        """The one set of operator tools."""
        return SET_ID

    @property
    def failure(self) -> Failure | None:
        """They are there once they are configured."""
        return None

    @property
    def left_out(self) -> Sequence[Failure]:
        """Roots that were not there at the start; their files are found once they are."""
        return self._missing

    async def start(self) -> None:
        """See whether the roots are there. Nothing else: what a call needs is opened by it."""
        if self._rooted is None:
            return
        with anyio.move_on_after(_LOOK_SECONDS):
            missing = await anyio.to_thread.run_sync(self._rooted.missing, abandon_on_cancel=True)
            words = "root {!r} of the file tools was no directory at the start"
            self._missing = tuple(
                Failure(
                    FailurePhase.ROUTING, Reason.TOOL_SOURCE_UNAVAILABLE, words.format(root.root_name), origin=SET_ID
                )
                for root in missing
            )

    async def tools(self) -> Sequence[Tool]:
        """The tools that are on."""
        if not self._tools:
            listed = await self._functions.tools()
            self._tools = tuple(replace(tool, ref=replace(tool.ref, source=ToolSource.OPERATOR)) for tool in listed)
        return self._tools

    def asks_for(self, native_name: str, arguments: Mapping[str, object]) -> PermissionRequest | None:
        """The permission of a tool is called as the tool is; its patterns are paths, hosts or targets."""
        request = request_of(self._config, native_name, arguments)
        if native_name not in self._config.always_ask:
            return request
        return replace(request, always_patterns=(), always_ask=True)

    async def call(self, invocation: ToolInvocation) -> ToolOutput:
        """Make the call; it is bounded and cancelled as any other."""
        return await self._functions.call(invocation)

    async def aclose(self) -> None:
        """End what is open."""
        await self._functions.aclose()
        if self._inspector is not None:
            await self._inspector.aclose()
        if isinstance(self._resolver, SystemResolver):
            self._resolver.pool.close()

    def _all(self) -> list[Callable[..., object]]:
        functions: list[Callable[..., object]] = []
        if self._rooted is not None:
            functions += FileReading(self._rooted).functions
            if self._rooted.config.writable:
                functions += FileChanging(self._rooted).functions
        if self._config.fetch is not None:
            functions += Fetching(self._config.fetch, self._resolver).functions
        if self._inspector is not None:
            functions += self._inspector.functions
        return functions
