"""A gRPC service of the configuration in a run, in the command line's list, and on the page that explains it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from docs.pages import printed_apart
from e2e.service import ROOT, child_environment, run_cli
from tools.grpc_kit import SERVICE, shop_server, up

from turnwired import Runtime
from turnwired.domain.event import ToolCallFinished
from turnwired.domain.failure import Reason
from turnwired.domain.message import ToolResultStatus
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.run import Caller
from turnwired.domain.tool import ToolSource
from turnwired.testing import EventCollector, ScriptedProvider, answer, calls

pytestmark = pytest.mark.anyio

PAGE = ROOT / "docs" / "grpc_tools.md"


@pytest.mark.requirement("GRPC-30", "GRPC-14")
async def test_a_run_calls_a_service_of_the_configuration_on_behalf_of_its_caller() -> None:
    server = shop_server()

    async def get(request: Any, context: Any) -> Any:
        return {"name": request.name, "stock": 5}

    server.add(f"{SERVICE}/GetProduct", get)
    model = ScriptedProvider([calls(("shop__get_product", '{"name": "products/1"}')), answer("Five.")])
    told = EventCollector()
    async with up(server):
        config = {"grpc_services": {"shop": {"address": server.address, "exclude": ["delete_*", "w*"]}}}
        async with Runtime(config, providers={"scripted": model}) as runtime:
            tools = {tool.ref.routed_name: tool for tool in (await runtime.list_tools()).tools}
            result = await runtime.run_turn(
                "How many?", on_event=told, caller=Caller(tenant="acme", principal="zoë"), headers={}
            )
    assert tools["shop__get_product"].ref.source is ToolSource.GRPC
    assert tools["shop__get_product"].ref.server_id == "shop"
    assert not {"shop__delete_product", "shop__wrap", "shop__watch_prices"} & tools.keys()
    assert result.outcome.kind is OutcomeKind.ANSWERED
    (finished,) = told.of(ToolCallFinished)
    assert json.loads(finished.result.structured_json or "")["stock"] == "5"
    (seen,) = server.seen
    assert (seen["x-turnwire-tenant"], seen["x-turnwire-principal"]) == ("acme", "zo%C3%AB")
    assert seen["idempotency-key"] == f"{result.run_id}/{finished.result.call_id}"


@pytest.mark.requirement("GRPC-30", "GRPC-18")
async def test_a_run_goes_on_when_its_service_goes_away() -> None:
    server = shop_server()
    await server.start()

    model = ScriptedProvider([calls(("shop__create_product", "{}")), answer("It is closed.")])
    told = EventCollector()
    config = {"grpc_services": {"shop": {"address": server.address}}}
    async with Runtime(config, providers={"scripted": model}) as runtime:
        await runtime.list_tools()
        await server.stop()
        result = await runtime.run_turn("Create one.", on_event=told)
    assert result.outcome.kind is OutcomeKind.ANSWERED
    (finished,) = told.of(ToolCallFinished)
    assert finished.result.status is ToolResultStatus.NOT_EXECUTED
    assert finished.result.failure is not None
    assert finished.result.failure.reason is Reason.TOOL_SOURCE_UNAVAILABLE


@pytest.mark.requirement("GRPC-30")
async def test_the_command_line_lists_the_tools_of_a_service_and_what_is_left_out(tmp_path: Path) -> None:
    server = shop_server()
    async with up(server):
        (tmp_path / "turnwire.toml").write_text(
            f'[grpc_services.shop]\naddress = "{server.address}"\ninclude = ["*_product", "*_products"]\n'
            '[grpc_services.gone]\naddress = "127.0.0.1:1"\n',
            encoding="utf-8",
        )
        ended = await run_cli("tools", cwd=tmp_path, environment=child_environment(OPENAI_BASE_URL="http://x/v1"))
    rows = [" ".join(line.split()) for line in ended.stdout.splitlines()]
    assert ended.code == 0
    assert "shop__get_product grpc shop Reads one product by its name." in rows
    assert "shop__delete_product grpc shop Calls shop.v1.ProductService.DeleteProduct." in rows
    assert "not available: gRPC service 'gone': UNAVAILABLE: failed to connect" in ended.stderr
    assert "shop.v1.ProductService.Chat' of 'shop' is left out: it takes a stream of requests" in ended.stderr


@pytest.mark.requirement("GRPC-31")
async def test_the_page_about_grpc_services_prints_what_it_says(tmp_path: Path) -> None:
    shown = await printed_apart(PAGE, tmp_path, child_environment())
    assert any(says for says, _ in shown)
    for says, printed in shown:
        assert printed == says
