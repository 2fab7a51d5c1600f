"""Callers of two tenants, what they show, and how they are refused."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import grpc
import pytest
from rpc.server import details

from turnwired.callers import Callers, digest
from turnwired.domain.run import OPERATOR_ROLE, Caller

SHOP, BANK, ADMIN = (f"{name}-token-0123456789" for name in ("shop", "bank", "admin"))
PEOPLE = {
    SHOP: Caller("acme", "shop", frozenset(("support",))),
    BANK: Caller("bank", "teller", frozenset(("support",))),
    ADMIN: Caller("acme", "admin", frozenset((OPERATOR_ROLE,))),
}
BILLING = frozenset(("accounts",))
Metadata = tuple[tuple[str, str], ...]


def people(anonymous: Caller | None = None) -> Callers:
    def kept(token: str) -> Any:
        mine = digest(token)
        return lambda: mine

    known = tuple((kept(token), caller) for token, caller in PEOPLE.items())
    roles = {caller.principal: caller.roles for caller in PEOPLE.values()}
    tenants = {caller.principal: caller.tenant for caller in PEOPLE.values()}
    return Callers(known, anonymous, {**roles, "billing": BILLING}, {**tenants, "billing": "acme"})


def shows(token: str) -> Metadata:
    return (("authorization", f"Bearer {token}"),)


async def refusal(call: Awaitable[Any]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    info, _ = details(caught.value)
    assert info.domain == "turnwire.v1"
    return caught.value.code(), info.reason


async def drain(stream: Any) -> None:
    async for _ in stream:
        pass


async def results(stream: Any) -> list[str]:
    """The text of the results of a turn's tools."""
    events = [event async for frame in stream for event in frame.events]
    return [e.tool_call_finished.result.content[0].text for e in events if e.HasField("tool_call_finished")]
