"""Connect as part of the service: its section, what it says at the start, telemetry, faults."""

from __future__ import annotations

import logging
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import pytest
from config.kit import refusal
from connect.kit import HELLO, TURNS, web
from e2e.service import child_environment, spawn_cli
from engine.harness import world
from rpc.server import LOOPBACK, has_price, prompt
from telemetry.test_rpc_interceptor import Recorded

from turnwired.config.http import HttpConfig
from turnwired.domain.model import ModelSelection
from turnwired.local_rpcs import RpcFailed
from turnwired.rpc.interceptor import TelemetryInterceptor
from turnwired.rpc.server import RpcServer
from turnwired.rpc.server_service import ServerService
from turnwired.rpc.turn_service import TurnService
from turnwired.testing.provider import answer


@pytest.mark.requirement("WEB-12")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("connect = true", "http.connect: needs http.listen, which says where to listen"),
        (
            'listen = "127.0.0.1:0"\nconnect = false',
            "http.listen: there is nothing to serve; set mcp = true or connect = true",
        ),
        (
            'listen = "127.0.0.1:0"\nconnect = true\norigins = ["*"]',
            'http.origins.0: takes the origin of a page, such as "https://chat.example.com"',
        ),
    ],
)
def test_a_section_that_cannot_work_is_refused_with_its_key(tmp_path: Path, text: str, line: str) -> None:
    assert line in refusal(tmp_path, f"[http]\n{text}\n")


@pytest.mark.requirement("WEB-12")
def test_it_is_off_and_no_page_may_call_unless_somebody_says_so() -> None:
    assert (HttpConfig().connect, HttpConfig().origins, HttpConfig().listen) == (False, (), None)


@pytest.mark.requirement("WEB-12")
@pytest.mark.parametrize(
    ("section", "loaded"),
    [({}, []), ({"mcp": True}, ["mcp", "starlette"]), ({"connect": True}, ["connectrpc", "starlette"])],
)
def test_only_what_is_served_is_imported(tmp_path: Path, section: dict[str, bool], loaded: list[str]) -> None:
    http = {"listen": "127.0.0.1:0", **section} if section else {}
    code = f"""
import asyncio, sys
from turnwired.app import configured, running

async def main():
    given = {{"server": {{"listen": "127.0.0.1:0"}}, "store": {{"path": "memory"}}, "http": {http!r}}}
    async with running(configured(given, {{}}), {{}}):
        print([name for name in ("connectrpc", "mcp", "starlette") if name in sys.modules])

asyncio.run(main())
"""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=tmp_path,
    )
    assert ran.stdout == f"{loaded}\n"


@pytest.mark.anyio
@pytest.mark.requirement("WEB-12")
async def test_the_command_says_where_browsers_find_it(tmp_path: Path) -> None:
    (tmp_path / "turnwire.toml").write_text(
        '[server]\nlisten = "127.0.0.1:0"\n[store]\npath = "memory"\n[http]\nlisten = "127.0.0.1:0"\nconnect = true\n'
    )
    process = await spawn_cli("serve", cwd=tmp_path)
    assert process.stdout is not None
    lines = [(await process.stdout.readline()).decode() for _ in range(2)]
    process.terminate()
    await process.communicate()
    assert lines[1].startswith("browsers and curl find it at http://127.0.0.1:")


@pytest.mark.anyio
@pytest.mark.requirement("WEB-13")
async def test_telemetry_is_told_of_each_rpc_with_its_status_and_the_trace_of_its_caller() -> None:
    traced = (("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), ("x-other", "no"))
    recorded = Recorded()
    async with world([answer("Hi")]) as w:
        info = ServerService(w.engine, "default", ModelSelection("scripted", "m"), 1 << 20, has_price, durable=False)
        server = RpcServer(LOOPBACK, TurnService(w.engine), info, [TelemetryInterceptor(recorded)])
        methods = {method.name: method for method in server.here.methods}
        with pytest.raises(RpcFailed):
            await server.here.unary(methods["GetRun"], b"", traced, None)
        assert await recorded.next_end() == (f"{TURNS}/GetRun", "NOT_FOUND")
        async with aclosing(server.here.stream(methods["RunTurn"], prompt().SerializeToString(), traced, 5)) as frames:
            assert [frame async for frame in frames]
        assert await recorded.next_end() == (f"{TURNS}/RunTurn", "OK")
        assert recorded.started == [(f"{TURNS}/{name}", dict(traced[:1])) for name in ("GetRun", "RunTurn")]


@pytest.mark.anyio
@pytest.mark.requirement("WEB-17")
async def test_a_fault_is_told_as_one_and_neither_client_nor_log_gets_its_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with web() as w:

        async def broken(*_: object) -> None:
            raise RuntimeError("secret words")

        w.service.engine.get_run = broken  # type: ignore[method-assign,assignment]
        w.service.engine.start_turn = broken  # type: ignore[method-assign,assignment]
        with caplog.at_level(logging.DEBUG):
            response = await w.call(f"{TURNS}/GetRun", {"runId": "x"})
            (end,) = await w.run(HELLO)
    assert (response.status_code, response.json()["code"]) == (500, "internal")
    assert response.json()["details"][0]["debug"]["reason"] == "INTERNAL"
    assert end.json["error"]["code"] == "internal"
    assert "GetRun failed" in caplog.text
    assert "secret" not in caplog.text + response.text + end.data.decode()
