"""The tools of one run: what may be called, and what the model is shown of it, from iteration to iteration.

What is shown only grows: what comes is put behind what was there, and what goes is still shown, though a call of it is
refused, so that the beginning of the request stays what a provider has cached. It knows views by their port.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import cast

from turnwired.domain.event import (
    LoggedEvent,
    RunStarted,
    ToolCallFinished,
    ToolCallStarted,
    ToolsChangeCause,
    ToolsChanged,
)
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import ToolResult, ToolResultStatus
from turnwired.domain.policy import ArgumentValidation
from turnwired.domain.tool import Tool, ToolRef
from turnwired.tools.port import CheckedCall, ToolView

Look = Callable[[ToolView], Awaitable[ToolView]]
"""The view as the sources are now; the same object where nothing has changed."""


class RunTools:
    """Fixed in an iteration; ``revise`` before each but the first.

    ``always``: a tool that is shown wherever it comes from, such as one that is to be called first.
    """

    def __init__(self, view: ToolView, look: Look, always: str | None = None) -> None:
        self.view = view
        self._look = look
        self._always = always
        self._lazy = view.finder is not None
        self._shown: dict[str, Tool | None] = {}  # None: its definition went with an earlier process
        self._gone: dict[str, ToolView | None] = {}  # the view that had it last
        self._new: dict[str, Sequence[str]] = {}  # by the call that looked for it, in the order of the calls
        self._restored = False
        self._shown.update((name, view.tool(name)) for name in self._wanted())

    @property
    def shown(self) -> tuple[Tool, ...]:
        """What the model sees, in its order."""
        return tuple(tool for tool in self._shown.values() if tool is not None)

    @property
    def names(self) -> tuple[str, ...]:
        """Routed names of what the model sees."""
        return tuple(name for name, tool in self._shown.items() if tool is not None)

    @property
    def refs(self) -> Mapping[str, ToolRef]:
        """What the model may name, also if only to be told that it went."""
        gone = {name: view.refs[name] for name, view in self._gone.items() if view is not None}
        return {**self.view.refs, **gone} if gone else self.view.refs

    def check(self, routed_name: str, arguments_json: str, validation: ArgumentValidation) -> CheckedCall:
        """As the view does, but for a tool that went. One that was denied meanwhile is denied, not gone."""
        if routed_name in self._gone:
            before = self._gone[routed_name]
            checked = CheckedCall(None) if before is None else before.check(routed_name, arguments_json, validation)
            if checked.failure is not None and checked.failure.reason is Reason.TOOL_DENIED:
                return checked
            words = (
                f"{routed_name} is not there any more: its source went or no longer has it. Do not call it again; "
                "go on with the other tools, or without."
            )
            failure = Failure(FailurePhase.ROUTING, Reason.TOOL_NOT_FOUND, words, origin=routed_name)
            return CheckedCall(checked.tool, failure=failure)
        return self.view.check(routed_name, arguments_json, validation)

    def check_again(self, asked: ToolRef, arguments_json: str, validation: ArgumentValidation) -> CheckedCall:
        """A call that people were asked about before a restart. What has its name now may be another source's tool:
        that one nobody has approved.
        """
        checked = self.check(asked.routed_name, arguments_json, validation)
        if checked.tool in (asked, None):
            return checked
        words = (
            f"{asked.routed_name} is another tool now: its name has gone to another source since this call was asked "
            "about. It was not called. Call it anew if that is meant."
        )
        failure = Failure(FailurePhase.ROUTING, Reason.TOOL_NOT_FOUND, words, origin=asked.routed_name)
        return CheckedCall(checked.tool, failure=failure)

    def begun(self, call_id: str, routed_name: str) -> None:
        """A call runs. What several searches find stands in the order of the calls, whichever is done first."""
        if self._lazy and routed_name == self.view.finder:
            self._new.setdefault(call_id, ())

    def settled(self, result: ToolResult) -> None:
        """A call has its result: if it looked for tools, those that it found are shown from the next iteration on."""
        if result.call_id in self._new and result.status is ToolResultStatus.OK:
            self._new[result.call_id] = _found_in(result)

    def restore(self, past: Iterable[LoggedEvent]) -> None:
        """Stand where the log of the run ends. What was shown and is not there now goes with the next iteration."""
        names: dict[str, None] = {}
        gone: set[str] = set()
        for event in (item.event for item in past):
            match event:
                case RunStarted():
                    names = dict.fromkeys(event.tool_names)
                case ToolsChanged():
                    names.update(dict.fromkeys(event.added))
                    gone = (gone - set(event.added)) | set(event.removed)
                case ToolCallStarted(call_id, ToolRef() as tool):
                    self.begun(call_id, tool.routed_name)
                case ToolCallFinished(result):
                    self.settled(result)
                case _:
                    pass
        self._restored = True
        self._lazy = self.view.finder is not None and self.view.finder in names
        self._shown = {name: self.view.tool(name) for name in names}
        self._gone = {name: self.view if name in self.view.refs else None for name in names if name in gone}

    async def revise(self) -> tuple[ToolsChanged, ...] | None:
        """Take over what the sources have now and what was found. None: all is as it was; empty: unseen by the model.

        ``shown`` is other bytes only if an event names something as added or updated.
        """
        view = await self._look(self.view)
        if view is self.view and not self._new and not self._restored:
            return None
        self._restored = False
        before, self.view = self.view, view
        changes = [self._of_sources(before), self._of_found()]
        return tuple(change for change in changes if change.added or change.removed or change.updated)

    def _of_sources(self, before: ToolView) -> ToolsChanged:
        refs = self.view.refs
        updated: list[str] = []
        removed: list[str] = []
        added: list[str] = []
        for name, old in list(self._shown.items()):
            if name not in refs:
                if name not in self._gone:
                    removed.append(name)
                    self._gone[name] = before if name in before.refs else None
                if old is None:
                    del self._shown[name]
                continue
            tool = self.view.tool(name)
            if name in self._gone:
                added.append(name)
                del self._gone[name]
            elif old is not None and _described(old) != _described(tool):
                updated.append(name)
            self._shown[name] = tool
        for name in self._wanted():
            if name not in self._shown:
                added.append(name)
                self._shown[name] = self.view.tool(name)
                self._gone.pop(name, None)
        return ToolsChanged(ToolsChangeCause.SOURCES, tuple(added), tuple(removed), tuple(updated))

    def _of_found(self) -> ToolsChanged:
        found = dict.fromkeys(name for names in self._new.values() for name in names)
        added = [name for name in found if name not in self._shown and name in self.view.refs]
        for name in added:
            self._shown[name] = self.view.tool(name)
        self._new.clear()
        return ToolsChanged(ToolsChangeCause.FOUND, tuple(added))

    def _wanted(self) -> Sequence[str]:
        """What this run is to be shown of its view, in the order of the view."""
        if self._lazy:
            names = [tool.ref.routed_name for tool in self.view.offered]
            always = [self._always] if self._always is not None and self._always in self.view.refs else []
            return list(dict.fromkeys([*names, *always]))
        return [name for name in self.view.refs if name != self.view.finder]


def _described(tool: Tool | None) -> tuple[str, str] | None:
    return None if tool is None else (tool.description, tool.input_schema_json)


def _found_in(result: ToolResult) -> list[str]:
    """Names of the tools that a search found, which its structured result lists."""
    try:
        value: object = json.loads(result.structured_json or "{}")
    except ValueError:
        return []
    tools = cast("dict[str, object]", value).get("tools") if isinstance(value, dict) else None
    listed = cast("list[object]", tools) if isinstance(tools, list) else []
    items = [cast("dict[str, object]", item) for item in listed if isinstance(item, dict)]
    return [name for item in items if isinstance(name := item.get("name"), str)]
