"""http_fetch goes where it may and nowhere else: addresses, names, redirects, bounds. Everything on the loopback."""

from __future__ import annotations

import gzip
import ipaddress
import ssl
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from providers.cloud.kit import certificate
from tools.kit import words_of
from tools.operator.kit import OK, Tools, tools_of
from tools.operator.web import Names, Web, loopback, page, redirect, web

from turnwired.domain.message import Blob, Text
from turnwired.tools.operator.addresses import is_metadata, is_never_reached, is_public

pytestmark = pytest.mark.anyio

NOT_PUBLIC = [
    *("127.0.0.1", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
    *("0.0.0.0", "0.1.2.3", "255.255.255.255", "224.0.0.1", "239.1.1.1", "240.0.0.1", "198.18.0.1", "192.0.2.1"),
    *("203.0.113.5", "192.0.0.8", "192.88.99.1", "168.63.129.16", "100.100.100.200"),
    *("::", "::1", "fe80::1", "fc00::1", "fd00:ec2::254", "fd20:ce::254", "ff02::1", "2001:db8::1", "fec0::1"),
    *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:8.8.8.8", "::127.0.0.1", "64:ff9b::7f00:1"),
    *("64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808", "2002:7f00:1::", "2001:0:1::1", "2606:4700::5efe:10.0.0.1"),
    *("2606:4700::200:5efe:127.0.0.1", "100::1", "5f00::1", "3fff::1"),
]
PUBLIC = ["8.8.8.8", "93.184.216.34", "172.32.0.1", "2606:4700:4700::1111", "64:ff9b::808:808", "100.128.0.1"]


@pytest.mark.requirement("OPER-21")
@pytest.mark.parametrize("address", NOT_PUBLIC)
async def test_an_address_that_is_not_public_is_not_asked(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))
    tools = await tools_of({"fetch": {}}, Names({"name.test": [[address]], "mixed.test": [["8.8.8.8", address]]}))
    written = f"[{address}]" if ":" in address else address
    for host in (written, "name.test", "mixed.test"):
        assert await tools.code("http_fetch", url=f"http://{host}/") == "blocked_address"


@pytest.mark.requirement("OPER-21")
@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_of_the_public_internet_is_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.requirement("OPER-21")
@given(st.ip_addresses(v=4))
def test_an_address_is_judged_the_same_in_ipv6(address: ipaddress.IPv4Address) -> None:
    translated = ipaddress.IPv6Address(int(ipaddress.IPv6Address("64:ff9b::")) + int(address))
    mapped = ipaddress.IPv6Address(f"::ffff:{address}")
    assert is_public(translated) == is_public(address) and not is_public(mapped)
    assert is_metadata(mapped) == is_metadata(translated) == is_metadata(address)
    assert is_never_reached(mapped) == is_never_reached(translated) == is_never_reached(address)
    if is_public(address):
        assert address.is_global and not address.is_private and not address.is_multicast


@pytest.mark.requirement("OPER-22")
@pytest.mark.parametrize(
    "host",
    [
        *("2130706433", "0x7f000001", "017700000001", "0177.0.0.1", "127.1", "127.0.1", "0x7f.0.0.1", "127.0.0.0x1"),
        *(
            "127.0.0.1.",
            "\uff11\uff12\uff17.0.0.1",
            "127。0。0。1",
            "127%2e0%2e0%2e1",
            "①.test",
            "a..test",
            "-",
            "a b.test",
            "*",
        ),
        *("[::ffff:7f00:1]", "[::ffff:127.0.0.1]", "[fe80::1%25eth0]", "[::1", "localhost", "localhost.", "LOCALHOST"),
        *("", "a\\@b", "1.0x", "x" * 64 + ".test", "999.1.1.1", "foo.123"),
    ],
)
async def test_a_host_in_an_unusual_form_is_not_asked(host: str) -> None:
    tools = await tools_of({"fetch": {}}, loopback("localhost"))
    assert (await tools.code("http_fetch", url=f"http://{host}/")).startswith("blocked_")


@pytest.mark.requirement("OPER-22")
@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("file:///etc/passwd", "blocked_scheme"),
        ("ftp://a.test/", "blocked_scheme"),
        ("gopher://a.test/", "blocked_scheme"),
        ("javascript:alert(1)", "blocked_scheme"),
        ("a.test/x", "blocked_scheme"),
        ("//a.test/x", "blocked_scheme"),
        ("http://user:pw@a.test/", "blocked_userinfo"),
        ("http://user@a.test/", "blocked_userinfo"),
        ("http://a.test@127.0.0.1/", "blocked_userinfo"),
        ("http://a.test\\@127.0.0.1/", "blocked_url"),
        ("http://a.test/\r\nx: y", "blocked_url"),
        ("http://a.test:0/", "blocked_port"),
        ("http://a.test:99999/", "blocked_port"),
        ("http://a.test:22/", "blocked_port"),
    ],
)
async def test_a_url_that_is_no_plain_one_is_refused(url: str, code: str) -> None:
    names = loopback("a.test")
    failure = await (await tools_of({"fetch": {}}, names)).failure("http_fetch", url=url)
    assert failure.origin_code == code and "a.test" not in failure.message and "pw" not in failure.message
    assert names.asked == []


def over(site: Web, **settings: Any) -> dict[str, Any]:
    """A configuration in which ``shop.test`` is this machine by its name."""
    return {"fetch": {"private_hosts": ["shop.test", *settings.pop("private", ())], **settings}}


async def fetched(site: Web, path: str, **settings: Any) -> list[object]:
    tools = await tools_of(over(site, **settings), loopback("shop.test", "other.test"))
    result = await tools.result("http_fetch", url=f"http://shop.test:{site.port}{path}")
    assert result.status is OK, result.failure
    return [part.content for part in result.content]


@pytest.mark.requirement("OPER-30")
async def test_text_comes_as_text_with_the_status_and_few_headers() -> None:
    pages = {"/": page("grün".encode(), content_type="text/html; charset=utf-8", etag='"1"', set_cookie="a=b", x_y="z")}
    async with web(pages) as site:
        head, body = await fetched(site, "/")
    assert head == Text('HTTP 200\ncontent-type: text/html; charset=utf-8\ncontent-length: 5\netag: "1"')
    assert body == Text("grün")


@pytest.mark.requirement("OPER-30")
@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        ("application/json", b"{}", Text("{}")),
        ("application/problem+json", b"{}", Text("{}")),
        ("text/plain; charset=iso-8859-1", b"caf\xe9", Text("café")),
        ("text/plain; charset=zlib", b"ab", Text("ab")),
        ("text/plain", b"\xff", Text("\ufffd")),
        ("image/png", b"\x89PNG", Blob("image/png", b"\x89PNG")),
        ("IMAGE/PNG ; x=y", b"\x89PNG", Blob("image/png", b"\x89PNG")),
        ("nonsense", b"\0", Blob("application/octet-stream", b"\0")),
        ("nonsense", b"words", Text("words")),
    ],
)
async def test_a_body_is_text_or_typed_bytes(content_type: str, body: bytes, expected: object) -> None:
    async with web({"/": page(body, content_type=content_type)}) as site:
        assert (await fetched(site, "/"))[1:] == [expected]


@pytest.mark.requirement("OPER-30")
async def test_an_answer_that_is_no_success_is_shown_as_it_is() -> None:
    async with web({"/": page(b"later", "503 Busy", retry_after="7", content_type="text/plain")}) as site:
        head, body = await fetched(site, "/")
        nothing = await fetched(site, "/x")
    assert head == Text("HTTP 503\ncontent-type: text/plain\ncontent-length: 5\nretry-after: 7")
    assert body == Text("later") and nothing[0] == Text("HTTP 404\ncontent-length: 4")


@pytest.mark.requirement("OPER-24")
async def test_redirects_on_the_same_host_are_followed() -> None:
    async with web({"/": redirect("/a/b"), "/a/b": redirect("../c?d"), "/c?d": page(b"here")}) as site:
        assert (await fetched(site, "/#fragment"))[1] == Text("here")
    assert site.paths == ["/", "/a/b", "/c?d"]


@pytest.mark.requirement("OPER-24")
@pytest.mark.parametrize(
    ("location", "code"),
    [
        ("http://127.0.0.1:{port}/secret", "blocked_address"),
        ("http://other.test:{port}/secret", "blocked_port"),
        ("http://other.test/secret", "blocked_address"),
        ("http://169.254.169.254/latest/", "blocked_address"),
        ("http://[::ffff:169.254.169.254]/", "blocked_address"),
        ("http://2130706433/", "blocked_address"),
        ("//127.0.0.1/secret", "blocked_address"),
        ("file:///etc/passwd", "blocked_scheme"),
        ("http://u:p@shop.test:{port}/secret", "blocked_userinfo"),
        ("http://shop.test:{port}/\u00a0", "blocked_url"),
    ],
)
@pytest.mark.parametrize("follow", [False, True])
async def test_a_redirect_to_what_may_not_be_asked_is_an_error(location: str, code: str, follow: bool) -> None:
    async with web({"/secret": page(b"SECRET")}) as site:
        site.pages["/"] = redirect(location.format(port=site.port))
        tools = await tools_of(over(site, follow_to_other_hosts=follow), loopback("shop.test", "other.test"))
        assert await tools.code("http_fetch", url=f"http://shop.test:{site.port}/") == code
    assert site.paths == ["/"]


@pytest.mark.requirement("OPER-24")
async def test_a_redirect_to_another_host_is_told_of_and_followed_only_where_configured() -> None:
    async with web({"/b": page(b"there")}) as site:
        site.pages["/"] = redirect(f"http://other.test:{site.port}/b")
        private = ["other.test"]
        (told,) = await fetched(site, "/", private=private)
        assert site.paths == ["/"]
        assert isinstance(told, Text) and f"elsewhere: http://other.test:{site.port}/b" in told.text
        assert (await fetched(site, "/", private=private, follow_to_other_hosts=True))[1] == Text("there")
    assert site.paths == ["/", "/", "/b"]


@pytest.mark.requirement("OPER-24", "OPER-27")
async def test_redirects_are_counted() -> None:
    async with web({f"/{number}": redirect(f"/{number + 1}") for number in range(10)} | {"/10": page(b"end")}) as site:
        tools = await tools_of(over(site, max_redirects=3), loopback("shop.test"))
        assert await tools.code("http_fetch", url=f"http://shop.test:{site.port}/0") == "too_many_redirects"
        assert site.paths == ["/0", "/1", "/2", "/3"]
        assert (await fetched(site, "/5", max_redirects=5))[1] == Text("end")


@pytest.mark.requirement("OPER-23")
async def test_a_name_that_resolves_otherwise_the_second_time_is_connected_to_as_it_was_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connected: list[str] = []

    async def connect(remote_host: str, *_: object, **__: object) -> None:
        connected.append(str(remote_host))
        raise OSError("not from a test")

    monkeypatch.setattr(anyio, "connect_tcp", connect)
    names = Names({"rebind.test": [["93.184.216.34", "2606:4700::1111"], ["127.0.0.1"]]})
    tools = await tools_of({"fetch": {}}, names)
    assert await tools.code("http_fetch", url="http://rebind.test/") == "no_connection"
    assert (connected, names.asked) == (["93.184.216.34", "2606:4700::1111"], ["rebind.test"])
    assert await tools.code("http_fetch", url="http://rebind.test/") == "blocked_address"
    assert len(connected) == 2


@pytest.mark.requirement("OPER-23")
async def test_each_hop_is_resolved_and_judged_once() -> None:
    async with web({"/": redirect("/b"), "/b": page(b"here")}) as site:
        names = Names({"shop.test": [["127.0.0.1"], ["169.254.169.254"]]})
        tools = await tools_of(over(site), names)
        assert await tools.code("http_fetch", url=f"http://shop.test:{site.port}/") == "blocked_address"
    assert site.paths == ["/"] and names.asked == ["shop.test", "shop.test"]


@pytest.mark.requirement("OPER-23")
async def test_an_address_that_takes_no_connection_is_followed_by_the_next() -> None:
    async with web({"/": page(b"here")}) as site:
        tools = await tools_of(over(site), Names({"shop.test": [["::1", "127.0.0.1"]]}))
        assert (await tools.words("http_fetch", url=f"http://shop.test:{site.port}/")).endswith("here")


@pytest.mark.requirement("OPER-25")
async def test_a_private_host_is_reached_by_its_name_and_port_alone() -> None:
    async with web({"/": page(b"here")}) as site:
        config = {"fetch": {"private_hosts": [f"shop.test:{site.port}", "127.0.0.1"]}}
        tools = await tools_of(config, loopback("shop.test", "sub.shop.test"))
        for host in ("shop.test", "SHOP.TEST", "127.0.0.1"):
            assert (await tools.words("http_fetch", url=f"http://{host}:{site.port}/")).endswith("here")
        assert await tools.code("http_fetch", url="http://shop.test/") == "blocked_address"
        assert await tools.code("http_fetch", url="http://sub.shop.test/") == "blocked_address"
        assert await tools.code("http_fetch", url="http://[::1]/") == "blocked_address"


@pytest.mark.requirement("OPER-25")
@pytest.mark.parametrize(
    "address", ["169.254.169.254", "169.254.1.1", "fe80::1", "224.0.0.1", "0.0.0.0", "fd00:ec2::254"]
)
async def test_not_even_a_private_host_leads_to_metadata_or_nowhere(address: str) -> None:
    tools = await tools_of({"fetch": {"private_hosts": ["shop.test"]}}, Names({"shop.test": [[address]]}))
    assert await tools.code("http_fetch", url="http://shop.test/") == "blocked_address"


@pytest.mark.requirement("OPER-26")
async def test_denied_hosts_are_never_asked_and_allowed_ones_alone_are() -> None:
    async with web({"/": page(b"here")}) as site:
        names = loopback("shop.test", "a.example", "x.a.example", "b.example")
        config = over(site, allow_hosts=["*.a.example"], deny_hosts=["shop.test", "9.9.9.9"])
        tools = await tools_of(config, names)
        assert await tools.code("http_fetch", url=f"http://shop.test:{site.port}/") == "blocked_host"
        assert await tools.code("http_fetch", url="http://shop.test./") == "blocked_host"
        for host in ("b.example", "a.example", "xa.example", "8.8.8.8", "9.9.9.9"):
            assert await tools.code("http_fetch", url=f"http://{host}/") == "blocked_host"
        assert await tools.code("http_fetch", url="http://x.a.example/") == "blocked_address"
        denied = await tools_of({"fetch": {"deny_hosts": ["9.9.9.9"]}}, Names({"a.example": [["9.9.9.9"]]}))
        assert await denied.code("http_fetch", url="http://a.example/") == "blocked_host"
    assert site.requests == [] and names.asked == ["x.a.example"]


@pytest.mark.requirement("OPER-27")
async def test_a_body_without_end_is_cut_and_the_connection_closed() -> None:
    async with web({}) as site:
        with anyio.fail_after(20):
            _, body = await fetched(site, "/endless", max_bytes=100_000)
    assert isinstance(body, Text) and body.text == "x" * 100_000 + "\n[cut after 100000 bytes]"
    assert site.sent < 50_000_000


@pytest.mark.requirement("OPER-27")
async def test_bytes_that_are_too_many_are_not_given_in_part() -> None:
    async with web({"/": page(b"\0" * 5000, content_type="image/png")}) as site:
        (head,) = await fetched(site, "/", max_bytes=1024)
    assert isinstance(head, Text) and head.text.endswith("[the body is no text and larger than is read: 1024 bytes]")


@pytest.mark.requirement("OPER-27")
async def test_what_is_packed_is_unpacked_within_the_bound() -> None:
    bomb = gzip.compress(b"0" * 100_000_000)
    pages = {
        "/small": page(gzip.compress(b"packed"), content_encoding="gzip", content_type="text/plain"),
        "/bomb": page(bomb, content_encoding="gzip", content_type="text/plain"),
        "/broken": page(b"no gzip", content_encoding="gzip"),
        "/other": page(zlib.compress(b"x"), content_encoding="deflate"),
    }
    async with web(pages) as site:
        assert (await fetched(site, "/small"))[1] == Text("packed")
        tracemalloc.start()
        try:
            cut = (await fetched(site, "/bomb", max_bytes=2048))[1]
            assert tracemalloc.get_traced_memory()[1] < 10_000_000
        finally:
            tracemalloc.stop()
        assert isinstance(cut, Text) and cut.text == "0" * 2048 + "\n[cut after 2048 bytes]"
        tools = await tools_of(over(site), loopback("shop.test"))
        for path in ("/broken", "/other"):
            assert await tools.code("http_fetch", url=f"http://shop.test:{site.port}{path}") == "not_read"


@pytest.mark.requirement("OPER-27")
async def test_an_answer_that_does_not_come_ends_the_call() -> None:
    async with web({}) as site:
        tools = await tools_of(over(site, max_seconds=0.3), loopback("shop.test"))
        with anyio.fail_after(10):
            assert await tools.code("http_fetch", url=f"http://shop.test:{site.port}/mute") in {"timeout", "network"}


@pytest.mark.requirement("OPER-28")
async def test_nothing_is_sent_along(monkeypatch: pytest.MonkeyPatch) -> None:
    async with web({"/": page(b"", "302 Found", location="/b", set_cookie="a=b"), "/b": page(b"here")}) as site:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:1")
        monkeypatch.setenv("NETRC", "/dev/null")
        await fetched(site, "/")
    assert len(site.requests) == 2
    for request, path in zip(site.requests, ("/", "/b"), strict=True):
        first, *lines = request.strip().splitlines()
        headers = dict(line.split(": ", 1) for line in lines)
        assert first == f"GET {path} HTTP/1.1"
        assert {name.lower() for name in headers} <= {"host", "user-agent", "accept", "accept-encoding", "connection"}
        assert {name.lower(): value for name, value in headers.items()}["host"] == f"shop.test:{site.port}"


@pytest.mark.requirement("OPER-29")
async def test_the_certificate_must_be_of_the_name(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    async with web({"/": page(b"sealed")}, tls) as site:
        config = {"fetch": {"private_hosts": ["localhost", "other.test"], "ca_file": str(cert)}}
        tools = await tools_of(config, loopback("localhost", "other.test"))
        assert (await tools.words("http_fetch", url=f"https://localhost:{site.port}/")).endswith("sealed")
        assert await tools.code("http_fetch", url=f"https://other.test:{site.port}/") == "no_connection"
        trusting = await tools_of({"fetch": {"private_hosts": ["localhost"]}}, loopback("localhost"))
        assert await trusting.code("http_fetch", url=f"https://localhost:{site.port}/") == "no_connection"
    assert len(site.requests) == 1


@pytest.mark.requirement("OPER-31")
async def test_a_failure_has_a_code_and_quotes_nothing(tmp_path: Path) -> None:
    async def code(tools: Tools, url: str) -> str:
        result = await tools.result("http_fetch", url=url)
        assert result.failure is not None
        assert "QUOTED" not in str(result.failure) and "QUOTED" not in words_of(result)
        return result.failure.origin_code

    async with web({"/QUOTED": b"nonsense"}) as site:
        tools = await tools_of(over(site), Names({"shop.test": [["127.0.0.1"]], "empty.test": [[]]}))
        assert await code(tools, "http://QUOTED.test/QUOTED") == "name_not_resolved"
        assert await code(tools, "http://empty.test/QUOTED") == "name_not_resolved"
        assert await code(tools, f"http://shop.test:{site.port}/QUOTED") == "network"
        closed = await tools_of(over(site, ca_file=str(tmp_path / "QUOTED")), loopback("shop.test"))
        assert await code(closed, f"http://shop.test:{site.port}/QUOTED") == "no_certificates"
    with anyio.fail_after(10):
        assert await code(tools, f"http://shop.test:{site.port}/QUOTED") == "no_connection"
