"""The smallest MCP server over standard streams: one tool that says ok. Standard library only, so that it is fast."""

from __future__ import annotations

import json
import sys

TOOL = {
    "name": "mcp_noop",
    "description": "Do nothing and say ok.",
    "inputSchema": {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "string"}},
        "required": ["x", "y"],
    },
}
NEWEST = "2025-11-25"


def answer(method: str, params: dict[str, object]) -> dict[str, object] | None:
    """The result of a request, None for a method that this server has not."""
    match method:
        case "initialize":
            return {
                "protocolVersion": params.get("protocolVersion", NEWEST),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "bench", "version": "1"},
            }
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            return {"content": [{"type": "text", "text": "ok"}], "isError": False}
        case "ping":
            return {}
        case _:
            return None


def main() -> None:
    """Answer one message a line until the input ends."""
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        result = answer(message["method"], message.get("params") or {})
        outcome = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no such method"}}
        sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
