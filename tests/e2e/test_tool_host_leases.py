"""Apps that register with a service of its own process, while either of them ends and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import grpc
import pytest
from e2e.host_examples import BUILDERS, built, started
from e2e.provider import answer, calls, provider
from e2e.service import CHANNEL, SECONDS, Followed, Service, config_text, prompt, service

from turnwire.host import Call, ToolHost, registered
from turnwire.v1 import message_pb2, outcome_pb2, turn_service_pb2
from turnwire.v1.tool_host_registry_service_pb2 import TOOL_HOST_STATE_READY

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]
ALLOWED = {"TURNWIRE_SERVER__ALLOW_TOOL_HOST_REGISTRATION": "true"}


def shop() -> ToolHost:
    """A host with a tool."""
    host = ToolHost()

    @host.tool()
    async def find_order(number: int, call: Call) -> str:
        """Look an order up."""
        await call.progress(1, 2)
        return f"Order {number} is paid."

    return host


async def names(s: Service) -> list[str]:
    """Tools of the default agent that come from hosts."""
    listed = await s.turns.ListTools(turn_service_pb2.ListToolsRequest(), timeout=SECONDS, wait_for_ready=True)
    return [tool.ref.routed_name for tool in listed.tools if tool.ref.server_id == "shop"]


async def listed(s: Service, *wanted: str) -> None:
    """Return when exactly these are listed."""
    async with asyncio.timeout(SECONDS):
        while await names(s) != list(wanted):  # noqa: ASYNC110 - a list has no event
            await asyncio.sleep(0.05)


def results(run: Followed) -> list[message_pb2.ToolResult]:
    """Of all calls of a run."""
    return [event.tool_call_finished.result for event in run.view.events if event.HasField("tool_call_finished")]


@asynccontextmanager
async def reaching(address: str) -> AsyncIterator[grpc.aio.Channel]:
    """A channel that finds a service that was restarted soon."""
    async with grpc.aio.insecure_channel(address, options=CHANNEL) as channel:
        yield channel


@pytest.mark.requirement("HOST-22")
async def test_what_an_app_registers_is_called_and_outlives_a_kill_of_the_service(tmp_path: Path) -> None:
    script = (calls(("shop__find_order", {"number": 7})), answer("Paid."))
    async with (
        provider(*script, *script) as p,
        shop().serve() as address,
        service(tmp_path, config_text(p.url), **ALLOWED) as s,
        reaching(s.address) as channel,
        registered(channel, "shop", address, lease=3) as known,
    ):
        assert known.state == TOOL_HOST_STATE_READY
        first = await s.run(prompt())
        await s.kill()
        async with service(tmp_path, config_text(p.url), listen=s.address, **ALLOWED) as again:
            await listed(again, "shop__find_order")
            second = await again.run(prompt())
            assert (await again.stop()).code == 0
    for run in (first, second):
        (settled,) = results(run)
        assert settled.status == message_pb2.TOOL_RESULT_STATUS_OK
        assert settled.content[0].text == "Order 7 is paid."
        assert "tool_call_progressed" in run.kinds()


@pytest.mark.requirement("HOST-22", "HOST-15")
async def test_a_run_under_way_has_what_registers_meanwhile_in_its_next_iteration(tmp_path: Path) -> None:
    script = (calls(("shop__open_branch", {})), calls(("branch__find_order", {"number": 7})), answer("Paid."))
    host = ToolHost()
    async with (
        AsyncExitStack() as later,
        provider(*script) as p,
        host.serve() as address,
        shop().serve() as branch,
        service(tmp_path, config_text(p.url), **ALLOWED) as s,
        reaching(s.address) as channel,
    ):

        @host.tool()
        async def open_branch() -> str:
            """Open a branch."""
            await later.enter_async_context(registered(channel, "branch", branch))
            return "It is open."

        async with registered(channel, "shop", address):
            run = await s.run(prompt())
        await later.aclose()
    opened, found = results(run)
    assert opened.content[0].text == "It is open."
    assert found.content[0].text == "Order 7 is paid."
    assert "tools_changed" in run.kinds()


@pytest.mark.requirement("HOST-22", "HOST-17")
async def test_what_a_dead_app_has_registered_ends_and_leaving_ends_it_at_once(tmp_path: Path) -> None:
    async with provider(answer("Hm.")) as p, service(tmp_path, config_text(p.url), **ALLOWED) as s:
        async with shop().serve() as address, reaching(s.address) as channel:
            async with registered(channel, "shop", address, lease=60):
                await listed(s, "shop__find_order")
            assert await names(s) == []
        async with shop().serve() as address:
            async with grpc.aio.insecure_channel(s.address) as channel:
                dead = registered(channel, "shop", address, lease=1)
                await dead.__aenter__()
                await listed(s, "shop__find_order")
            # Its connection is gone: it renews nothing more, nor says goodbye.
            await listed(s)
            with pytest.raises(grpc.aio.UsageError):
                await dead.__aexit__(None, None, None)
        assert "the lease of tool host shop has ended" in (await s.stop()).stderr


@pytest.mark.requirement("HOST-22", "HOST-33")
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("language", BUILDERS)
async def test_the_example_in_another_language_registers_itself(language: str, tmp_path: Path) -> None:
    command = await built(language, tmp_path)
    script = (calls(("shop__ship_order", {"number": 7})), answer("Shipped."))
    async with provider(*script) as p, service(tmp_path, config_text(p.url), **ALLOWED) as s:
        async with started(command, "--register", s.address, "--id", "shop") as host:
            await host.until("registered: ")
            await listed(s, "shop__find_order", "shop__ship_order")
            run = await s.run(prompt())
        assert await names(s) == []
        assert (await s.stop()).code == 0
    (settled,) = results(run)
    assert settled.content[0].text == "Order 7 is on its way, for anonymous."


@pytest.mark.requirement("HOST-22", "HOST-7")
@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_an_app_that_is_killed_during_a_call_leaves_its_outcome_unknown(tmp_path: Path) -> None:
    command = await built("go", tmp_path)
    script = (calls(("shop__find_order", {"number": 999})), answer("I do not know."))
    async with provider(*script) as p, service(tmp_path, config_text(p.url), **ALLOWED) as s:
        async with started(command, "--register", s.address) as host:
            await host.until("registered: ")
            await listed(s, "shop__find_order", "shop__ship_order")
            run = Followed()
            following = s.follow(prompt(), run)
            await run.until("tool_call_progressed")
            host.kill()
            async with asyncio.timeout(SECONDS):
                await following
        assert (await s.stop()).code == 0
    (settled,) = results(run)
    assert settled.status == message_pb2.TOOL_RESULT_STATUS_OUTCOME_UNKNOWN
    assert run.view.outcome is not None
    assert run.view.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED
