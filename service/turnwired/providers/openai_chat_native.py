"""What servers of chat completions want back word for word, gathered from the chunks of one answer. Pure.

``reasoning_details``: blocks of reasoning, which may be signed or encrypted; streamed in fragments. ``extra_content``:
of a call or of the whole message, such as the signature of a thought. Neither is shown, and nothing here knows what
is in them. Sources: OpenRouter, "Preserving reasoning blocks"; Gemini, "OpenAI compatibility, thought signatures".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from turnwired.domain.generation import NativeItem
from turnwired.providers.batch import BatchBuilder
from turnwired.providers.errors import protocol_error
from turnwired.providers.openai_chat_fields import dumps

REASONING_DETAILS = "reasoning_details"
CALL_EXTRA = "extra_content"
MESSAGE_EXTRA = "message.extra_content"
"""Another kind than a call's, since it may come right behind a call."""

MAX_KEPT_CHARS = 16 * 1024 * 1024
_GROWING = ("text", "summary")


@dataclass(slots=True)
class _Detail:
    """One block: its fields, and the fragments of those that grow."""

    fields: dict[str, Any]
    fragments: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def continues(self, raw: dict[str, Any]) -> bool:
        """Whether a fragment that comes next belongs to this block.

        Only next to each other: streams were seen in which every block has the index 0. Encrypted blocks come whole.
        """
        if not any(name in raw or name in self.fields for name in _GROWING) or "data" in raw:
            return False
        if self.fields.get("type") != raw.get("type") or self.fields.get("index") != raw.get("index"):
            return False
        return self.fields.get("id") is None or raw.get("id") in (None, self.fields["id"])

    def take(self, raw: dict[str, Any]) -> None:
        """Join a fragment: texts grow, of everything else the last that says something counts."""
        for name, value in raw.items():
            if name in _GROWING and isinstance(value, str):
                self.fragments.setdefault(name, []).append(value)
                self.fields.setdefault(name, "")
            elif value is not None or name not in self.fields:
                self.fields[name] = value

    def whole(self) -> dict[str, Any]:
        """The block as it is given back."""
        return {**self.fields, **{name: "".join(pieces) for name, pieces in self.fragments.items()}}


class KeptNatives:
    """Gathers over one answer. ``report`` adds each kind as one item, at the end."""

    __slots__ = ("_details", "_encrypted", "_extra", "_left")

    def __init__(self) -> None:
        self._details: list[_Detail] = []
        self._encrypted: set[bytes] = set()
        self._extra: dict[str, Any] = {}
        self._left = MAX_KEPT_CHARS

    def details(self, raw: list[Any], *, whole: bool) -> None:
        """Take ``reasoning_details``. ``whole``: of a plain answer, which has no fragments. Raises ProviderError."""
        for entry in raw:
            if not isinstance(entry, dict):
                continue
            self._spend(entry)
            last = self._details[-1] if self._details else None
            if last is not None and not whole and last.continues(entry):
                last.take(entry)
            elif self._is_new(entry):
                detail = _Detail({})
                detail.take(entry)
                self._details.append(detail)

    def add_extra(self, raw: dict[str, Any]) -> None:
        """Take ``extra_content`` of a message. Raises ProviderError."""
        self._spend(raw)
        self._extra = joined(self._extra, raw)

    def report(self, batch: BatchBuilder) -> None:
        """Add what was gathered, each as a part of its own."""
        if self._details:
            details = dumps([detail.whole() for detail in self._details])
            batch.add(NativeItem(batch.new_part(), REASONING_DETAILS, details))
        if self._extra:
            batch.add(NativeItem(batch.new_part(), MESSAGE_EXTRA, dumps(self._extra)))

    def _is_new(self, raw: dict[str, Any]) -> bool:
        """Whether no encrypted block is this one: the same twice would be refused when it is given back."""
        if "data" not in raw:
            return True
        before = len(self._encrypted)
        self._encrypted.add(hashlib.sha256(json.dumps(raw, sort_keys=True).encode()).digest())
        return len(self._encrypted) > before

    def _spend(self, raw: dict[str, Any]) -> None:
        self._left -= 64 + sum(len(value if isinstance(value, str) else dumps(value)) for value in raw.values())
        if self._left < 0:
            raise protocol_error(f"The provider sent more than {MAX_KEPT_CHARS} characters of reasoning details.")


def joined(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Both, objects entry by entry; otherwise what came later counts."""
    found = dict(before)
    for name, value in after.items():
        known = found.get(name)
        found[name] = joined(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return found
