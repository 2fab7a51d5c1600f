"""An MCP server over stdio whose list of tools is the JSON text that its argument, an expression, gives."""

from __future__ import annotations

import json
import sys
from typing import Any


def main() -> None:
    """Answer until the input ends."""
    tools = eval(sys.argv[1], {"json": json})
    for line in sys.stdin:
        message: dict[str, Any] = json.loads(line)
        if "id" not in message:
            continue
        match message["method"]:
            case "initialize":
                version = message["params"]["protocolVersion"]
                server = {"name": "lists", "version": "1"}
                said = json.dumps({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server})
                answer = f'"result":{said}'
            case "tools/list":
                answer = f'"result":{{"tools":{tools}}}'
            case _:
                answer = '"error":{"code":-32601,"message":"there is no such method"}'
        sys.stdout.write(f'{{"jsonrpc":"2.0","id":{message["id"]},{answer}}}\n')
        sys.stdout.flush()


main()
