"""Values of enumerations that only a newer contract has, at every place of every request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from execution.served import SECONDS, Served, served
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from rpc.server import details

from turnwire.v1 import agent_service_pb2, message_pb2, session_service_pb2, turn_service_pb2
from turnwired.testing.provider import answer

pytestmark = pytest.mark.anyio

UNKNOWN = 99
DEEPEST = 8
Path = tuple[FieldDescriptor, ...]


def enums(kind: Descriptor, above: Path = ()) -> Iterator[Path]:
    """The paths of all fields of a message that hold an enumeration. A map's path leads on in its values."""
    if kind.GetOptions().map_entry:
        kind = kind.fields_by_name["value"].message_type or kind
    for field in kind.fields:
        path = (*above, field)
        if field.type == FieldDescriptor.TYPE_ENUM:
            yield path
        elif field.message_type is not None and field not in above and len(path) < DEEPEST:
            yield from enums(field.message_type, path)


def put(message: Any, path: Path) -> None:
    """Set the field at the end of the path to a value that nobody knows."""
    for field in path[:-1]:
        inner = getattr(message, field.name)
        kind = field.message_type
        assert kind is not None, "only the last field of a path is not a message"
        if kind.GetOptions().map_entry:
            message = inner["name"]
        elif field.is_repeated:
            message = inner.add()
        else:
            inner.SetInParent()
            message = inner
    last = path[-1]
    if last.is_repeated:
        getattr(message, last.name).append(UNKNOWN)
    else:
        setattr(message, last.name, UNKNOWN)


def calls_with_unknown_values(s: Served) -> Iterator[tuple[str, Any]]:
    """One call for each such field, and a name that says which."""
    services = (
        (s.turns, turn_service_pb2, "TurnService"),
        (s.sessions, session_service_pb2, "SessionService"),
        (s.agents, agent_service_pb2, "AgentService"),
    )
    for stub, module, service in services:
        for method in module.DESCRIPTOR.services_by_name[service].methods:
            for path in enums(method.input_type):
                request = getattr(module, method.input_type.name)()
                if hasattr(request, "turn"):
                    request.turn.input.add(role=message_pb2.ROLE_USER).parts.add(text="Hello")
                if hasattr(request, "agent"):
                    request.agent.agent_id = "a"
                if hasattr(request, "run_id"):
                    request.run_id = "run_1"
                put(request, path)
                name = f"{method.name}: {'.'.join(field.name for field in path)}"
                yield name, (getattr(stub, method.name), request, method.server_streaming)


@pytest.mark.requirement("HOSTILE-11")
async def test_a_value_that_this_version_does_not_know_is_a_bad_request_wherever_it_stands() -> None:
    asked: list[str] = []
    taken: list[str] = []
    async with served([answer("Yes.")]) as s:
        for name, (method, request, streaming) in calls_with_unknown_values(s):
            asked.append(name)
            try:
                call = method(request, timeout=SECONDS)
                if streaming:
                    [frame async for frame in call]
                else:
                    await call
                taken.append(name)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.INVALID_ARGUMENT or not details(error)[1]:
                    taken.append(f"{name}: {error.code()} {error.details()}")
    assert taken == []
    assert {"PutAgent: agent.model.options.thinking.mode", "ResolvePolicy: model.options.thinking.mode"} <= set(asked)
    assert len(asked) > 100
