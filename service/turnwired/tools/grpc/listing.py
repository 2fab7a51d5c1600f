"""What of a service becomes tools, under which names, and what is left out and why. Pure; takes seconds for thousands.

A method that takes one message is a tool, whether it answers with one or with a stream. One that takes a stream is
none: a model gives all its arguments at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    return pattern_of(patterns).match(service) if patterns else not service.startswith(_OF_GRPC)


def listing_of(
    set_id: str,
    linked: Linked,
    services: Iterable[str],
    patterns: tuple[str, ...],
    unknown: Mapping[str, str],
    given_up: Callable[[], bool] = lambda: False,
) -> Listing:
    """The tools of these services.

    ``patterns``: what was asked for. ``unknown``: services that nothing is known of. Raises TimeoutError soon after
    ``given_up`` has become true.
    """
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
        if not any(pattern_of((pattern,)).match(name) for name in offered)
    ]
    if len(methods) > MAX_METHODS:
        left_out.append(_left_out(set_id, f"{len(methods) - MAX_METHODS} methods", f"{MAX_METHODS} are the most"))
        methods = methods[:MAX_METHODS]
    streams = [method for method in methods if method.client_streaming]
    left_out += [_left_out(set_id, method.full_name, "it takes a stream of requests") for method in streams]
    return _Lister(set_id, linked, left_out, given_up).listing([m for m in methods if not m.client_streaming])


@dataclass(slots=True)
class _Lister:
    set_id: str
    linked: Linked
    left_out: list[Failure]
    given_up: Callable[[], bool]
    schemas: dict[str, str] = field(default_factory=dict[str, str])

    def listing(self, methods: Sequence[MethodDescriptor]) -> Listing:
        tools: list[Tool] = []
        found: dict[str, Method] = {}
        for name, descriptor in zip(tool_names(methods), methods, strict=True):
            if self.given_up():
                raise TimeoutError
            if name in found:
                why = f"another method is called {name} too"
                self.left_out.append(_left_out(self.set_id, descriptor.full_name, why))
                continue
            path = f"/{descriptor.containing_service.full_name}/{descriptor.name}"
            found[name] = Method(path, descriptor, annotations_of(descriptor))
            try:
                tools.append(self._tool(name, found[name]))
            except UnicodeDecodeError:
                why = "names in its messages are no UTF-8"
                self.left_out.append(_left_out(self.set_id, descriptor.full_name, why))
        return Listing(self.linked.pool, tuple(tools), tuple(self.left_out), found)

    def _tool(self, name: str, method: Method) -> Tool:
        descriptor, comments = method.descriptor, self.linked.comments
        words = [comments.get(descriptor.full_name) or f"Calls {descriptor.full_name}."]
        if method.streams:
            words.append("Gives what the service sends until it ends or a limit is reached.")
        if descriptor.GetOptions().deprecated:
            words.append("Deprecated.")
        request = descriptor.input_type
        schema = self.schemas.get(request.full_name)
        if schema is None:
            schema = self.schemas[request.full_name] = schema_of(request, comments)
        return Tool(
            ref=ToolRef(routed_name=name, native_name=name, source=ToolSource.GRPC, server_id=self.set_id),
            description=" ".join(words),
            input_schema_json=schema,
            annotations=method.annotations,
        )


def _left_out(set_id: str, name: str, why: str) -> Failure:
    return Failure(
        phase=FailurePhase.ROUTING,
        reason=Reason.TOOL_QUARANTINED,
        message=f"{name!r} of {set_id!r} is left out: {why}",
        origin=f"{set_id}/{name}",
    )
