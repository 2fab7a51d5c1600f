"""An MCP server over stdio that repeats its key in some part, nests its result, or never stops: its
argument says which.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import sys
from typing import Any

WHERE, _, HOW = sys.argv[1].partition("=")
KEY = os.environ["API_KEY"]
INFO = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "r", "version": "1"}}
PLACES: dict[str, Any] = {
    "text": {"content": [{"type": "text", "text": f"401: {KEY}"}]},
    "json": {"content": [{"type": "text", "text": json.dumps({"why": f"401: {KEY}"})}]},
    "bytes": {
        "content": [{"type": "image", "mimeType": "image/svg+xml", "data": base64.b64encode(KEY.encode()).decode()}]
    },
    "link": {"content": [{"type": "resource_link", "uri": f"http://a/?k={KEY}", "name": f"of {KEY}"}]},
    "resource": {"content": [{"type": "resource", "resource": {"uri": f"file:{KEY}", "blob": "AAAA"}}]},
    "ui": {"content": [{"type": "resource", "resource": {"uri": "ui://x", "text": KEY}}]},
    "unknown": {"content": [{"type": f"odd {KEY}", KEY: [KEY]}]},
    "structured": {"content": [], "structuredContent": {"why": [f"401: {KEY}"]}},
    "name": {"content": [], "structuredContent": {KEY: 1}},
    "number": {"content": [], "structuredContent": {"key": int(KEY) if KEY.isdigit() else KEY}},
}
TEXT = PLACES["text"] | {"isError": True}
NUMBERS = itertools.count(1)
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
    while WHERE == "flood" and method == "tools/call":
        given = {"message": "m", "requestedSchema": {"type": "object", "properties": {}}} if "elicit" in HOW else {}
        number = {} if HOW.startswith("notifications") else {"id": next(NUMBERS)}
        print(json.dumps({"jsonrpc": "2.0", **number, "method": HOW, "params": given}))
    if WHERE == "nested" and method == "tools/call":
        nested = "[" * int(HOW) + "]" * int(HOW)
        print(json.dumps(answer)[:-1] + f', "result": {{"content": [], "structuredContent": {{"a": {nested}}}}}}}')
    elif WHERE == "part" and method == "tools/call":
        print(json.dumps({**answer, "result": PLACES[HOW] | {"isError": True}}))
    elif method == WHERE or method not in ANSWERS:
        print(json.dumps({**answer, "error": {"code": -32001, "message": f"I do not know {KEY}"}}))
    else:
        print(json.dumps({**answer, "result": ANSWERS[method]}))
    sys.stdout.flush()
