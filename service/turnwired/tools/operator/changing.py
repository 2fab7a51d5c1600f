"""The file tools that change something: ``write_file`` and ``apply_patch``. They run in threads.

Where a path may lead is decided in ``paths`` and ``beneath``, who may call a tool elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from turnwired.domain.message import Text
from turnwired.tools.context import ToolContext
from turnwired.tools.operator.beneath import regular_file
from turnwired.tools.operator.failures import failed
from turnwired.tools.operator.files import FilePath, content
from turnwired.tools.operator.patching import FileChange, PatchError, applied, read_patch
from turnwired.tools.operator.paths import Place
from turnwired.tools.operator.reading import whole
from turnwired.tools.operator.rooted import Rooted, said
from turnwired.tools.operator.writing import Changed, Stamp, Transaction, stamp
from turnwired.tools.port import ToolOutput
from turnwired.tools.python import tool


@dataclass(frozen=True, slots=True)
class FileChanging:
    """The tools over the writable roots of a configuration."""

    rooted: Rooted

    @property
    def functions(self) -> Sequence[Callable[..., object]]:
        """The tools."""
        return (self.write_file, self.apply_patch)

    @tool(destructive=True, idempotent=True, open_world=False)
    def write_file(self, path: FilePath, text: str, context: ToolContext) -> ToolOutput:
        """Write a whole text file. Missing directories are made. To change a part of a file, use apply_patch.

        Args:
            path: The file, from the name of its root on, such as "project/src/main.py".
            text: All that will be in the file.
        """
        data = self._bytes("write_file", text)
        place = self.rooted.file("write_file", path, writable=True)
        transaction = Transaction()
        try:
            with said("write_file"):
                parent = transaction.own(self.rooted.opened_parent(place, make=True))
                before = stamp(parent, place.names[-1])
                transaction.write(parent, place.names[-1], before, data)
                _commit("write_file", transaction, context)
        finally:
            transaction.close()
        return content(Text(f"{'created' if before is None else 'replaced'}, {len(data)} bytes"))

    @tool(destructive=True, idempotent=False, open_world=False)
    def apply_patch(self, patch: Annotated[str, Field(min_length=1)], context: ToolContext) -> ToolOutput:
        """Change, create, move and delete text files with a unified diff. If a part does not fit, nothing is changed.

        Args:
            patch: The diff. Its headers (--- and +++) name files from their root on, such as a/project/src/main.py and
                b/project/src/main.py; /dev/null for a file that is created or deleted.
        """
        transaction = Transaction()
        try:
            changes = read_patch(patch)
            for number, change in enumerate(changes, 1):
                with said(f"apply_patch, file {number}"):
                    self._add(transaction, number, change)
            with said("apply_patch"):
                _commit("apply_patch", transaction, context)
        except PatchError as error:
            raise failed("apply_patch", f"{error}; nothing was changed", "patch_does_not_fit") from None
        finally:
            transaction.close()
        return content(Text("\n".join(_told(change) for change in changes)))

    def _add(self, transaction: Transaction, number: int, change: FileChange) -> None:
        tool_name = "apply_patch"
        text = ""
        source = None if change.source is None else self.rooted.file(tool_name, change.source, writable=True)
        target = None if change.target is None else self.rooted.file(tool_name, change.target, writable=True)
        before: Stamp | None = None
        if source is not None:
            parent = transaction.own(self.rooted.opened_parent(source, make=False))
            before, text = self._read(parent, source, number)
            if source != target:
                transaction.delete(parent, source.names[-1], before)
        if target is None:
            if applied(text, change, number):
                raise PatchError(f"file {number} is deleted, but not all of its lines are")
            return
        data = self._bytes(tool_name, applied(text, change, number))
        parent = transaction.own(self.rooted.opened_parent(target, make=True))
        now = stamp(parent, target.names[-1])
        if source != target and now is not None:
            raise PatchError(f"file {number} is created, but there is one of its name")
        transaction.write(parent, target.names[-1], before if source == target else None, data, before)

    def _read(self, parent: int, place: Place, number: int) -> tuple[Stamp, str]:
        with regular_file(parent, place.names[-1]) as opened:
            before = Stamp.of(os.fstat(opened))
            data = whole(opened, self.rooted.config.max_write_bytes)
        if data is None:
            most = self.rooted.config.max_write_bytes
            raise PatchError(f"file {number} is larger than {most} bytes")
        try:
            return before, data.decode()
        except UnicodeDecodeError:
            raise PatchError(f"file {number} is no UTF-8 text") from None

    def _bytes(self, tool_name: str, text: str) -> bytes:
        most = self.rooted.config.max_write_bytes
        try:
            data = text.encode()
        except UnicodeEncodeError:
            raise failed(tool_name, "the text is no valid Unicode", "not_text") from None
        if len(data) > most:
            raise failed(tool_name, f"{len(data)} bytes, {most} are the most; nothing was changed", "too_large")
        return data


def _commit(tool_name: str, transaction: Transaction, context: ToolContext) -> None:
    if context.cancelled:
        raise failed(tool_name, "it was cancelled; nothing was changed", "cancelled")
    try:
        transaction.commit()
    except Changed:
        words = "a file was changed meanwhile; nothing was changed; read it again"
        raise failed(tool_name, words, "changed_meanwhile") from None


def _told(change: FileChange) -> str:
    if change.source is None:
        return f"created {change.target}"
    if change.target is None:
        return f"deleted {change.source}"
    return f"changed {change.target}" if change.source == change.target else f"moved {change.source} to {change.target}"
