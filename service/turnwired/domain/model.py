"""Which model is called, why, and where the call is seen."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class ModelSelection:
    """A model of a configured provider. ``provider_options_json`` is a JSON object the contract does not know."""

    provider: str
    model: str
    provider_options_json: str | None = None


@dataclass(frozen=True, slots=True)
class TraceContext:
    """Where to find a run in a tracing backend: lower-case hex, 32 and 16 digits; empty when not traced."""

    trace_id: str = ""
    span_id: str = ""


class IterationKind(StrEnum):
    """Why a model call is made."""

    STEP = "STEP"
    SYNTHESIS = "SYNTHESIS"
    STRUCTURED_OUTPUT = "STRUCTURED_OUTPUT"
