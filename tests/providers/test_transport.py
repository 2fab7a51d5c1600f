"""Connections to a provider: time limits, cancelling, breaking, and servers that cannot be reached."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from providers.calls import END, answer_of, ask, provider, request, text
from providers.server import Answer, Request, serve

from turnwired.domain.failure import Reason
from turnwired.providers import liveness, transport
from turnwired.providers.port import CallLimits
from turnwired.providers.transport import HttpTransport

pytestmark = pytest.mark.anyio


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A self-signed certificate, with its key in key.pem beside it."""
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -keyout key.pem -out cert.pem"
    made = subprocess.run(command.split(), cwd=tmp_path, check=False, capture_output=True, timeout=60)
    if made.returncode:
        pytest.skip("openssl cannot make a certificate here")
    return tmp_path / "cert.pem"


@pytest.mark.requirement("TRANSPORT-4")
async def test_connections_are_bounded() -> None:
    release = asyncio.Event()

    both = asyncio.Event()

    async def handler(_: Request, answer: Answer) -> None:
        if server.connections == 2:
            both.set()
        await release.wait()
        await answer.all(text("a") + END)

    async with serve(handler) as server:
        chat = provider(server.url)
        chat._transport = HttpTransport(max_connections=2)
        calls = [asyncio.create_task(ask(chat, request())) for _ in range(6)]
        await asyncio.wait_for(both.wait(), 5)
        assert server.connections == 2
        release.set()
        assert [folded.text for folded, _ in await asyncio.gather(*calls)] == ["a"] * 6
        assert server.connections == 2
        await chat.aclose()


@pytest.mark.requirement("TRANSPORT-8")
async def test_a_connection_that_the_server_closed_meanwhile_costs_no_call() -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer.all(text("a") + END)  # with the promise to keep the connection,
        answer.writer.close()  # which is broken at once

    async with serve(handler) as server:
        chat = provider(server.url)
        for _ in range(5):
            folded, failure = await ask(chat, request())
            assert (folded.text, failure) == ("a", None)
        await chat.aclose()
    assert len(server.requests) == 5


@pytest.mark.requirement("TRANSPORT-8")
async def test_a_server_that_drops_a_new_connection_is_not_asked_twice() -> None:
    async def handler(_: Request, answer: Answer) -> None:
        answer.writer.transport.abort()

    async with serve(handler) as server:
        chat = provider(server.url)
        _, failure = await ask(chat, request())
        await chat.aclose()
    assert failure
    assert (failure.reason, failure.retryable) == (Reason.PROVIDER_NETWORK, True)
    assert len(server.requests) == 1


@pytest.mark.requirement("TRANSPORT-1")
@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        (CallLimits(first_event=0.1), "first_event"),
        (CallLimits(total=0.1), "total"),
        (CallLimits(total=0.1, first_event=5), "total"),
    ],
)
@pytest.mark.parametrize("head", [False, True], ids=["no-head", "head-only"])
async def test_a_server_that_sends_nothing_times_out(limits: CallLimits, limit: str, head: bool) -> None:
    async def handler(_: Request, answer: Answer) -> None:
        if head:
            await answer.start()
        await answer.gone.wait()

    folded, failure = await answer_of(handler, request(limits=limits))
    assert failure
    assert (failure.reason, failure.origin_code, failure.retryable) == (Reason.PROVIDER_TIMEOUT, limit, True)
    assert folded.text == ""


@pytest.mark.requirement("TRANSPORT-1", "TRANSPORT-2", "SCN-067")
@pytest.mark.parametrize(
    "noise",
    [
        b": ping\n\n",
        b"data: \n\n",
        b'data: {"choices":[]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":null}]}\n\n',
        b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n',
    ],
)
async def test_a_stream_that_only_keeps_itself_alive_times_out_with_its_output_kept(noise: bytes) -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer.start()
        await answer.send(text("a"))
        while not answer.gone.is_set():
            await answer.send(noise)
            with suppress(TimeoutError):  # a hundred times a second is often enough
                await asyncio.wait_for(answer.gone.wait(), 0.01)

    folded, failure = await answer_of(handler, request(limits=CallLimits(total=20, idle=0.15)))
    assert failure
    assert (failure.reason, failure.origin_code) == (Reason.PROVIDER_TIMEOUT, "idle")
    assert folded.text == "a"


@pytest.mark.requirement("TRANSPORT-1", "SCN-068")
async def test_silent_thinking_has_a_limit_of_its_own() -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer.start()
        await answer.send(b'data: {"id":"r","choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n')
        await asyncio.wait_for(answer.gone.wait(), 5)

    limits = CallLimits(total=20, first_event=0.05, idle=0.05, thinking_idle=0.3)
    _, failure = await answer_of(handler, request(limits=limits))
    assert failure
    assert failure.origin_code == "thinking_idle"


@pytest.mark.requirement("TRANSPORT-3")
@pytest.mark.parametrize("how", ["cancel", "close"])
async def test_giving_up_a_call_closes_its_connection_at_once(how: str) -> None:
    closed = asyncio.Event()

    async def handler(_: Request, answer: Answer) -> None:
        await answer.start()
        await answer.send(text("a"))
        await answer.gone.wait()
        closed.set()

    async with serve(handler) as server:
        chat = provider(server.url)
        batches = chat.generate(request())
        assert await anext(batches)
        if how == "close":
            await batches.aclose()
        else:
            waiting = asyncio.ensure_future(anext(batches))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        await asyncio.wait_for(closed.wait(), 10)  # the call itself may take far longer
        await chat.aclose()


@pytest.mark.requirement("TRANSPORT-3")
async def test_cancelling_before_the_answer_begins_closes_the_connection() -> None:
    gone = asyncio.Event()
    came = asyncio.Event()

    async def handler(_: Request, answer: Answer) -> None:
        came.set()
        await answer.gone.wait()
        gone.set()

    async with serve(handler) as server:
        chat = provider(server.url)
        task = asyncio.create_task(ask(chat, request()))
        await asyncio.wait_for(came.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(gone.wait(), 2)
        await chat.aclose()


@pytest.mark.requirement("TRANSPORT-7")
@pytest.mark.parametrize("finished", [False, True], ids=["before-the-finish-reason", "after-it"])
async def test_a_connection_that_breaks_is_a_failure_only_before_the_finish_reason(finished: bool) -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer.start()
        await answer.send(text("a") + (END.replace(b"data: [DONE]\n\n", b"") if finished else b""))
        answer.writer.transport.abort()

    folded, failure = await answer_of(handler)
    assert folded.text == "a"
    if finished:
        assert failure is None
        assert folded.stopped
    else:
        assert failure
        assert (failure.reason, failure.retryable) == (Reason.PROVIDER_NETWORK, True)
        assert folded.stopped is None


@pytest.mark.requirement("TRANSPORT-7")
async def test_a_stream_that_stays_open_after_its_finish_reason_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "FINISH_GRACE", 0.1)

    async def handler(_: Request, answer: Answer) -> None:
        await answer.start()
        await answer.send(text("a") + END.replace(b"data: [DONE]\n\n", b""))
        await answer.gone.wait()

    folded, failure = await answer_of(handler)
    assert failure is None
    assert folded.stopped


@pytest.mark.requirement("TRANSPORT-6")
async def test_the_body_of_an_error_is_read_only_so_far() -> None:
    sent = 0

    async def handler(_: Request, answer: Answer) -> None:
        nonlocal sent
        await answer.start(400, "application/json")
        while not answer.gone.is_set() and sent < 100_000_000:
            await answer.send(b" " * 65536)
            sent += 65536
            await asyncio.sleep(0)

    _, failure = await answer_of(handler)
    assert failure
    assert failure.reason is Reason.PROVIDER_REJECTED
    assert sent < 20_000_000


@pytest.mark.requirement("TRANSPORT-6")
async def test_the_body_of_an_error_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "ERROR_BODY_SECONDS", 0.1)

    async def handler(_: Request, answer: Answer) -> None:
        await answer.start(500, "application/json")
        await answer.gone.wait()

    _, failure = await answer_of(handler, request(limits=CallLimits()))
    assert failure
    assert failure.reason is Reason.PROVIDER_UNAVAILABLE


@pytest.mark.requirement("TRANSPORT-5")
@pytest.mark.parametrize(
    ("url", "reason", "words"),
    [
        ("http://127.0.0.1:1/v1", Reason.PROVIDER_NETWORK, "127.0.0.1:1 does not accept connections"),
        ("http://name.invalid/v1", Reason.PROVIDER_NETWORK, "cannot be resolved"),
        ("ftp://x.example/v1", Reason.PROVIDER_NOT_CONFIGURED, "http or https"),
    ],
)
async def test_a_server_that_cannot_be_reached_has_its_sentence(url: str, reason: Reason, words: str) -> None:
    chat = provider("http://127.0.0.1:1")
    object.__setattr__(chat._profile, "base_url", url)
    _, failure = await ask(chat, request())
    await chat.aclose()
    assert failure
    assert failure.reason is reason
    assert words in failure.message


@asynccontextmanager
async def listening(server: asyncio.Server) -> AsyncIterator[int]:
    """The server's port. Closed also when a test fails: one left open keeps the loop of all tests from ending."""
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@pytest.mark.requirement("TRANSPORT-5")
async def test_plain_http_where_tls_is_asked_for_is_no_trusted_connection() -> None:
    def complain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with listening(await asyncio.start_server(complain, "127.0.0.1", 0)) as port:
        chat = provider(f"https://127.0.0.1:{port}/v1")
        _, failure = await ask(chat, request())
        await chat.aclose()
    assert failure
    assert (failure.reason, failure.retryable) == (Reason.PROVIDER_NETWORK, False)
    assert "TLS" in failure.message


@pytest.mark.requirement("TRANSPORT-5")
async def test_a_certificate_that_nobody_vouches_for_is_no_trusted_connection(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))

    def drop(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with listening(await asyncio.start_server(drop, "127.0.0.1", 0, ssl=context)) as port:
        chat = provider(f"https://127.0.0.1:{port}/v1")
        _, failure = await ask(chat, request())
        await chat.aclose()
    assert failure
    assert (failure.reason, failure.retryable) == (Reason.PROVIDER_NETWORK, False)
    assert "certificate" in failure.message


@pytest.mark.requirement("TRANSPORT-5")
async def test_something_that_speaks_no_http_is_a_protocol_error() -> None:
    async def handler(_: Request, answer: Answer) -> None:
        answer.writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
        await answer.writer.drain()

    _, failure = await answer_of(handler)
    assert failure
    assert failure.reason is Reason.PROVIDER_PROTOCOL_ERROR
    assert "HTTP" in failure.message
