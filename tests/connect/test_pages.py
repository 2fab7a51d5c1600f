"""Who may call from where: pages by their origin, callers by their token, whatever the transport."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from connect.kit import HELLO, PAGE, SECONDS, TURNS, envelope, events, split, web

from turnwired.testing.provider import answer

pytestmark = pytest.mark.anyio

SHOP, DESK, ADMIN = "shop-token-0123456789", "desk-token-0123456789", "admin-token-0123456789"
ENVIRON = {"SHOP": SHOP, "DESK": DESK, "ADMIN": ADMIN}
CALLERS = [
    {"principal": "shop", "tenant": "acme", "token_env": "SHOP"},
    {"principal": "desk", "tenant": "globex", "token_env": "DESK"},
    {"principal": "admin", "tenant": "acme", "roles": ["operator"], "token_env": "ADMIN"},
]


def bearer(token: str) -> dict[str, str]:
    """What a caller shows."""
    return {"authorization": f"Bearer {token}"}


def preflight(origin: str, headers: str = "authorization,connect-protocol-version,content-type") -> Mapping[str, str]:
    """What a browser asks before it lets a page call."""
    return {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": headers,
    }


@pytest.mark.requirement("WEB-5")
@pytest.mark.parametrize(
    "headers", ["authorization,connect-protocol-version,connect-timeout-ms,content-type", "x-grpc-web"]
)
async def test_a_page_of_a_listed_origin_may_call_and_read_answers_and_errors(headers: str) -> None:
    async with web(answer("Hi"), callers=CALLERS, environ=ENVIRON, http={"origins": [PAGE]}) as w:
        asked = await w.http.request("OPTIONS", f"{w.url}/{TURNS}/RunTurn", headers=preflight(PAGE, headers))
        assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (200, PAGE)
        allowed = {name.strip().lower() for name in asked.headers["access-control-allow-headers"].split(",")}
        assert set(headers.split(",")) <= allowed
        assert "access-control-allow-credentials" not in asked.headers
        frames = await w.run(HELLO, {"origin": PAGE, **bearer(SHOP)})
        assert "runFinished" in events(frames)[-1]
        refused = await w.call(f"{TURNS}/StartTurn", HELLO, {"origin": PAGE})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, PAGE)
        assert "grpc-status-details-bin" in refused.headers["access-control-expose-headers"]
        assert "origin" in refused.headers["vary"].lower()


@pytest.mark.requirement("WEB-5")
@pytest.mark.parametrize("origin", ["https://evil.example", f"{PAGE}.evil.example", "http://chat.example.com", "null"])
async def test_a_page_of_another_origin_is_refused_before_and_when_it_calls(origin: str) -> None:
    async with web(http={"origins": [PAGE]}) as w:
        asked = await w.http.request("OPTIONS", f"{w.url}/{TURNS}/RunTurn", headers=preflight(origin))
        assert asked.status_code == 400
        assert "access-control-allow-origin" not in asked.headers
        called = await w.call(f"{TURNS}/StartTurn", HELLO, {"origin": origin})
        assert called.status_code == 403
        assert "access-control-allow-origin" not in called.headers
        assert w.model.requests == []


@pytest.mark.requirement("WEB-5")
async def test_without_a_list_no_page_may_call_not_even_one_of_this_machine() -> None:
    async with web() as w:
        for origin in ("http://127.0.0.1:5173", PAGE):
            asked = await w.http.request("OPTIONS", f"{w.url}/{TURNS}/RunTurn", headers=preflight(origin))
            assert asked.status_code == 400
            assert "access-control-allow-origin" not in asked.headers


@pytest.mark.requirement("WEB-5")
@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example"])
async def test_a_name_that_is_not_of_this_server_is_refused(host: str) -> None:
    async with web(http={"origins": [PAGE]}) as w:
        for method in (f"{TURNS}/StartTurn", "turnwire.v1.ServerService/GetServerInfo"):
            assert (await w.call(method, {}, {"host": host})).status_code == 421


@pytest.mark.requirement("WEB-6")
@pytest.mark.parametrize("shown", [{}, {"authorization": "Bearer wrong-token-0123456789"}, {"authorization": SHOP}])
async def test_a_caller_without_a_known_token_is_refused_with_the_reason(shown: dict[str, str]) -> None:
    async with web(callers=CALLERS, environ=ENVIRON) as w:
        refused = await w.call(f"{TURNS}/GetRun", {"runId": "x"}, shown)
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
        assert refused.json()["details"][0]["debug"]["domain"] == "turnwire.v1"
        (end,) = await w.run(HELLO, shown)
        assert end.json["error"]["details"] == refused.json()["details"]
        over_web = await w.call(f"{TURNS}/GetRun", envelope(b""), shown, "application/grpc-web+proto")
        trailers = over_web.headers.get("grpc-status") or split(over_web.content)[-1].data.decode()
        assert "16" in trailers
        assert w.model.requests == []


@pytest.mark.requirement("WEB-6")
async def test_whom_nobody_knows_is_refused_before_a_byte_of_the_request_is_read() -> None:
    async with web(callers=CALLERS, environ=ENVIRON) as w, asyncio.timeout(SECONDS):
        host, _, port = w.url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"POST /{TURNS}/StartTurn HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        writer.write(f"{head}content-length: 1000000\r\n\r\n".encode())  # and never sends it
        assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
        writer.close()


@pytest.mark.requirement("WEB-6")
async def test_tenants_do_not_see_each_other_and_operators_alone_may_what_operators_may() -> None:
    async with web(answer("Hi"), callers=CALLERS, environ=ENVIRON) as w:
        await w.run(HELLO, bearer(SHOP))
        seen = {}
        for token in (SHOP, DESK):
            seen[token] = (await w.call(f"{TURNS}/ListRuns", {}, bearer(token))).json().get("runs", [])
        assert (len(seen[SHOP]), seen[DESK]) == (1, [])
        run_id = seen[SHOP][0]["runId"]
        assert (await w.call(f"{TURNS}/GetRun", {"runId": run_id}, bearer(DESK))).json()["code"] == "not_found"
        listed = "turnwire.v1.McpServerService/ListMcpServers"
        assert (await w.call(listed, {}, bearer(SHOP))).json()["code"] == "permission_denied"
        assert (await w.call(listed, {}, bearer(ADMIN))).status_code == 200
