"""Which tool call a fragment of a chat completion belongs to. Knows the fields of a tool call and no more of the wire.

The documentation says: ``index`` tells, id and name come once, arguments come in fragments. In practice the index is
missing, always 0 or begins at 1; the id is empty, "null", repeated or shared by two calls; the name is repeated or
empty; the arguments are an object.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from turnwired.domain.generation import Irregularity, IrregularityFound, NativeItem, ToolCallClosed, ToolCallOpened
from turnwired.providers.batch import BatchBuilder
from turnwired.providers.errors import protocol_error
from turnwired.providers.json_reader import ValueScanner
from turnwired.providers.openai_chat_fields import dumps
from turnwired.providers.openai_chat_native import CALL_EXTRA, joined
from turnwired.providers.openai_chat_usual import UsualCall

MAX_CALLS = 1024
_STRAY = "Arguments came at a position where no call was opened"
PLACED = f"{_STRAY}. They were given to the only call that was not whole."
DAMAGING = f"{_STRAY}, while several calls were not whole. None of these is run."
LEFT_OUT = f"{_STRAY}, and every call was whole. They were left out."
_NO_ID = ("", "null")
_LEGACY = "function_call"


@dataclass(slots=True)
class _Call:
    part: int
    id: str
    name: str = ""
    opened: bool = False
    fragments: list[str] = field(default_factory=list[str])
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    _scanner: ValueScanner = field(default_factory=ValueScanner)
    _seen: int = 0
    _begun: bool = False
    _ended: bool = False
    _whole: bool = False

    @property
    def is_stray(self) -> bool:
        """Whether nothing came that says what it calls."""
        return not self.opened and not self.id and not self.name

    def complete(self) -> bool:
        """Whether the arguments so far are a whole JSON object, so that more of them cannot follow.

        Asked for each fragment where a server repeats the name, so that each fragment is only looked at once.
        """
        while self._seen < len(self.fragments):
            fragment = self.fragments[self._seen] if self._begun else self.fragments[self._seen].lstrip()
            if self._ended and fragment.strip():
                return False
            self._seen += 1
            self._begun = self._begun or bool(fragment)
            if fragment and not self._ended:
                _, self._ended = self._scanner.feed(fragment, 0)
                self._whole = self._ended and _is_object("".join(self.fragments[: self._seen]))
        return self._whole


class CallTracker:
    """Finds the call of each fragment and reports calls by position of appearance."""

    __slots__ = ("_batch", "_by_index", "_calls", "_held", "_latest", "_torn")

    def __init__(self, batch: BatchBuilder) -> None:
        self._batch = batch
        self._calls: list[_Call] = []
        self._by_index: dict[int | str, _Call] = {}
        self._latest: _Call | None = None
        self._held: list[tuple[_Call, str]] | None = None  # from the first fragment on that may be a stray
        self._torn: list[_Call] = []  # the calls that were not whole when it came

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def whole(self) -> bool:
        """Whether every call has a name and arguments that are a whole JSON object; so it is without any call."""
        return all(call.name and call.complete() for call in self._calls)

    def more(self, usual: Iterable[UsualCall]) -> None:
        """Take arguments that came with an index and nothing else."""
        for fragment in usual:
            index, arguments = fragment.index, fragment.function.arguments
            call = self._by_index.get(index)
            if call is not None and call.opened and arguments and self._held is None:
                self._latest = call
                call.fragments.append(arguments)
                self._batch.arguments(call.part, arguments)
            else:
                self._take(index, "", "", arguments)

    def fragment(self, raw: dict[str, Any]) -> None:
        """Take one entry of ``tool_calls``."""
        body = raw.get("function") or raw.get("custom") or {}
        if not isinstance(body, dict):
            raise protocol_error("The provider sent a tool call without a function.")
        index, call_id = raw.get("index"), raw.get("id")
        name, arguments = body.get("name"), body.get("arguments", body.get("input"))
        self._take(
            index if isinstance(index, int) else None,
            call_id if isinstance(call_id, str) and call_id not in _NO_ID else "",
            name if isinstance(name, str) else "",
            _as_text(arguments),
        )
        extra = raw.get("extra_content")
        if isinstance(extra, dict) and self._latest is not None:
            self._latest.extra = joined(self._latest.extra, extra)

    def legacy(self, raw: dict[str, Any]) -> None:
        """Take a ``function_call``, the form from before tool calls. Servers in use send it empty beside an answer."""
        name, arguments = raw.get("name"), _as_text(raw.get("arguments"))
        call = self._by_index.get(_LEGACY)
        if call is None:
            if not name and not arguments:
                return
            call = self._new(_LEGACY, "")
        self._append(call, name if isinstance(name, str) else "", arguments)

    def close(self, *, complete: bool) -> None:
        """The answer is over. Calls whose name never came are reported too; ``complete``: the provider ended them."""
        if complete:
            self._settle_strays()
        for call, fragment in self._release():
            self._append(call, "", fragment)
        for call in self._calls:
            if not call.opened:
                self._open(call)
        if complete:
            for call in self._calls:
                if call.extra:
                    self._batch.add(NativeItem(call.part, CALL_EXTRA, dumps(call.extra)))
                self._batch.add(ToolCallClosed(call.part))

    def _settle_strays(self) -> None:
        """What came at a place that was never opened belongs to the one call that was not whole when it came.

        In the order of arrival, which is why all is held from the first such fragment on. Where several were not whole
        it is no guess: none of those may run.
        """
        spoken = {id(call) for call, _ in self._held or ()}
        strays = [call for call in self._calls if call.is_stray and id(call) in spoken]
        if strays:
            self._calls = [call for call in self._calls if call not in strays]
            torn = self._torn
            message = PLACED if len(torn) == 1 else DAMAGING if torn else LEFT_OUT
            damaged = tuple(call.part for call in torn) if len(torn) > 1 else ()
            self._batch.add(IrregularityFound(Irregularity.STRAY_INDEX, message, damaged))
        owner = self._torn[0] if strays and len(self._torn) == 1 else None
        for call, fragment in self._release():
            if call not in strays:
                self._append(call, "", fragment)
            elif owner is not None:
                self._append(owner, "", fragment)

    def _release(self) -> list[tuple[_Call, str]]:
        held, self._held, self._torn = self._held, None, []
        return held or []

    def _take(self, index: int | None, call_id: str, name: str, arguments: str) -> None:
        call = self._find(index, call_id, name)
        if call is not None and self._is_another(call, call_id, name, arguments):
            call = None
        if call is None:
            call = self._new(index, call_id)
        if self._held is None and arguments and not name and call.is_stray:
            self._torn = [other for other in self._calls if other.opened and not other.complete()]
            self._held = []
        if self._held is None:
            self._append(call, name, arguments)
            return
        if arguments:
            self._held.append((call, arguments))
        if name:
            self._name(call, name)

    def _name(self, call: _Call, name: str) -> None:
        """A name came while fragments are held: the call is no stray, and perhaps nothing else is."""
        self._append(call, name, "")
        if not any(other.is_stray for other in self._calls):
            for owner, fragment in self._release():
                self._append(owner, "", fragment)

    def _find(self, index: int | None, call_id: str, name: str) -> _Call | None:
        if index is not None and (index in self._by_index or name or not call_id):
            return self._by_index.get(index)
        if call_id:
            return next((call for call in reversed(self._calls) if call.id == call_id), None)
        return self._latest

    def _is_another(self, call: _Call, call_id: str, name: str, arguments: str) -> bool:
        """Whether the fragment begins a call of its own, although it has the position of ``call``."""
        if not name or not call.name:
            return False
        if call_id and call.id:
            return call_id != call.id
        return bool(arguments) and call.complete()

    def _new(self, key: int | str | None, call_id: str) -> _Call:
        if len(self._calls) >= MAX_CALLS:
            raise protocol_error(f"The provider sent more than {MAX_CALLS} tool calls in one answer.")
        call = _Call(self._batch.new_part(), call_id)
        self._calls.append(call)
        if key is not None:
            self._by_index[key] = call
        return call

    def _append(self, call: _Call, name: str, arguments: str) -> None:
        self._latest = call
        if name and not call.opened:
            call.name = name
            self._open(call)
        if arguments:
            call.fragments.append(arguments)
            if call.opened:
                self._batch.arguments(call.part, arguments)

    def _open(self, call: _Call) -> None:
        call.opened = True
        self._batch.add(ToolCallOpened(call.part, call.id, call.name))
        for fragment in call.fragments:
            self._batch.arguments(call.part, fragment)


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, RecursionError):
        return False


def _as_text(arguments: object) -> str:
    """Arguments as the wire's text, or compact JSON where the wire has a value."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else dumps(arguments)
