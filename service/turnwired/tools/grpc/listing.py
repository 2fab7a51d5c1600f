"""What of a service becomes tools, under which names, and what is left out and why. Pure; takes seconds for thousands.

A method that takes one message is a tool, whether it answers with one or with a stream. One that takes a stream is
none: a model gives all its arguments at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pool import DescriptorPool

from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.tool import Tool, ToolAnnotations, ToolRef, ToolSource
from turnwired.tools.grpc.descriptors import MAX_METHODS, Linked
from turnwired.tools.grpc.names import annotations_of, tool_names
from turnwired.tools.grpc.schema import schema_of
from turnwired.tools.naming import pattern_of

_OF_GRPC: Final = "grpc."


@dataclass(frozen=True, slots=True)
class Method:
    """One method as a tool. ``path`` is its name on the wire."""

    path: str
    descriptor: MethodDescriptor
    annotations: ToolAnnotations

    @property
    def streams(self) -> bool:
        """Whether it answers with a stream."""
        return bool(self.descriptor.server_streaming)

    @property
    def repeatable(self) -> bool:
        """Whether a second call does what the first did."""
        return bool(self.annotations.idempotent or self.annotations.read_only)


@dataclass(frozen=True, slots=True)
class Listing:
    """All tools of a service, and by native name what they call. ``pool`` has the types of their messages."""

    pool: DescriptorPool
    tools: Sequence[Tool]
    left_out: Sequence[Failure]
    methods: Mapping[str, Method] = field(default_factory=dict[str, Method])


def wants(patterns: tuple[str, ...], service: str) -> bool:
    """Whether a service is one of those that the configuration names; all but gRPC's own when it names none."""
    return pattern_of(patterns).fullmatch(service) is not None if patterns else not service.startswith(_OF_GRPC)


def listing_of(
    set_id: str, linked: Linked, services: Iterable[str], patterns: tuple[str, ...], unknown: Mapping[str, str]
) -> Listing:
    """The tools of these services. ``patterns``: what was asked for. ``unknown``: services that nothing is known of."""
    left_out = [_left_out(set_id, name, why) for name, why in sorted(unknown.items())]
    methods: list[MethodDescriptor] = []
    offered = set(services)
    for name in sorted(offered - unknown.keys()):
        service = linked.services.get(name)
        if service is None:
            file = linked.declared.get(name, "")
            why = linked.broken.get(file, "no file describes it")
            left_out.append(_left_out(set_id, name, f"its description cannot be used: {why}"))
            continue
        methods += service.methods
    left_out += [
        _left_out(set_id, pattern, "there is no such service")
        for pattern in patterns
        if not any(pattern_of((pattern,)).fullmatch(name) for name in offered)
    ]
    if len(methods) > MAX_METHODS:
        left_out.append(_left_out(set_id, f"{len(methods) - MAX_METHODS} methods", f"{MAX_METHODS} are the most"))
        methods = methods[:MAX_METHODS]
    streams = [method for method in methods if method.client_streaming]
    left_out += [_left_out(set_id, method.full_name, "it takes a stream of requests") for method in streams]
    return _listed(set_id, linked, [method for method in methods if not method.client_streaming], left_out)


def _listed(set_id: str, linked: Linked, methods: Sequence[MethodDescriptor], left_out: list[Failure]) -> Listing:
    tools: list[Tool] = []
    found: dict[str, Method] = {}
    for name, method in zip(tool_names(methods), methods, strict=True):
        if name in found:
            left_out.append(_left_out(set_id, method.full_name, f"another method is called {name} too"))
            continue
        path = f"/{method.containing_service.full_name}/{method.name}"
        found[name] = Method(path, method, annotations_of(method))
        try:
            tools.append(_tool(set_id, name, found[name], linked.comments))
        except UnicodeDecodeError:
            left_out.append(_left_out(set_id, method.full_name, "names in its messages are no UTF-8"))
    return Listing(linked.pool, tuple(tools), tuple(left_out), found)


def _tool(set_id: str, name: str, method: Method, comments: Mapping[str, str]) -> Tool:
    descriptor = method.descriptor
    words = [comments.get(descriptor.full_name) or f"Calls {descriptor.full_name}."]
    if method.streams:
        words.append("Gives what the service sends until it ends or a limit is reached.")
    if descriptor.GetOptions().deprecated:
        words.append("Deprecated.")
    return Tool(
        ref=ToolRef(routed_name=name, native_name=name, source=ToolSource.GRPC, server_id=set_id),
        description=" ".join(words),
        input_schema_json=schema_of(descriptor.input_type, comments),
        annotations=method.annotations,
    )


def _left_out(set_id: str, name: str, why: str) -> Failure:
    return Failure(
        phase=FailurePhase.ROUTING,
        reason=Reason.TOOL_QUARANTINED,
        message=f"{name!r} of {set_id!r} is left out: {why}",
        origin=f"{set_id}/{name}",
    )
