"""Which model is called, why, and where the call is seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class ThinkingMode(StrEnum):
    """Whether a model reasons before it answers. UNSPECIFIED: the provider's default."""

    UNSPECIFIED = "UNSPECIFIED"
    ADAPTIVE = "ADAPTIVE"
    ENABLED = "ENABLED"
    DISABLED = "DISABLED"


@dataclass(frozen=True, slots=True)
class Thinking:
    """Reasoning before the answer; ``budget_tokens`` only with ENABLED."""

    mode: ThinkingMode = ThinkingMode.UNSPECIFIED
    budget_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """How a model generates, in the terms of the OpenTelemetry GenAI conventions. None: the provider's default."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    stop_sequences: tuple[str, ...] = ()
    thinking: Thinking = field(default_factory=Thinking)


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """Structured output: a JSON Schema (2020-12) that the final answer must match, and a name for it."""

    json_schema: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class OutputProblem:
    """What is wrong with a structured answer.

    ``words`` say where and what, without values, but may hold names that the model chose; ``rule`` is the path of the
    broken rule in the schema, empty when there is no value to look at.
    """

    words: str
    rule: str


@dataclass(frozen=True, slots=True)
class CheckedOutput:
    """A structured answer held against its schema: the JSON text of the value that counts, or what is wrong."""

    json: str | None
    problems: tuple[OutputProblem, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelSelection:
    """A model of a configured provider. ``provider_options_json`` is a JSON object the contract does not know."""

    provider: str
    model: str
    provider_options_json: str | None = None
    options: GenerationOptions = field(default_factory=GenerationOptions)


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
