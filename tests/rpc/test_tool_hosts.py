"""ToolHostRegistryService: what it refuses and says, over the wire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2
from rpc.server import details
from tools.host_kit import App, up

from turnwire.v1 import tool_host_registry_service_pb2 as pb2
from turnwire.v1 import tool_host_registry_service_pb2_grpc as stubs
from turnwired.app import running
from turnwired.config.load import read_config

pytestmark = pytest.mark.anyio
SECONDS = 10.0


@asynccontextmanager
async def serving(*, allowed: bool = True, **more: object) -> AsyncIterator[stubs.ToolHostRegistryServiceAsyncStub]:
    """A service that lets apps register, unless told otherwise, and a stub of it."""
    server = {"listen": "127.0.0.1:0", "allow_tool_host_registration": allowed}
    config = read_config({"server": server, "store": {"path": "memory"}, **more}, {"OPENAI_API_KEY": "k"})
    tokens = {"TOKEN_A": "a" * 20, "TOKEN_B": "b" * 20}
    async with running(config, tokens) as service, grpc.aio.insecure_channel(service.address) as channel:
        yield stubs.ToolHostRegistryServiceStub(channel)


def lease(seconds: float) -> Duration:
    """A lease."""
    length = Duration()
    length.FromNanoseconds(round(seconds * 1e9))
    return length


async def refused(call: Any) -> grpc.aio.AioRpcError:
    """The error of a call."""
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    return raised.value


@pytest.mark.requirement("HOST-20")
@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        (pb2.RegisterToolHostRequest(), ["host_id", "address"]),
        (pb2.RegisterToolHostRequest(host_id="a b", address="127.0.0.1:1", lease=lease(0.5)), ["host_id", "lease"]),
        (pb2.RegisterToolHostRequest(host_id="a" * 33, address="x" * 600), ["host_id", "address"]),
        (pb2.RegisterToolHostRequest(host_id="a", address="127.0.0.1:1", lease=lease(601)), ["lease"]),
        (pb2.RegisterToolHostRequest(host_id="a", address="x"), ["address"]),
        (pb2.RegisterToolHostRequest(host_id="a", address="127.0.0.1:1", lease=lease(-1)), ["lease"]),
        (pb2.RegisterToolHostRequest(host_id="a", address="127.0.0.1:1", lease=Duration(seconds=2**63 - 1)), ["lease"]),
        (pb2.RegisterToolHostRequest(host_id="a", address="127.0.0.1:1\n"), ["address"]),
        (pb2.RegisterToolHostRequest(host_id="a", address="127.0.0.1:\u0661"), ["address"]),
    ],
)
async def test_what_is_wrong_with_a_registration_is_said_by_its_path(
    request_: pb2.RegisterToolHostRequest, fields: Sequence[str]
) -> None:
    async with serving() as hosts:
        error = await refused(hosts.RegisterToolHost(request_, timeout=SECONDS))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    (violations,) = details(error)[1]
    assert isinstance(violations, error_details_pb2.BadRequest)
    assert [violation.field for violation in violations.field_violations] == list(fields)


@pytest.mark.requirement("HOST-20")
async def test_hosts_are_listed_in_pages_with_where_they_stand() -> None:
    app = App()
    async with up(app), serving(tool_hosts={"own": {"address": "127.0.0.1:1"}}) as hosts:
        for name in ("b", "c"):
            request = pb2.RegisterToolHostRequest(host_id=name, address=app.address, lease=lease(30))
            response = await hosts.RegisterToolHost(request, timeout=SECONDS)
            assert response.lease == lease(30)
            assert response.tool_host.state == pb2.TOOL_HOST_STATE_READY
        first = await hosts.ListToolHosts(pb2.ListToolHostsRequest(page_size=2), timeout=SECONDS)
        rest = await hosts.ListToolHosts(
            pb2.ListToolHostsRequest(page_size=2, page_token=first.next_page_token), timeout=SECONDS
        )
        await hosts.UnregisterToolHost(pb2.UnregisterToolHostRequest(host_id="b"), timeout=SECONDS)
        error = await refused(hosts.UnregisterToolHost(pb2.UnregisterToolHostRequest(host_id="b"), timeout=SECONDS))
    assert [host.host_id for host in first.tool_hosts] == ["b", "c"]
    assert [host.host_id for host in rest.tool_hosts] == ["own"]
    assert not rest.next_page_token
    assert first.tool_hosts[0].HasField("lease_expire_time")
    assert first.tool_hosts[0].tool_count == 2
    assert rest.tool_hosts[0].state == pb2.TOOL_HOST_STATE_UNAVAILABLE
    assert not rest.tool_hosts[0].HasField("lease_expire_time")
    assert error.code() is grpc.StatusCode.NOT_FOUND
    info, (resource,) = details(error)
    assert info.reason == "TOOL_HOST_NOT_FOUND"
    assert isinstance(resource, error_details_pb2.ResourceInfo)
    assert (resource.resource_type, resource.resource_name) == ("turnwire.v1.ToolHost", "b")


@pytest.mark.requirement("HOST-20", "HOST-16")
async def test_a_deployment_that_does_not_say_so_lets_nobody_register() -> None:
    async with serving(allowed=False) as hosts:
        request = pb2.RegisterToolHostRequest(host_id="a", address="127.0.0.1:1")
        error = await refused(hosts.RegisterToolHost(request, timeout=SECONDS))
    assert error.code() is grpc.StatusCode.PERMISSION_DENIED
    assert "server.allow_tool_host_registration" in (error.details() or "")


@pytest.mark.requirement("HOST-21", "HOST-18")
async def test_where_callers_are_known_registering_needs_a_role() -> None:
    callers = [
        {"principal": "app", "token_env": "TOKEN_A", "roles": ["tool_host"]},
        {"principal": "somebody", "token_env": "TOKEN_B"},
    ]
    request = pb2.RegisterToolHostRequest(host_id="shop", address="127.0.0.1:1")
    async with serving(callers=callers) as hosts:
        some = (("authorization", f"Bearer {'b' * 20}"),)
        error = await refused(hosts.RegisterToolHost(request, timeout=SECONDS, metadata=some))
        app = (("authorization", f"Bearer {'a' * 20}"),)
        response = await hosts.RegisterToolHost(request, timeout=SECONDS, metadata=app)
    assert error.code() is grpc.StatusCode.PERMISSION_DENIED
    assert "needs the role 'tool_host'" in (error.details() or "")
    assert response.tool_host.state == pb2.TOOL_HOST_STATE_UNAVAILABLE
