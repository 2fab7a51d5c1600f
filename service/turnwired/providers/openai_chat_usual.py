"""The usual chunks of a chat completions stream, decoded by type. Knows their shape and no more.

Nearly every chunk has one choice with text, reasoning or a fragment of arguments, or its end, or usage alone. Decoding
only that costs 0.6 us where decoding everything costs 2 us. Whatever else a chunk has makes the typed decode fail, and
the chunk goes the general way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, Protocol, cast

import msgspec


class UsualFunction(msgspec.Struct, gc=False):
    """More of the arguments of a call."""

    arguments: str
    name: None = None


class UsualCall(msgspec.Struct, gc=False):
    """A call that was opened before."""

    index: int
    function: UsualFunction
    id: None = None
    extra_content: None = None


class UsualDelta(Protocol):
    """What is new. ``first`` and ``second``: the first two of the fields that reasoning may be in."""

    content: str | None
    first: str | None
    second: str | None
    tool_calls: tuple[UsualCall, ...] | None


class UsualChoice(Protocol):
    """The only choice."""

    delta: UsualDelta
    finish_reason: str | None


class UsualChunk(Protocol):
    """A chunk. ``id`` and ``model`` only in the form for a stream that did not say them yet."""

    choices: tuple[UsualChoice, ...]
    usage: dict[str, Any] | None
    id: str | None
    model: str | None


Decode = Callable[[bytes], UsualChunk]


@lru_cache(maxsize=64)
def usual_decoders(reasoning_fields: tuple[str, ...]) -> tuple[Decode, Decode]:
    """Decoders for the chunks of a stream that did not name itself yet, and for those after.

    Raises ValueError for names that cannot be those of fields, or are those of others.
    """
    names = dict(zip(("first", "second"), (*reasoning_fields, "(no field)", "(none)"), strict=False))
    others = reasoning_fields[2:]
    rest = {f"other{i}": name for i, name in enumerate(others)}
    delta = msgspec.defstruct(
        "Delta",
        [
            ("content", str | None, None),
            ("first", str | None, None),
            ("second", str | None, None),
            ("tool_calls", tuple[UsualCall, ...] | None, None),
            *((name, None, None) for name in ("refusal", "function_call", "extra_content", "images")),
            # OpenRouter has an empty list in every chunk without reasoning.
            ("reasoning_details", tuple[()] | None, None),
            *((name, None, None) for name in rest),
        ],
        rename={**names, **rest},
        gc=False,
    )
    choice = msgspec.defstruct(
        "Choice",
        [("delta", delta), ("index", Literal[0], 0), ("finish_reason", str | None, None), ("message", None, None)],
        gc=False,
    )
    members: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        ("choices", tuple[choice, ...]),  # type: ignore[valid-type]
        ("usage", dict[str, Any] | None, None),
        ("error", None, None),
        ("x_groq", None, None),
    ]
    names_too: list[tuple[str, Any, Any]] = [("id", str | None, None), ("model", str | None, None)]
    first = msgspec.defstruct("FirstChunk", [*members, *names_too], gc=False)
    later = msgspec.defstruct("Chunk", members, gc=False)
    # The structs are made here, so that no checker can know that they have what the protocols say.
    return cast("Decode", msgspec.json.Decoder(first).decode), cast("Decode", msgspec.json.Decoder(later).decode)
