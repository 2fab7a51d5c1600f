"""MCP servers as an operator sees them, to and from messages of the contract."""

from __future__ import annotations

from turnwire.v1 import mcp_server_service_pb2
from turnwired.codec.enums import MCP_SERVER_STATE, MCP_TRANSPORT
from turnwired.codec.values import failure_from_pb, failure_to_pb, time_from_pb, time_to_pb
from turnwired.domain.mcp import McpServerStatus


def server_to_pb(value: McpServerStatus, out: mcp_server_service_pb2.McpServer) -> None:
    """Times that are 0 stay unset."""
    out.server_id = value.server_id
    out.transport = MCP_TRANSPORT.to_wire[value.transport]
    out.endpoint = value.endpoint
    out.enabled = value.enabled
    out.state = MCP_SERVER_STATE.to_wire[value.state]
    out.namespace = value.namespace
    out.priority = value.priority
    out.protocol_version = value.protocol_version
    out.tool_count = value.tool_count
    out.reconnect_count = value.reconnect_count
    out.required, out.lazy, out.added = value.required, value.lazy, value.added
    if value.connect_time_ns:
        time_to_pb(value.connect_time_ns, out.connect_time)
    if value.next_attempt_time_ns:
        time_to_pb(value.next_attempt_time_ns, out.next_attempt_time)
    if value.last_failure is not None:
        failure_to_pb(value.last_failure, out.last_failure)


def server_from_pb(message: mcp_server_service_pb2.McpServer) -> McpServerStatus:
    """The same. Raises CodecError."""
    return McpServerStatus(
        server_id=message.server_id,
        transport=MCP_TRANSPORT.from_wire(message.transport, "transport"),
        endpoint=message.endpoint,
        state=MCP_SERVER_STATE.from_wire(message.state, "state"),
        namespace=message.namespace,
        enabled=message.enabled,
        required=message.required,
        lazy=message.lazy,
        added=message.added,
        priority=message.priority,
        protocol_version=message.protocol_version,
        tool_count=message.tool_count,
        connect_time_ns=time_from_pb(message.connect_time),
        reconnect_count=message.reconnect_count,
        next_attempt_time_ns=time_from_pb(message.next_attempt_time),
        last_failure=failure_from_pb(message.last_failure) if message.HasField("last_failure") else None,
    )
