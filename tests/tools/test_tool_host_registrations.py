"""Apps that make themselves known: where they may be, for how long they are known, and to whom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tools.host_kit import App, tool, until, up
from tools.kit import listening, mute

from turnwired.domain.errors import Conflict, InvalidRequest, NotFound, PermissionDenied, Unavailable
from turnwired.domain.failure import Reason
from turnwired.domain.run import Caller
from turnwired.domain.tool import ToolSelection
from turnwired.domain.tool_host import ToolHostState
from turnwired.tools.host import registrations as registrations_module
from turnwired.tools.host.config import ToolHostConfig
from turnwired.tools.host.registrations import MOST_OF_TENANT, Admission, Registrations
from turnwired.tools.host.toolset import HostToolset
from turnwired.tools.registry import Registry, Source

pytestmark = pytest.mark.anyio
ADA, BOB, EVE = Caller("acme", "ada"), Caller("acme", "bob"), Caller("other", "ada")
HERE = Admission(allowed=True)


@asynccontextmanager
async def registering(
    admission: Admission = HERE, own: HostToolset | None = None
) -> AsyncIterator[tuple[Registry, Registrations]]:
    """A registry that apps may come to."""
    registry = Registry([] if own is None else [Source(own, namespace=own.set_id)])
    await registry.start()
    registrations = Registrations(registry, admission, [] if own is None else [own])
    try:
        yield registry, registrations
    finally:
        await registrations.aclose()
        await registry.aclose()


async def names(registry: Registry, caller: Caller = ADA) -> list[str]:
    """Tools that a caller sees."""
    view = await registry.view(ToolSelection(), caller)
    return [item.ref.routed_name for item in view.tools]


@pytest.mark.requirement("HOST-15")
async def test_an_app_that_registers_is_a_source_of_its_tenant_until_it_is_unregistered() -> None:
    app = App([tool("echo")])
    async with up(app), registering() as (registry, registrations):
        host = await registrations.register(ADA, "shop", app.address, 60)
        assert (host.state, host.tool_count, host.version) == (ToolHostState.READY, 1, "1")
        assert host.lease_expire_ns > 0
        assert await names(registry) == ["shop__echo"]
        assert await names(registry, BOB) == ["shop__echo"]
        assert await names(registry, EVE) == []
        assert [found.host_id for found in registrations.hosts(BOB)] == ["shop"]
        assert registrations.hosts(EVE) == []
        await registrations.unregister(ADA, "shop")
        assert await names(registry) == []
        assert registrations.hosts(ADA) == []


@pytest.mark.requirement("HOST-15")
async def test_a_failing_host_of_another_tenant_is_not_told_of() -> None:
    async with registering() as (registry, registrations):
        host = await registrations.register(ADA, "shop", "127.0.0.1:1", 60)
        assert host.failure is not None
        mine = await registry.view(ToolSelection(), ADA)
        others = await registry.view(ToolSelection(), EVE)
    assert [failure.origin for failure in mine.failures] == ["shop"]
    assert others.failures == ()


@pytest.mark.requirement("HOST-23")
async def test_an_app_that_does_not_answer_holds_up_nobody() -> None:
    async with listening(mute) as address, registering() as (registry, registrations):
        registration = asyncio.create_task(registrations.register(ADA, "shop", address, 60))

        async def begun() -> bool:
            return registry.set_ids == frozenset(("shop",))

        await until(begun)
        async with asyncio.timeout(5):  # the app is given up after eight
            assert await names(registry) == []
            host = await registration
    assert host.state is ToolHostState.CONNECTING


@pytest.mark.requirement("HOST-16")
@pytest.mark.parametrize(
    ("admission", "address"),
    [
        (Admission(), "127.0.0.1:7600"),
        (HERE, "10.1.2.3:7600"),
        (HERE, "example.com:7600"),
        (HERE, "127.0.0.1.example.com:7600"),
        (HERE, "[::ffff:10.1.2.3]:7600"),
        (HERE, "unix:/var/run/docker.sock"),
        (Admission(allowed=True, addresses=("10.1.*:7600",)), "10.1.2.3:22"),
        (Admission(allowed=False, addresses=("10.1.*:7600",)), "10.1.2.3:7600"),
    ],
)
async def test_an_address_that_is_not_allowed_is_not_connected_to(admission: Admission, address: str) -> None:
    async with registering(admission) as (registry, registrations):
        with pytest.raises(PermissionDenied):
            await registrations.register(ADA, "shop", address, 60)
        assert registry.set_ids == frozenset()


@pytest.mark.requirement("HOST-16")
async def test_an_address_that_is_named_may_be_any(tmp_path: Path) -> None:
    admission = Admission(allowed=True, addresses=(f"unix:{tmp_path}/*",))
    async with registering(admission) as (_, registrations):
        host = await registrations.register(ADA, "shop", f"unix:{tmp_path}/app.sock", 60)
    assert host.state is ToolHostState.UNAVAILABLE


@pytest.mark.requirement("HOST-16")
@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:0", "http://127.0.0.1:80", "127.0.0.1:70000"])
async def test_what_is_no_address_is_said_so(address: str) -> None:
    async with registering() as (_, registrations):
        with pytest.raises(InvalidRequest) as raised:
            await registrations.register(ADA, "shop", address, 60)
    assert [violation.field for violation in raised.value.violations] == ["address"]


@pytest.mark.requirement("HOST-17")
async def test_a_registration_that_is_not_renewed_ends_and_one_that_is_goes_on() -> None:
    app = App([tool("echo")])
    async with up(app), registering() as (registry, registrations):
        await registrations.register(ADA, "kept", app.address, 3)
        await registrations.register(ADA, "left", app.address, 3)
        first = registrations.hosts(ADA)[0].lease_expire_ns
        renewed = await registrations.register(ADA, "kept", app.address, 60)
        assert renewed.lease_expire_ns > first

        async def ended() -> bool:
            return await names(registry) == ["kept__echo"]

        await until(ended)
        assert [host.host_id for host in registrations.hosts(ADA)] == ["kept"]
        assert len(app.asked) == 2, "a renewal asks nothing anew"


@pytest.mark.requirement("HOST-17")
async def test_an_app_that_has_moved_is_called_where_it_is_now() -> None:
    old, new = App([tool("old")]), App([tool("new")])
    async with up(old), up(new), registering() as (registry, registrations):
        await registrations.register(ADA, "shop", old.address, 60)
        host = await registrations.register(ADA, "shop", new.address, 60)
        assert host.address == new.address
        assert await names(registry) == ["shop__new"]


@pytest.mark.requirement("HOST-18")
async def test_an_id_that_is_anothers_is_refused() -> None:
    app = App()
    own = HostToolset("own", ToolHostConfig(address="127.0.0.1:1"))
    async with up(app), registering(own=own) as (registry, registrations):
        await registrations.register(ADA, "shop", app.address, 60)
        for caller, host_id in ((BOB, "shop"), (EVE, "shop"), (ADA, "own")):
            with pytest.raises(Conflict) as raised:
                await registrations.register(caller, host_id, app.address, 60)
            assert raised.value.reason is Reason.TOOL_HOST_TAKEN
        for caller, host_id in ((BOB, "shop"), (EVE, "shop"), (ADA, "own"), (ADA, "none")):
            with pytest.raises(NotFound) as missing:
                await registrations.unregister(caller, host_id)
            assert missing.value.reason is Reason.TOOL_HOST_NOT_FOUND
        assert registry.set_ids == frozenset(("own", "shop"))
        assert [host.host_id for host in registrations.hosts(EVE)] == ["own"]


@pytest.mark.requirement("HOST-19")
async def test_more_hosts_than_may_be_in_all_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registrations_module, "MOST_HOSTS", 2)
    async with registering() as (_, registrations):
        for caller, host_id in ((ADA, "a"), (EVE, "b")):
            await registrations.register(caller, host_id, "127.0.0.1:1", 60)
        with pytest.raises(Unavailable, match=r"^2 hosts are registered"):
            await registrations.register(EVE, "c", "127.0.0.1:1", 60)


@pytest.mark.requirement("HOSTILE-38")
async def test_a_host_that_leaves_is_closed_also_when_whoever_asked_is_gone() -> None:
    began, goes_on, closed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    class Slow(Registry):
        async def remove(self, set_id: str) -> bool:
            began.set()
            await goes_on.wait()
            removed = await super().remove(set_id)
            closed.set()
            return removed

    async with up(App()) as app, asyncio.timeout(20):
        registry = Slow([])
        registrations = Registrations(registry, HERE)
        await registrations.register(ADA, "shop", app.address, 60)
        leaving = asyncio.create_task(registrations.unregister(ADA, "shop"))
        await began.wait()
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        goes_on.set()
        await registrations.aclose()
        assert closed.is_set()
        assert registry.set_ids == frozenset()
        await registry.aclose()


@pytest.mark.requirement("HOST-19", "HOSTILE-38")
async def test_a_tenant_has_so_many_hosts_and_keeps_no_other_out() -> None:
    app = App()
    async with up(app), registering() as (registry, registrations):
        hosts = [registrations.register(ADA, f"shop_{number}", app.address, 60) for number in range(MOST_OF_TENANT)]
        async with asyncio.timeout(60):
            await asyncio.gather(*hosts)
        with pytest.raises(Unavailable) as raised:
            await registrations.register(ADA, "one_more", app.address, 60)
        assert raised.value.reason is Reason.OVERLOADED
        await registrations.register(ADA, "shop_0", app.address, 60)
        assert len(registry.set_ids) == MOST_OF_TENANT
        await registrations.register(EVE, "one_more", app.address, 60)
