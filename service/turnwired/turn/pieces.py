"""What an answer is made of while it grows: tool calls, parts of text, and parts that come whole. Plain state.

Each can have parts attached to it, which stand right behind it whenever they came; their ids tell so, since a log is in
the order in which things happened (see ``attached_id``).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from turnwired.domain.generation import NativeItem
from turnwired.domain.message import Part, ToolResult
from turnwired.domain.tool import ToolRef


class CallState(Enum):
    """Where a tool call stands. It only ever moves down this list, and SETTLED is entered once.

    ASKED: a person is asked about it. WITH_CALLER: the caller executes it, in place of EXECUTING.
    """

    STREAMED = auto()
    RESOLVING = auto()
    ASKED = auto()
    READY = auto()
    EXECUTING = auto()
    WITH_CALLER = auto()
    SETTLED = auto()


class Call:
    """One tool call, from its first byte to its result.

    ``complete``: the arguments ended well; ``arguments`` is empty before. ``damaged``: fragments were lost or cannot be
    told apart, so that it must not run. ``call_id`` is empty until the call is announced, which takes a name.
    ``waiting`` are native items that came before. ``repairs`` says what was changed in the arguments before it ran.
    ``asking``: its tool runs, and waits for the answer to a question of its own.
    """

    __slots__ = (
        "arguments",
        "asking",
        "attached",
        "call_id",
        "closed",
        "complete",
        "damaged",
        "fragments",
        "name",
        "provider_call_id",
        "repairs",
        "result",
        "sent",
        "state",
        "tool",
        "waiting",
    )

    def __init__(self, provider_call_id: str = "") -> None:
        self.call_id = ""
        self.provider_call_id = provider_call_id
        self.name = ""
        self.tool: ToolRef | None = None
        self.fragments: list[str] = []
        self.sent = 0
        self.closed = False
        self.complete = False
        self.damaged = False
        self.arguments = ""
        self.state = CallState.STREAMED
        self.result: ToolResult | None = None
        self.repairs: tuple[str, ...] = ()
        self.asking = False
        self.attached = 0
        self.waiting: list[NativeItem] = []

    @property
    def there(self) -> bool:
        """Whether readers know it."""
        return bool(self.call_id)

    @property
    def id(self) -> str:
        """The id that readers know it by."""
        return self.call_id


class Kind(Enum):
    """What a growing part of text is."""

    TEXT = auto()
    REASONING = auto()
    REFUSAL = auto()


class OpenPart:
    """A part of text while it grows. It exists for readers only once it is ``visible``.

    ``waiting`` are native items that came while it grew.
    """

    __slots__ = (
        "attached",
        "finished",
        "fragments",
        "id",
        "index",
        "kind",
        "redacted",
        "sent",
        "signature",
        "visible",
        "waiting",
    )

    def __init__(self, kind: Kind, index: int) -> None:
        self.kind = kind
        self.index = index
        self.id = ""
        self.fragments: list[str] = []
        self.sent = 0
        self.visible = False
        self.signature = b""
        self.redacted = False
        self.finished: Part | None = None
        self.attached = 0
        self.waiting: list[NativeItem] = []

    @property
    def there(self) -> bool:
        """Whether it is complete, so that something can stand behind it."""
        return self.finished is not None


class WholePart:
    """A part that came in one piece: something native, or a file."""

    __slots__ = ("attached", "part")

    def __init__(self, part: Part) -> None:
        self.part = part
        self.attached = 0

    @property
    def there(self) -> bool:
        """It is."""
        return True

    @property
    def id(self) -> str:
        """The part's id."""
        return self.part.part_id


Piece = Call | OpenPart | WholePart


def attached_id(owner_id: str, number: int) -> str:
    """The id of the part that is the ``number``-th, from 1, behind the part or call ``owner_id``."""
    return f"{owner_id}.{number}"


def place_of(part_id: str, ids: Sequence[str]) -> int:
    """Where a part belongs among ``ids`` of parts and calls in their order: behind its owner, else at the end."""
    owner, dot, _ = part_id.rpartition(".")
    if not dot or owner not in ids:
        return len(ids)
    place = ids.index(owner) + 1
    while place < len(ids) and ids[place].startswith(f"{owner}."):
        place += 1
    return place
