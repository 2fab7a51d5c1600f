"""An MCP server over stdio that misbehaves on demand. Needs nothing but the standard library.

Options: ``modern`` or ``legacy`` (its era), ``mute``, ``silent-probe``, ``banner``, ``stderr-flood``, ``ignore-eof``,
``ignore-term``, ``grandchild``, ``refuse-list``, ``endless-list``, ``exit=CODE``, ``pages=JSON``,
``lists=JSON``, ``ledger=PATH``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any

OPTIONS = {name: value for name, _, value in (item.partition("=") for item in sys.argv[1:])}
MODERN = "modern" in OPTIONS
OBJECT = {"type": "object"}
NOTIFICATIONS: list[dict[str, Any]] = []
LISTED: list[int] = []
LOCK = threading.Lock()


def schema(**properties: str) -> dict[str, Any]:
    """An object schema with these required properties and their types."""
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }


TOOLS: list[Any] = [
    {"name": "echo", "description": "Say it again.", "inputSchema": schema(text="string")},
    {"name": "die", "inputSchema": OBJECT},
    {"name": "die_once", "inputSchema": OBJECT, "annotations": {"idempotentHint": True}},
    {"name": "hang", "inputSchema": OBJECT},
    {"name": "progress", "inputSchema": OBJECT},
    {"name": "seen", "inputSchema": OBJECT},
    {"name": "environment", "inputSchema": OBJECT},
    {"name": "meta", "inputSchema": OBJECT},
    {"name": "big", "inputSchema": schema(bytes="integer")},
    {"name": "noise", "inputSchema": OBJECT},
    {"name": "result", "inputSchema": schema(result="object")},
]


def write(message: dict[str, Any]) -> None:
    """Send one message."""
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def answer(request: dict[str, Any], result: dict[str, Any]) -> None:
    """Send the result of a request."""
    write({"id": request["id"], "result": {"resultType": "complete", **result} if MODERN else result})


def text(request: dict[str, Any], words: str) -> None:
    """Send a result of one text block."""
    answer(request, {"content": [{"type": "text", "text": words}]})


def record(words: str) -> int:
    """Add a line to the ledger; how many lines it has now."""
    path = OPTIONS["ledger"]
    with open(path, "a+", encoding="utf-8") as ledger:  # noqa: PTH123
        ledger.write(words + "\n")
        ledger.seek(0)
        return len(ledger.readlines())


def call(request: dict[str, Any]) -> None:  # noqa: C901  a table of tools
    """Run a tool."""
    params = request["params"]
    arguments: dict[str, Any] = params.get("arguments") or {}
    match params["name"]:
        case "echo":
            text(request, arguments["text"])
        case "die":
            record("die")
            os._exit(3)
        case "die_once":
            if record("die_once") == 1:
                os._exit(3)
            text(request, "done")
        case "hang":
            pass
        case "progress":
            token = params["_meta"]["progressToken"]
            for step in (1, 2):
                notification = {"progressToken": token, "progress": step, "total": 2, "message": f"step {step}"}
                write({"method": "notifications/progress", "params": notification})
            text(request, "done")
        case "seen":
            text(request, json.dumps(NOTIFICATIONS))
        case "environment":
            text(request, json.dumps(dict(os.environ)))
        case "meta":
            text(request, json.dumps(params.get("_meta")))
        case "big":
            text(request, "x" * arguments["bytes"])
        case "noise":
            sys.stdout.write('log line\n{"level": "info"}\n{broken\n\n[1]\n' + "z" * 300_000 + "\n")
            sys.stderr.write("e" * 262_144)
            text(request, "heard")
        case "result":
            answer(request, arguments["result"])
        case name:
            write({"id": request["id"], "error": {"code": -32602, "message": f"Unknown tool: {name}"}})


def list_tools(request: dict[str, Any]) -> None:
    """Answer ``tools/list``."""
    cursor = (request.get("params") or {}).get("cursor")
    if "refuse-list" in OPTIONS:
        write({"id": request["id"], "error": {"code": -32603, "message": "the list is broken"}})
        return
    pages: list[list[Any]] = json.loads(OPTIONS["pages"]) if "pages" in OPTIONS else [TOOLS]
    if "lists" in OPTIONS:  # a list for each time it is asked, the last one from then on
        lists: list[list[Any]] = json.loads(OPTIONS["lists"])
        pages = [lists[min(len(LISTED), len(lists) - 1)]]
        LISTED.append(request["id"])
    index = int(cursor or 0)
    page: dict[str, Any] = {"tools": pages[index % len(pages)]}
    if index + 1 < len(pages) or "endless-list" in OPTIONS:
        page["nextCursor"] = str((index + 1) % 3 if "endless-list" in OPTIONS else index + 1)
    if MODERN:
        page |= {"ttlMs": 0, "cacheScope": "private"}
    answer(request, page)


def handle(message: dict[str, Any]) -> None:
    """Answer one message."""
    if "id" not in message:
        NOTIFICATIONS.append(message)
        return
    match message["method"]:
        case "server/discover" if MODERN:
            capabilities = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
            answer(message, {**capabilities, "ttlMs": 0, "cacheScope": "private"})
        case "server/discover" if "silent-probe" in OPTIONS:
            pass
        case "initialize" if not MODERN:
            version = message["params"]["protocolVersion"]
            server = {"name": "misbehaving", "version": "1"}
            answer(message, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server})
        case "tools/list":
            list_tools(message)
        case "tools/call":
            call(message)
        case _:
            write({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})


def main() -> None:
    """Serve until stdin ends, and beyond where told to."""
    if "exit" in OPTIONS:
        sys.stderr.write("Traceback ...\nboom: no password=hunter2hunter2 given\n")
        sys.exit(int(OPTIONS["exit"]))
    if "ignore-term" in OPTIONS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "grandchild" in OPTIONS:
        child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        record(str(child.pid))
    if "ledger" in OPTIONS and "start" in OPTIONS:
        record(f"start {os.getpid()}")
    if "banner" in OPTIONS:
        print("Server v1.2 ready", flush=True)
    for line in sys.stdin:
        if "stderr-flood" in OPTIONS:
            sys.stderr.write("e" * 262_144)
        if "mute" not in OPTIONS:
            handle(json.loads(line))
    if "ignore-eof" in OPTIONS or "ignore-term" in OPTIONS:
        while True:
            signal.pause()


main()
