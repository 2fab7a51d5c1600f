"""An MCP server over stdio that repeats its key, or nests its result: where, its argument says."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

WHERE, _, DEPTH = sys.argv[1].partition("=")
KEY = os.environ["API_KEY"]
INFO = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "r", "version": "1"}}
TEXT = {"content": [{"type": "text", "text": f"401: {KEY}"}], "isError": True}
ANSWERS: dict[str, Any] = {
    "initialize": INFO,
    "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
    "tools/call": TEXT,
}

print(f"my key is {KEY}", file=sys.stderr, flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    method, answer = request["method"], {"jsonrpc": "2.0", "id": request["id"]}
    if WHERE == "exit":
        sys.exit(3)
    if WHERE == "nested" and method == "tools/call":
        nested = "[" * int(DEPTH) + "]" * int(DEPTH)
        print(json.dumps(answer)[:-1] + f', "result": {{"content": [], "structuredContent": {{"a": {nested}}}}}}}')
    elif method == WHERE or method not in ANSWERS:
        print(json.dumps({**answer, "error": {"code": -32001, "message": f"I do not know {KEY}"}}))
    else:
        print(json.dumps({**answer, "result": ANSWERS[method]}))
    sys.stdout.flush()
