"""What is said between the server and an app that serves tools: calls out, pages of tools and frames in.

An app is foreign: what it says is taken only in the form that the contract has for it.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

import orjson

from turnwire.v1 import tool_host_registry_service_pb2 as registry_pb2
from turnwire.v1 import tool_host_service_pb2 as pb2
from turnwired.codec.enums import TOOL_HOST_STATE
from turnwired.codec.message import parts_from_pb
from turnwired.codec.parse import parse
from turnwired.codec.values import annotations_from_pb, failure_to_pb, time_to_pb
from turnwired.domain.errors import CodecError
from turnwired.domain.message import (
    MAX_RESULT_PARTS,
    AttachmentRef,
    Data,
    OpaqueBlock,
    Part,
    Reasoning,
    ToolCall,
    ToolResult,
)
from turnwired.domain.tool import Tool, ToolRef, ToolSource
from turnwired.domain.tool_host import HostedCall, HostedPage, HostedProgress, HostedResult, HostedTool, ToolHost

SERVICE: Final = pb2.DESCRIPTOR.services_by_name["ToolHostService"].full_name
LIST_TOOLS: Final = f"/{SERVICE}/ListTools"
WATCH_TOOLS: Final = f"/{SERVICE}/WatchTools"
CALL_TOOL: Final = f"/{SERVICE}/CallTool"
ANY_OBJECT: Final = '{"type":"object"}'


def encode_list_tools(known_version: str, page_token: str) -> bytes:
    """The request of ListTools."""
    request = pb2.ToolHostServiceListToolsRequest(known_version=known_version, page_token=page_token)
    return request.SerializeToString()


def decode_page(body: bytes, host_id: str, most: int) -> HostedPage:
    """The response of ListTools, with at most so many tools and routed names that are the app's own. Raises CodecError.

    An entry may be two bytes long: what is beyond ``most`` is counted only.
    """
    message = parse(pb2.ToolHostServiceListToolsResponse, body)
    tools = tuple(_tool(tool, host_id) for tool in islice(message.tools, most))
    cut = len(message.tools) - len(tools)
    return HostedPage(tools, message.version, message.unchanged, message.next_page_token, cut)


def encode_watch_tools() -> bytes:
    """The request of WatchTools."""
    return pb2.WatchToolsRequest().SerializeToString()


def decode_version(body: bytes) -> str:
    """The version in a response of WatchTools. Raises CodecError."""
    return parse(pb2.WatchToolsResponse, body).version


def encode_call(call: HostedCall) -> bytes:
    """The request of CallTool."""
    request = pb2.CallToolRequest(
        name=call.name,
        arguments_json=call.arguments_json,
        idempotency_key=call.idempotency_key,
        run_id=call.run_id,
        call_id=call.call_id,
        session_id=call.session_id,
        caller=pb2.ToolCaller(tenant=call.caller.tenant, principal=call.caller.principal),
        attempt=call.attempt,
    )
    return request.SerializeToString()


def decode_frame(body: bytes) -> HostedProgress | HostedResult | None:
    """A response of CallTool; None for a kind of frame that this version does not know. Raises CodecError."""
    message = parse(pb2.CallToolResponse, body)
    match message.WhichOneof("frame"):
        case "progress":
            progress = message.progress
            total = progress.total if progress.HasField("total") else None
            return HostedProgress(progress.done, total, progress.message)
        case "result":
            return _result(message.result)
        case _:
            return None


def tool_host_to_pb(value: ToolHost, out: registry_pb2.ToolHost) -> None:
    """All fields."""
    out.host_id = value.host_id
    out.address = value.address
    out.state = TOOL_HOST_STATE.to_wire[value.state]
    out.tool_count = value.tool_count
    out.version = value.version
    if value.lease_expire_ns:
        time_to_pb(value.lease_expire_ns, out.lease_expire_time)
    if value.failure is not None:
        failure_to_pb(value.failure, out.failure)


def _tool(message: pb2.HostedTool, host_id: str) -> HostedTool:
    tool = Tool(
        ref=ToolRef(message.name, message.name, ToolSource.HOST, host_id),
        description=message.description,
        input_schema_json=message.input_schema_json or ANY_OBJECT,
        output_schema_json=message.output_schema_json if message.HasField("output_schema_json") else None,
        title=message.title,
        annotations=annotations_from_pb(message.annotations),
    )
    return HostedTool(tool, message.deduplicated)


def _result(message: pb2.HostedToolResult) -> HostedResult:
    # One more than a result may have, so that it is seen to be cut: an entry may be two bytes long.
    content = parts_from_pb(islice(message.content, MAX_RESULT_PARTS + 1), "content")
    for index, part in enumerate(content):
        _check(part, f"content[{index}]")
    structured = message.structured_json if message.HasField("structured_json") else None
    if structured is not None and not _is_json(structured):
        raise CodecError("is not JSON", "structured_json")
    return HostedResult(content, structured, message.is_error)


def _check(part: Part, path: str) -> None:
    match part.content:
        case Reasoning() | ToolCall() | ToolResult() | AttachmentRef():
            raise CodecError("is of a kind that a result does not have", path)
        case Data(text) if not _is_json(text):
            raise CodecError("is not JSON", f"{path}.data_json")
        case OpaqueBlock(value_json=text) if not _is_json(text):
            raise CodecError("is not JSON", f"{path}.opaque.value_json")
        case _:
            pass


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True
