"""The official MCP conformance suite's server scenarios against our MCP endpoint, one by one, in both eras.

Starts the endpoint with the tools that the suite asks for, on a free loopback port. Scenarios about what the endpoint
does not offer are named in LEFT_OUT with the reason; a scenario that is in neither list fails the run, so that a new
release of the suite is noticed. The suite comes from where conformance.py has put it; `make conformance` runs both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import runpy
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from turnwired.app import Additions, assembled, configured
from turnwired.config.http import HttpConfig
from turnwired.domain.failure import Failure
from turnwired.domain.message import Blob, Content, Part, Text
from turnwired.domain.tool import Tool, ToolRef, ToolSource
from turnwired.http.server import HttpServer
from turnwired.testing.provider import ScriptedProvider
from turnwired.tools.port import ToolInvocation, ToolOutput
from turnwired.tools.registry import Source

ERAS: Final = ("2025-11-25", "2026-07-28")
SECONDS: Final = 60.0
"""Longest that one scenario may take; they take one to five."""

_NO_PROMPTS = "the endpoint serves tools; prompts and resources are not offered"
_NO_QUESTIONS = "no session to ask a client in: a call that needs a person is answered with an error that says so"
LEFT_OUT: Final = {
    r"prompts-.*|resources-.*|completion-complete|sep-2164-.*|sep-2640-.*": _NO_PROMPTS,
    r"logging-set-level|tools-call-with-logging": "logs of the server are the operator's, and logging is deprecated",
    r"tools-call-sampling|tools-call-elicitation|elicitation-.*|input-required-.*": _NO_QUESTIONS,
    r"server-sse-polling|server-session-lifecycle": "the endpoint keeps no sessions and no events",
    r"caching": "asks for the listings of prompts and resources too; a test of ours looks at those of tools",
    r"tasks-.*": "an extension that the SDK does not have",
}
NOT_TESTABLE: Final = frozenset(
    # Of a server that needs something of its clients, which ours never does.
    ("sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400")
)
_CHECK: Final = re.compile(r"\[(\S+?)\s*\] (?:\x1b\[\d+m)?(SUCCESS|FAILURE|WARNING)")
_PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d494844520000000100000001080600000 01f15c4890000000d4944415478da63fcff9fa11e0007820"
    "27f3dc848ef0000000049454e44ae426082".replace(" ", "")
)
_WAV = b"RIFF" + struct.pack("<I4s4sIHHIIHH4sI", 36, b"WAVE", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16, b"data", 0)
_EMPTY = '{"type":"object","properties":{}}'
_SCHEMA_2020 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
_HEADER_SCHEMA = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "text": {"type": "string"}},
}
_SCHEMAS = {"test_custom_header": json.dumps(_HEADER_SCHEMA), "json_schema_2020_12_tool": json.dumps(_SCHEMA_2020)}
_CONTENT: Final[dict[str, tuple[Content, ...]]] = {
    "test_simple_text": (Text("This is a simple text response for testing."),),
    "test_image_content": (Blob("image/png", _PNG),),
    "test_audio_content": (Blob("audio/wav", _WAV),),
    "test_embedded_resource": (
        Blob("text/plain", b"This is an embedded resource content.", "test://embedded-resource"),
    ),
    "test_multiple_content_types": (
        Text("Multiple content types test:"),
        Blob("image/png", _PNG),
        Blob("application/json", b'{"test":"data","value":123}', "test://mixed-content-resource"),
    ),
    "test_error_handling": (Text("This tool intentionally returns an error for testing"),),
    "test_tool_with_progress": (Text("Done."),),
    "test_custom_header": (Text("Done."),),
    "test_logging_tool": (Text("Done."),),
    "test_streaming_elicitation": (Text("Done."),),
    "json_schema_2020_12_tool": (Text("Taken."),),
}


@dataclass
class SuiteTools:
    """The tools that the scenarios call."""

    set_id: str = "conformance"
    failure: None = None
    left_out: Sequence[Failure] = ()

    async def start(self) -> None:
        """Nothing to start."""

    async def tools(self) -> Sequence[Tool]:
        """All of them."""
        return self._tools

    async def call(self, invocation: ToolInvocation) -> ToolOutput:
        """What the scenario wants to see."""
        name = invocation.native_name
        if name == "test_tool_with_progress" and invocation.on_progress is not None:
            for done in (0, 50, 100):
                invocation.on_progress(done, 100, "")
                await asyncio.sleep(0.05)
        content = tuple(Part("", item) for item in _CONTENT[name])
        return ToolOutput(content, is_error=name == "test_error_handling")

    async def aclose(self) -> None:
        """Nothing to stop."""

    def __post_init__(self) -> None:
        self._tools = [
            Tool(ToolRef(name, name, ToolSource.LOCAL), f"Conformance: {name}.", _SCHEMAS.get(name, _EMPTY))
            for name in _CONTENT
        ]


async def scenarios(command: Sequence[str]) -> dict[str, list[str]]:
    """The server scenarios that the suite has, with their revisions."""
    text = await _output(command, "list", "--server")
    found = re.findall(r"^\s+- (\S+) \[(.*)\]$", text, re.MULTILINE)
    return {name: versions.split(",") for name, versions in found}


async def _output(command: Sequence[str], *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *(*command, *arguments), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(SECONDS):
            out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return f"{out.decode(errors='replace')}\n[exit {process.returncode}]"


def suite() -> Sequence[str]:
    """How the suite is started, installed first where it is not yet."""
    other = runpy.run_path(str(Path(__file__).with_name("conformance.py")))
    command: list[str] = other["suite"](other["installed"]())
    return command


def reason_to_leave_out(name: str) -> str | None:
    """Why a scenario is not run; None: it is."""
    return next((why for pattern, why in LEFT_OUT.items() if re.fullmatch(pattern, name)), None)


async def run(command: Sequence[str], url: str, only: Sequence[str]) -> int:
    """Run the scenarios; the number of those that failed."""
    failed = 0
    for name, versions in (await scenarios(command)).items():
        why = reason_to_leave_out(name)
        if why is not None or (only and name not in only):
            continue
        for era in sorted(set(ERAS).intersection(versions)):
            text = await _output(command, "server", "--url", url, "--scenario", name, "--spec-version", era)
            checks = _CHECK.findall(text)
            broken = [check for check, status in checks if status == "FAILURE" and check not in NOT_TESTABLE]
            passed = bool(checks) and not broken
            failed += not passed
            print(f"{'pass' if passed else 'FAIL'} {era} {name}")
            if not passed:
                print(text)
    return failed


async def main(arguments: argparse.Namespace) -> int:
    """Serve the endpoint, and run the suite against it."""
    config = configured(
        {
            "store": {"path": "memory"},
            "tools": {"entry_points": False},
            "providers": {"scripted": {"profile": "openai-compatible", "models": ["m"], "list_prices": False}},
        },
        {},
    )
    more = Additions(sources=[Source(SuiteTools())], providers={"scripted": ScriptedProvider([])})
    async with assembled(config, {}, more) as assembly:
        server = HttpServer(HttpConfig(listen="127.0.0.1:0", mcp=True), assembly.callers, assembly.engine.outside)
        await server.start()
        try:
            if arguments.serve:
                print(server.mcp_url, flush=True)
                await asyncio.Event().wait()
            failed = await run(suite(), server.mcp_url, arguments.scenario)
        finally:
            await server.stop(1.0)
    print(f"{failed} failed" if failed else "all passed")
    return 1 if failed else 0


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("scenario", nargs="*", help="only these")
    parser.add_argument("--serve", action="store_true", help="only serve, and print where")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(parsed())))
