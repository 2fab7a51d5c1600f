"""What a server says when a call fails, as an exception with fields. A run that exists ends in band instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from turnwire.cursor import DETAILS_KEY

# google.rpc, as far as it is read here, in a pool of its own: the package that has all of it would be one more
# dependency, and may be loaded by others.
_STRING, _MESSAGE = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_MESSAGE
_ONE, _MANY = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED


def _google_rpc() -> FileDescriptorProto:
    file = FileDescriptorProto(name="turnwire/google_rpc.proto", package="google.rpc", syntax="proto3")
    file.dependency.extend([any_pb2.DESCRIPTOR.name, duration_pb2.DESCRIPTOR.name])
    status = file.message_type.add(name="Status")
    status.field.add(name="details", number=3, type=_MESSAGE, label=_MANY, type_name=".google.protobuf.Any")
    retry = file.message_type.add(name="RetryInfo")
    retry.field.add(name="retry_delay", number=1, type=_MESSAGE, label=_ONE, type_name=".google.protobuf.Duration")
    info = file.message_type.add(name="ErrorInfo")
    info.field.add(name="reason", number=1, type=_STRING, label=_ONE)
    info.field.add(name="domain", number=2, type=_STRING, label=_ONE)
    entries = ".google.rpc.ErrorInfo.MetadataEntry"
    info.field.add(name="metadata", number=3, type=_MESSAGE, label=_MANY, type_name=entries)
    entry = info.nested_type.add(name="MetadataEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=_STRING, label=_ONE)
    entry.field.add(name="value", number=2, type=_STRING, label=_ONE)
    return file


def _messages() -> dict[str, Any]:
    pool = DescriptorPool()
    for known in (any_pb2.DESCRIPTOR, duration_pb2.DESCRIPTOR):
        pool.AddSerializedFile(known.serialized_pb)
    file = _google_rpc()
    pool.AddSerializedFile(file.SerializeToString())
    names = [f"google.rpc.{message.name}" for message in file.message_type]
    return {name: GetMessageClass(pool.FindMessageTypeByName(name)) for name in names}


_RPC = _messages()


@dataclass(eq=False)
class TurnwireError(Exception):
    """An error that a Turnwire server gave, from google.rpc.ErrorInfo and RetryInfo in the details of the status.

    ``reason`` is a name of the enum ``Reason`` without its prefix, such as AGENT_NOT_FOUND; ``metadata`` says what it
    is about. ``retry_delay``: seconds, where the server says when to try again. The gRPC error is its ``__cause__``.
    """

    code: grpc.StatusCode
    message: str
    reason: str
    domain: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    retry_delay: float | None = None

    def __str__(self) -> str:
        return f"{self.code.name} ({self.reason}): {self.message}"


def error_of(error: grpc.RpcError) -> TurnwireError | None:
    """What a gRPC error says; None for one that no Turnwire server made, such as that of a broken connection."""
    if not isinstance(error, grpc.Call | grpc.aio.AioRpcError):
        return None
    details = dict(error.trailing_metadata() or ()).get(DETAILS_KEY)
    if not isinstance(details, bytes):
        return None
    info, delay = _RPC["google.rpc.ErrorInfo"](), None
    for detail in _RPC["google.rpc.Status"].FromString(details).details:
        match detail.type_url.rpartition("/")[2]:
            case "google.rpc.ErrorInfo" as name:
                info = _RPC[name].FromString(detail.value)
            case "google.rpc.RetryInfo" as name:
                delay = _RPC[name].FromString(detail.value).retry_delay.ToNanoseconds() / 1e9
            case _:
                pass
    return TurnwireError(error.code(), error.details() or "", info.reason, info.domain, dict(info.metadata), delay)
