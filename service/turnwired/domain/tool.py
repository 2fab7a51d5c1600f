"""Tools as the model, callers and sources see them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class ToolSource(StrEnum):
    """Where a tool comes from. UNSPECIFIED: the model named a tool that no source has."""

    UNSPECIFIED = "UNSPECIFIED"
    LOCAL = "LOCAL"
    MCP = "MCP"
    CLIENT = "CLIENT"
    PROVIDER = "PROVIDER"
    GRPC = "GRPC"
    HOST = "HOST"
    OPERATOR = "OPERATOR"
    AGENT = "AGENT"


@dataclass(frozen=True, slots=True)
class ToolRef:
    """Names one tool: ``routed_name`` is what the model and callers use, ``native_name`` what its source uses."""

    routed_name: str
    native_name: str
    source: ToolSource
    server_id: str | None = None

    @property
    def origin(self) -> str:
        """Its source for people, such as ``mcp github``."""
        return f"{self.source.value.lower()} {self.server_id or ''}".strip()


@dataclass(frozen=True, slots=True)
class ToolAnnotations:
    """What a tool may do, as its source says. None: not told. Hints, never trusted for safety."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of the registry. The schemas are JSON Schema (2020-12) as JSON text.

    ``given_schema_json``: that of the input as its source gave it, where models are shown a simpler one; None: it is
    the one that they are shown.
    """

    ref: ToolRef
    description: str
    input_schema_json: str
    output_schema_json: str | None = None
    title: str = ""
    annotations: ToolAnnotations = field(default_factory=ToolAnnotations)
    lazy: bool = False
    given_schema_json: str | None = None


@dataclass(frozen=True, slots=True)
class ClientTool:
    """A tool that the caller executes. ``input_schema_json`` is JSON Schema (2020-12) as JSON text."""

    name: str
    description: str
    input_schema_json: str
    annotations: ToolAnnotations = field(default_factory=ToolAnnotations)


class CollisionResolution(StrEnum):
    """How a name that several tools claim was settled: all namespaced, the first source has it, or nobody has."""

    NAMESPACED = "NAMESPACED"
    PRIORITY = "PRIORITY"
    REJECTED = "REJECTED"


@dataclass(frozen=True, slots=True)
class ToolCollision:
    """Tools that claim one routed name. ``winner`` has it, or None when nobody has; ``losers`` are left out, or renamed
    where the resolution is NAMESPACED.
    """

    routed_name: str
    winner: ToolRef | None
    losers: tuple[ToolRef, ...]
    resolution: CollisionResolution

    @property
    def claimants(self) -> tuple[ToolRef, ...]:
        """All of them."""
        return self.losers if self.winner is None else (self.winner, *self.losers)

    def sentences(self) -> tuple[str, ...]:
        """What has become of each loser, one sentence for each, without a full stop."""
        name, holder = self.routed_name, self.winner
        if self.resolution is CollisionResolution.NAMESPACED:
            return tuple(f"{_named(it)} is called {it.routed_name!r}: others claim {name!r} too" for it in self.losers)
        why = "is claimed by others" if holder is None else f"belongs to {holder.native_name!r} of {holder.origin}"
        advice = "rename one, or give one source a namespace"
        return tuple(f"{_named(it)} is left out: the name {name!r} {why}; {advice}" for it in self.losers)


def _named(ref: ToolRef) -> str:
    return f"tool {ref.native_name!r} of {ref.origin}"


class ToolChoiceMode(StrEnum):
    """Whether the model may, must or must not call tools. UNSPECIFIED: the agent's setting."""

    UNSPECIFIED = "UNSPECIFIED"
    AUTO = "AUTO"
    NONE = "NONE"
    REQUIRED = "REQUIRED"


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """A mode, or exactly one tool by its routed name."""

    mode: ToolChoiceMode = ToolChoiceMode.UNSPECIFIED
    routed_name: str | None = None


@dataclass(frozen=True, slots=True)
class ToolSelection:
    """Which tools a run may see: included (all, when empty), not excluded, and within ``narrow`` when that is set.

    Patterns of routed names; ``*`` matches any run of characters. ``narrow`` is a request's own include, which can
    take away from what the agent allows but never add. ``client_tools`` are the caller's own, beside all of these.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    narrow: tuple[str, ...] = ()
    choice: ToolChoice = field(default_factory=ToolChoice)
    client_tools: tuple[ClientTool, ...] = ()
