"""Credentials for MCP servers: headers from variables and files, OAuth without a person, and each caller's own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import ValidationError
from tools.kit import at, invocation, mcp_server, run_tool
from tools.servers.http_server import HttpMcp, Wait, http_mcp
from tools.servers.oauth import CLIENT, SECRET, Authority

from turnwired.domain.failure import Reason
from turnwired.domain.message import ToolResult, ToolResultStatus
from turnwired.domain.run import Caller
from turnwired.tools.mcp.config import HttpServer
from turnwired.tools.mcp.pool import CallerPool
from turnwired.tools.port import ToolView

OK, NOT_EXECUTED = ToolResultStatus.OK, ToolResultStatus.NOT_EXECUTED


async def call_as(view: ToolView, principal: str, tenant: str = "acme") -> ToolResult:
    """Call a tool for this caller."""
    return await view.execute("m__echo", replace(invocation({}), caller=Caller(tenant, principal)), None)


def bearer(server: HttpMcp, method: str = "tools/call") -> list[str]:
    """The Authorization headers of the requests of a method."""
    return [seen.headers.get("authorization", "") for seen in server.seen if seen.method == method]


@pytest.mark.requirement("MCPH-14")
async def test_a_header_is_read_from_its_file_for_each_request(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("first\n")
    headers = {"Authorization": f"Bearer ${{file:{key}}}"}
    async with http_mcp(HttpMcp(secret="first")) as server, mcp_server(at(server.url, headers=headers)) as (_, view):
        assert (await run_tool(view, "m__echo")).status is OK
        server.secret = "second"
        late = await run_tool(view, "m__echo")
        assert late.failure is not None
        assert (late.status, late.failure.reason) == (NOT_EXECUTED, Reason.MCP_AUTH_FAILED)
        key.write_text("second")
        assert (await run_tool(view, "m__echo")).status is OK
        key.unlink()
        gone = await run_tool(view, "m__echo")
        assert gone.failure is not None
        assert "the file of headers.Authorization cannot be read" in gone.failure.message


@pytest.mark.requirement("MCPH-14")
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"headers": {"Authorization": "Bearer abc"}}, "no secret stands here"),
        ({"headers": {"A b": "${X}"}}, "a header's name"),
        ({"headers": {"Mcp-Session-Id": "${X}"}}, "the protocol's own"),
        ({"headers": {"X": "${file:/keys/{principal}}"}}, "belong in caller_headers"),
        ({"url": "https://user:pass@host/mcp"}, "no user or password"),
        ({"url": "file:///etc/passwd"}, "takes a URL"),
        ({"command": "x"}, "Extra inputs"),
        ({"lazy": True, "required": True}, "exclude each other"),
        ({"oauth": {"issuer": "https://a", "client_id": "c"}}, "takes one of"),
        (
            {"oauth": {"issuer": "https://a", "client_id": "c", "client_secret_env": "S", "flow": "enterprise"}},
            "assert",
        ),
    ],
)
def test_a_configuration_that_cannot_mean_well_is_refused_without_repeating_it(
    settings: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        HttpServer.model_validate({"url": "https://mcp.example.com/mcp", **settings})
    (first,) = caught.value.errors(include_input=False)[:1]
    assert says in first["msg"]
    assert "abc" not in first["msg"]


@pytest.mark.requirement("MCPH-16")
@pytest.mark.parametrize("modern", [False, True])
async def test_each_caller_has_a_session_of_his_own_with_his_own_token(modern: bool, tmp_path: Path) -> None:
    for name in ("acme-ann", "acme-bob", "other-ann"):
        (tmp_path / name).write_text(f"key of {name}")
    settings = {
        "headers": {"Authorization": "Bearer ${file:" + str(tmp_path / "acme-ann") + "}"},
        "caller_headers": {"authorization": "Bearer ${file:" + str(tmp_path) + "/{tenant}-{principal}}"},
    }
    async with http_mcp(HttpMcp(modern=modern)) as server, mcp_server(at(server.url, **settings)) as (_, view):
        results = await asyncio.gather(
            *(call_as(view, "ann") for _ in range(3)), call_as(view, "bob"), call_as(view, "ann", "other")
        )
        assert [result.status for result in results] == [OK] * 5
        assert sorted(bearer(server)) == [
            *["Bearer key of acme-ann"] * 3,
            "Bearer key of acme-bob",
            "Bearer key of other-ann",
        ]
        by_session: dict[str, set[str]] = {}
        for seen in server.seen:
            session = seen.headers.get("mcp-session-id")
            if session is not None:
                by_session.setdefault(session, set()).add(seen.headers["authorization"])
        assert all(len(keys) == 1 for keys in by_session.values())
        assert len(by_session) == (0 if modern else 4), "ours, with which the tools are listed, and one for each caller"
        (tmp_path / "acme-bob").write_text("new key of bob")
        assert (await call_as(view, "bob")).status is OK
        assert bearer(server)[-1] == "Bearer new key of bob"
        assert server.count("tools/list") == 1


@pytest.mark.requirement("MCPH-16")
@pytest.mark.parametrize("principal", ["nobody", "../acme-ann", "", ".", "a/b", "a\0b", "ä"])
async def test_a_caller_without_a_key_is_not_served_with_another(principal: str, tmp_path: Path) -> None:
    (tmp_path / "acme-ann").write_text("key")
    settings = {"caller_headers": {"X-Key": "${file:" + str(tmp_path / "keys") + "/{principal}}"}}
    async with http_mcp() as server, mcp_server(at(server.url, **settings)) as (_, view):
        result = await call_as(view, principal)
        assert result.failure is not None
        assert (result.status, result.failure.reason) == (NOT_EXECUTED, Reason.MCP_AUTH_FAILED)
        assert not server.executed


@pytest.mark.requirement("MCPH-16", "MCPH-11")
async def test_connections_of_callers_are_bounded_and_all_end_with_the_source(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"p{number}").write_text("key")
    settings = {"caller_headers": {"X-Key": "${file:" + str(tmp_path) + "/{principal}}"}}
    async with http_mcp(HttpMcp(modern=False)) as server:
        async with mcp_server(at(server.url, **settings)) as (source, view):
            source._callers = CallerPool("m", source._new_caller_connection, most=2)
            for number in range(4):
                assert (await call_as(view, f"p{number}")).status is OK
            with anyio.fail_after(30):
                await server.until(lambda: len(server.known) == 3)  # two callers' and ours
        with anyio.fail_after(30):
            await server.until(lambda: not server.open)
        assert not server.known


@pytest.mark.requirement("HOSTILE-39")
@pytest.mark.parametrize("used_before", [True, False])
async def test_a_call_behind_the_end_of_its_source_connects_to_nothing(used_before: bool, tmp_path: Path) -> None:
    (tmp_path / "ann").write_text("key")
    settings = {"caller_headers": {"X-Key": "${file:" + str(tmp_path) + "/{principal}}"}}
    async with http_mcp(HttpMcp(modern=False)) as server:
        async with mcp_server(at(server.url, **settings)) as (_, view):
            if used_before:
                assert (await call_as(view, "ann")).status is OK
        asked = len(server.seen)
        result = await call_as(view, "ann")
        assert result.failure is not None
        assert (result.status, result.failure.reason) == (NOT_EXECUTED, Reason.MCP_UNAVAILABLE)
        with anyio.fail_after(30):
            await server.until(lambda: not server.open)
        assert "initialize" not in [seen.method for seen in server.seen[asked:]]


def oauth(authority: Authority, **more: object) -> dict[str, object]:
    """The section of a configuration."""
    return {"issuer": authority.issuer, "client_id": CLIENT, **more}


@pytest.mark.requirement("MCPH-15", "MCPH-14")
async def test_client_credentials_get_a_token_and_a_new_one_when_it_is_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("CLIENT_SECRET", SECRET)
    async with http_mcp() as server:
        authority = Authority(server)
        authority.serve()
        settings = {"oauth": oauth(authority, client_secret_env="CLIENT_SECRET", scope="tools")}
        async with mcp_server(at(server.url, **settings)) as (_, view):
            assert (await run_tool(view, "m__echo")).status is OK
            assert authority.issued == 1
            form = authority.forms[0]
            assert (form["grant_type"], form["scope"], form["resource"]) == ("client_credentials", "tools", server.url)
            assert form["basic"] == "turnwire:s3cret%2Fof%20the%20client"
            server.secret = "withdrawn"
            results = await asyncio.gather(*(run_tool(view, "m__echo", timeout=15) for _ in range(5)))
            assert [result.status for result in results] == [OK] * 5
            assert authority.issued == 2, "one new token for all"
            authority.refuses, server.secret = True, "withdrawn again"
            refused = await run_tool(view, "m__echo")
            assert refused.failure is not None
            assert (refused.status, refused.failure.reason) == (NOT_EXECUTED, Reason.MCP_AUTH_FAILED)
            assert SECRET not in repr(refused)
    for secret in (SECRET, "token-1", "token-2"):
        assert secret not in caplog.text


@pytest.mark.requirement("MCPH-15")
async def test_requests_with_a_token_do_not_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLIENT_SECRET", SECRET)
    async with http_mcp() as server:
        authority = Authority(server)
        authority.serve()
        settings = {"oauth": oauth(authority, client_secret_env="CLIENT_SECRET")}
        async with mcp_server(at(server.url, **settings)) as (_, view):
            release = asyncio.Event()
            server.fail("other", Wait(release))
            async with anyio.create_task_group() as group:
                group.start_soon(run_tool, view, "m__other")
                with anyio.fail_after(20):
                    await server.until(lambda: server.count("tools/call", "other"))
                    assert (await run_tool(view, "m__echo")).status is OK
                release.set()


@pytest.mark.requirement("MCPH-15")
async def test_a_private_key_signs_for_the_client(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    encoding, form_, plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (tmp_path / "key.pem").write_bytes(key.private_bytes(encoding, form_, plain))
    async with http_mcp() as server:
        authority = Authority(server)
        authority.serve()
        settings = {"oauth": oauth(authority, private_key_file=str(tmp_path / "key.pem"))}
        async with mcp_server(at(server.url, **settings)) as (_, view):
            assert (await run_tool(view, "m__echo")).status is OK
        assertion = authority.forms[0]["client_assertion"]
        claims = jwt.decode(assertion, key.public_key(), algorithms=["ES256"], audience=authority.issuer)
        assert (claims["iss"], claims["sub"]) == (CLIENT, CLIENT)


@pytest.mark.requirement("MCPH-15")
@pytest.mark.parametrize("exchanged", [False, True])
async def test_an_enterprise_assertion_gets_a_token(exchanged: bool, tmp_path: Path) -> None:
    (tmp_path / "assertion").write_text("identity")
    (tmp_path / "secret").write_text(SECRET)
    async with http_mcp() as server:
        authority = Authority(server)
        authority.serve()
        exchange = {"assertion_exchange": f"{authority.issuer}/exchange", "assertion_client_id": "at-the-idp"}
        settings = {
            "oauth": oauth(
                authority,
                flow="enterprise",
                client_secret_file=str(tmp_path / "secret"),
                assertion_file=str(tmp_path / "assertion"),
                **(exchange if exchanged else {}),
            )
        }
        async with mcp_server(at(server.url, **settings)) as (_, view):
            assert (await run_tool(view, "m__echo")).status is OK
        assert authority.forms[0]["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
        assert authority.forms[0]["assertion"] == ("id-jag" if exchanged else "identity")
        if exchanged:
            (asked,) = authority.exchanges
            assert (asked["subject_token"], asked["client_id"]) == ("identity", "at-the-idp")
            assert (asked["audience"], asked["resource"]) == (authority.issuer, server.url)


@pytest.mark.requirement("MCPH-15", "HOSTILE-37")
async def test_a_server_that_names_another_authority_gets_no_token(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    async with http_mcp() as other, http_mcp() as server:
        evil = Authority(other)
        evil.serve()
        asked: list[str] = []
        given = other.routes["/.well-known/oauth-protected-resource"]

        def metadata(headers: Mapping[str, str], body: bytes) -> tuple[int, dict[str, Any]]:
            asked.append("metadata")
            return given(headers, body)

        other.routes["/.well-known/oauth-protected-resource"] = metadata
        server.secret = "x"
        server.challenge = other.challenge
        mine = {"issuer": "http://127.0.0.1:9", "client_id": CLIENT, "client_secret_file": str(tmp_path / "secret")}
        async with mcp_server(at(server.url, oauth=mine)) as (_, view):
            (failure,) = view.failures
            assert failure.reason is Reason.MCP_AUTH_FAILED
        assert not evil.forms
        assert asked == [], "an address that the server names is not asked"
