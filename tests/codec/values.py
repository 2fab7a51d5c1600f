"""Hypothesis strategies for domain values, made from their dataclass fields.

A new event or field is covered the moment it exists. ``NARROWED`` holds the fields that have less room on the wire
than their Python type, each with its reason.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any

from hypothesis import strategies as st

from turnwired.domain import event, policy, run, tool, usage

INT32 = st.integers(0, 2**31 - 1)
INT64 = st.integers(0, 2**63 - 1)
TEXT = st.text(max_size=12)
NANOSECONDS = st.integers(0, 10**15)
"""Up to eleven days: with more digits a float of seconds cannot tell nanoseconds apart."""


NARROWED: Mapping[object, st.SearchStrategy[Any]] = {
    # The contract has room for a mode or a name, not for both.
    tool.ToolChoice: st.one_of(
        st.builds(tool.ToolChoice, mode=st.sampled_from(tool.ToolChoiceMode)),
        st.builds(tool.ToolChoice, routed_name=TEXT),
    ),
    # What a request narrows is worked out when the run is prepared, and stays here.
    (tool.ToolSelection, "narrow"): st.just(()),
    # What a source gave is for those that list the tools of this process; the wire has what models are shown.
    (tool.Tool, "given_schema_json"): st.none(),
    # Where the files of a request are in its input is worked out when it is read, and stays here.
    (run.TurnSpec, "attachment_places"): st.just({}),
    # Who calls, and the digest of what was sent, are stored beside the turn.
    (run.TurnSpec, "caller"): st.just(run.Caller()),
    (run.TurnSpec, "digest"): st.just(b""),
    (run.TurnSpec, "caller_timeout"): st.none(),  # of the call that is being made, not of the turn
    # A limit of money is an amount, without a rate card and never half known.
    policy.CostLimit: st.one_of(
        st.builds(usage.Cost, currency_code=TEXT, amount_nanos=INT64), st.sampled_from(policy.LimitMode)
    ),
    policy.CostLimit | None: st.deferred(lambda: st.none() | NARROWED[policy.CostLimit]),
}

INT64_FIELDS = {
    *("sequence", "first_sequence", "last_sequence", "through_sequence", "epoch", "agent_revision"),
    *("amount_nanos", "original_size_bytes"),
    *("input_tokens", "output_tokens", "reasoning_tokens", "cache_read_tokens", "cache_write_tokens"),
    "max_output_tokens",
}


@functools.cache
def values(hint: Any, field: str = "") -> st.SearchStrategy[Any]:
    """A strategy for a type hint of the domain; ``field`` is the name of the field that has it."""
    if hint in NARROWED:
        return NARROWED[hint]
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return st.deferred(lambda: _dataclass(hint))
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([values(argument, field) for argument in arguments])
    if origin is tuple:
        return st.lists(values(arguments[0], field), max_size=3).map(tuple)
    if origin is Mapping:
        return st.dictionaries(TEXT, values(arguments[1], field), max_size=2)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    if hint is int:
        return NANOSECONDS if field.endswith("_ns") else INT64 if field in INT64_FIELDS else INT32
    simple: dict[Any, st.SearchStrategy[Any]] = {
        str: TEXT,
        bytes: st.binary(max_size=12),
        bool: st.booleans(),
        float: NANOSECONDS.map(lambda ns: ns / 1_000_000_000),
        type(None): st.none(),
    }
    return simple[hint]


def _dataclass(kind: type[Any]) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(kind)
    return st.builds(
        kind,
        **{
            field.name: NARROWED[kind, field.name]
            if (kind, field.name) in NARROWED
            else values(hints[field.name], field.name)
            for field in dataclasses.fields(kind)
        },
    )


EVENTS = st.one_of([values(kind) for kind in typing.get_args(event.Event)])
LOGGED_EVENTS = st.builds(
    event.LoggedEvent, sequence=INT64, time_ns=st.integers(0, 2**62), iteration=INT32, event=EVENTS
)
