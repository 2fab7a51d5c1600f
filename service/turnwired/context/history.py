"""Which messages of a conversation a model is sent when it does not fit: whole groups, the oldest left out first. Pure.

A group is a user message, or an assistant's turn with all of its results. The window is a function of the messages in
their order, walked from the first: the next turn of a conversation walks the same way and so begins its request with
the same bytes, which is what prompt caches live from. Knows roles and sizes, never what a message says or who counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from turnwired.domain.message import Role


@dataclass(slots=True, eq=False)
class Piece:
    """One encoded message. ``counted``: by the tokenizer of which model, and its tokens; kept with the bytes."""

    data: bytes
    role: Role
    counted: tuple[str, int] | None = None

    def tokens(self, model: str) -> int | None:
        """Its tokens for a model, once they are counted."""
        counted = self.counted
        return counted[1] if counted is not None and counted[0] == model else None


@dataclass(frozen=True, slots=True)
class Cut:
    """What a call is sent less than the call before would have been with what came since."""

    messages: int
    tool_groups: int
    tokens_before: int
    tokens_after: int


@dataclass(slots=True, eq=False)
class _Group:
    index: int
    user: bool
    pieces: list[Piece] = field(default_factory=list[Piece])
    tokens: int = 0
    tools: bool = False
    kept: bool = False
    """Never left out: the last message of the user in the input of this run."""
    out: bool = False


def cut_to(limit: int) -> int:
    """What a history over its limit is cut to. A large step: the calls after it keep their prefix for a while."""
    return limit * 3 // 4


class History:
    """The messages of one request, in order, and the window of them that is sent."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._walked = 0
        self._groups: list[_Group] = []
        self._of_piece: list[_Group | None] = []
        self._first = 0  # of the groups: those before are left out, but for one of the user that is still spoken to
        self._user: _Group | None = None
        self._asked: Piece | None = None
        self._own = -1
        self._tokens = 0
        self._told = (0, 0, 0)
        self.learned: int | None = None
        """Tokens that a provider found too many."""

    def add(self, pieces: Sequence[Piece]) -> None:
        """Messages of the past. Those without bytes are left out."""
        self._pieces.extend(piece for piece in pieces if piece.data)

    def ask(self, pieces: Sequence[Piece]) -> None:
        """The input of this run: the last message of the user in it always stays."""
        self.add(pieces)
        self._asked = next((piece for piece in reversed(self._pieces) if piece.role is Role.USER), None)
        self._own = len(self._pieces)

    @property
    def pieces(self) -> Sequence[Piece]:
        """All of them."""
        return self._pieces

    def size(self) -> int:
        """Bytes of all of them: an upper bound of their tokens."""
        return sum(len(piece.data) for piece in self._pieces)

    def sent(self) -> tuple[bytes, ...]:
        """What is sent, in order."""
        if not any(group.out for group in self._groups[: self._first]):
            return tuple(piece.data for piece in self._pieces)
        left_out = {id(piece) for group in self._groups[: self._first] if group.out for piece in group.pieces}
        return tuple(piece.data for piece in self._pieces if id(piece) not in left_out)

    def total(self, model: str) -> int:
        """Tokens of all of them; each was counted for the model."""
        return sum(piece.tokens(model) or 0 for piece in self._pieces)

    def fit(self, model: str, limit: int) -> bool:
        """Walk on to the last message, leaving out the oldest groups whenever the limit is passed.

        False: what must stay is itself more than the limit. Each message was counted for the model.
        """
        for place in range(self._walked, len(self._pieces)):
            self._walk(place, self._pieces[place], model)
            if self._tokens > limit:
                self._leave_out(cut_to(limit))
        self._walked = len(self._pieces)
        return self._tokens <= limit

    def shorten(self, model: str) -> bool:
        """Leave out a quarter of what was sent, though it was thought to fit. False: there is nothing to leave out."""
        for place in range(self._walked, len(self._pieces)):
            self._walk(place, self._pieces[place], model)
        self._walked = len(self._pieces)
        before = self.learned = self._tokens
        self._leave_out(cut_to(before))
        return self._tokens < before

    def cut(self) -> Cut | None:
        """What was left out since this was asked before; None: nothing."""
        out = [group for group in self._groups[: self._first] if group.out]
        messages = sum(len(group.pieces) for group in out)
        tools = sum(group.tools for group in out)
        tokens = sum(group.tokens for group in out)
        known, self._told = self._told, (messages, tools, tokens)
        if known == self._told:
            return None
        return Cut(messages - known[0], tools - known[1], self._tokens + tokens - known[2], self._tokens)

    def _walk(self, place: int, piece: Piece, model: str) -> None:
        tokens = piece.tokens(model)
        assert tokens is not None, "counted before the walk"
        self._tokens += tokens
        if piece.role is Role.SYSTEM:
            return  # framing: no group, never left out
        group = self._group_of(place, piece)
        group.pieces.append(piece)
        group.tokens += tokens
        group.tools = group.tools or piece.role is Role.TOOL

    def _group_of(self, place: int, piece: Piece) -> _Group:
        last = self._groups[-1] if self._groups else None
        own = 0 <= self._own <= place
        if last is not None and _continues(last, piece, own=own):
            return last
        group = _Group(len(self._groups), piece.role is Role.USER)
        if group.user:
            self._spoken_to(group, piece)
        self._groups.append(group)
        return group

    def _spoken_to(self, group: _Group, piece: Piece) -> None:
        """A message of the user: the one before goes with its place, and what answered it, but for this run's."""
        group.kept = piece is self._asked
        before, self._user = self._user, group
        if before is not None and before.index < self._first and not before.out and not before.kept:
            self._drop(before)
            while self._first < group.index:
                self._pass()

    def _leave_out(self, target: int) -> None:
        """The oldest groups, never the last: its turn is open. What is left begins with a message of the user."""
        last = len(self._groups) - 1
        while self._tokens > target and self._first < last:
            self._pass()
        if self._user is None or self._user.index < self._first:
            return  # the user's message stays in front of what is left
        while self._first < last and not self._groups[self._first].user:
            self._pass()

    def _pass(self) -> None:
        group = self._groups[self._first]
        self._first += 1
        if group is not self._user and not group.kept:
            self._drop(group)

    def _drop(self, group: _Group) -> None:
        group.out = True
        self._tokens -= group.tokens


def _continues(last: _Group, piece: Piece, *, own: bool) -> bool:
    """Whether a message belongs to the group before it.

    Results do, and so does a turn that goes on with the one before it: a provider that paused wants both. What this run
    tells its model in the words of a user belongs to the turn that it is about.
    """
    if piece.role is Role.TOOL:
        return True
    if piece.role is Role.ASSISTANT:
        return last.pieces[-1].role is Role.ASSISTANT
    return own and not last.user
