"""The provider against a scripted server: connections, limits, failures."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from providers.folding import Folded, add_all
from providers.server import Answer, Request, serve

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Failure, Reason
from turnwired.domain.generation import FinishReason
from turnwired.domain.tool import ToolChoice, ToolChoiceMode
from turnwired.providers import liveness, transport
from turnwired.providers.openai_chat import OpenAIChatProvider
from turnwired.providers.port import CallLimits, ModelRequest
from turnwired.providers.profiles import shipped, with_overrides
from turnwired.providers.transport import HttpTransport

pytestmark = pytest.mark.anyio
KEY = "sk-very-secret-key"
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
USER = b'{"role":"user","content":"my diary"}'


def text(words: str) -> bytes:
    """A chunk with text."""
    chunk = {"id": "r", "model": "m", "choices": [{"index": 0, "delta": {"content": words}, "finish_reason": None}]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def provider(url: str, environ: Mapping[str, str] | None = None, **overrides: Any) -> OpenAIChatProvider:
    """A provider of the generic profile at ``url``."""
    row = {"base_url": url, "base_url_env": "", "key_env": "KEY", **overrides}
    profile = with_overrides(shipped(), {"openai-compatible": row})["openai-compatible"]
    return OpenAIChatProvider(profile, environ={"KEY": KEY} if environ is None else environ)


def request(**fields: Any) -> ModelRequest:
    """A request of one message."""
    fields.setdefault("limits", CallLimits(total=20))
    return ModelRequest("m", [b"", USER], **fields)


async def ask(chat: OpenAIChatProvider, asked: ModelRequest) -> tuple[Folded, Failure | None]:
    """The folded answer and the failure, if there is one."""
    folded = Folded()
    try:
        async with aclosing(chat.generate(asked)) as batches:
            async for items in batches:
                assert items
                add_all(folded, items)
    except ProviderError as error:
        for shown in (str(error), repr(error), repr(error.failure)):
            assert KEY not in shown
            assert "diary" not in shown
        return folded, error.failure
    return folded, None


async def answer_of(
    handler: Callable[[Request, Answer], Awaitable[None]], asked: ModelRequest | None = None, **overrides: Any
) -> tuple[Folded, Failure | None]:
    """One call to a server of its own."""
    async with serve(handler) as server:
        chat = provider(server.url, **overrides)
        try:
            return await ask(chat, asked or request())
        finally:
            await chat.aclose()


@pytest.mark.requirement("WIRE-13", "TRANSPORT-4")
async def test_answers_come_over_one_connection_and_requests_carry_what_the_profile_says() -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer.all(text("Hello") + END)

    async with serve(handler) as server:
        chat = provider(server.url, headers={"X-Team": "t"}, query={"api-version": "1"}, usage_option=True)
        for _ in range(3):
            folded, failure = await ask(chat, request(headers={"traceparent": "00-1-2-3"}, max_output_tokens=7))
            assert failure is None
            assert folded.text == "Hello"
            assert folded.stopped
            assert folded.stopped.reason is FinishReason.STOP
        await chat.aclose()
    assert server.connections == 1
    sent = server.requests[-1]
    assert sent.path == "/v1/chat/completions?api-version=1"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.headers["x-team"] == "t"
    assert sent.headers["traceparent"] == "00-1-2-3"
    assert sent.headers["user-agent"].startswith("turnwired/")
    assert json.loads(sent.body) == {
        "model": "m",
        "messages": [{"role": "user", "content": "my diary"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 7,
    }


@pytest.mark.requirement("TRANSPORT-4")
async def test_connections_are_bounded() -> None:
    release = asyncio.Event()

    async def handler(_: Request, answer: Answer) -> None:
        await release.wait()
        await answer.all(text("a") + END)

    async with serve(handler) as server:
        chat = provider(server.url)
        chat._transport = HttpTransport(max_connections=2)
        calls = [asyncio.create_task(ask(chat, request())) for _ in range(6)]
        while len(server.requests) < 2:
            await asyncio.sleep(0)
        assert server.connections == 2
        release.set()
        assert [folded.text for folded, _ in await asyncio.gather(*calls)] == ["a"] * 6
        assert server.connections == 2
        await chat.aclose()


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


@pytest.mark.requirement("TRANSPORT-1", "TRANSPORT-2")
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
            await asyncio.sleep(0.01)

    folded, failure = await answer_of(handler, request(limits=CallLimits(total=20, idle=0.15)))
    assert failure
    assert (failure.reason, failure.origin_code) == (Reason.PROVIDER_TIMEOUT, "idle")
    assert folded.text == "a"


@pytest.mark.requirement("TRANSPORT-2")
async def test_content_re_arms_the_idle_limit_as_often_as_it_comes() -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer.start()
        for _ in range(12):
            await answer.send(text("a"))
            await asyncio.sleep(0.05)
        await answer.send(END)
        await answer.end()

    folded, failure = await answer_of(handler, request(limits=CallLimits(total=20, first_event=0.3, idle=0.3)))
    assert failure is None
    assert folded.text == "a" * 12


@pytest.mark.requirement("TRANSPORT-1")
async def test_silent_thinking_has_a_limit_of_its_own() -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer.start()
        await answer.send(b'data: {"id":"r","choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n')
        await asyncio.wait_for(answer.gone.wait(), 5)

    limits = CallLimits(total=20, first_event=0.05, idle=0.05, thinking_idle=0.3)
    _, failure = await answer_of(handler, request(limits=limits))
    assert failure
    assert failure.origin_code == "thinking_idle"


@pytest.mark.requirement("TRANSPORT-1")
async def test_a_slow_consumer_is_no_silent_provider() -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer.start()
        await answer.send(text("a"))
        await answer.send(text("b"))
        await answer.send(END)
        await answer.end()

    async with serve(handler) as server:
        chat = provider(server.url)
        words = Folded()
        async with aclosing(chat.generate(request(limits=CallLimits(idle=0.05, first_event=0.05)))) as batches:
            async for items in batches:
                add_all(words, items)
                await asyncio.sleep(0.15)
        await chat.aclose()
    assert words.text == "ab"


@pytest.mark.requirement("TRANSPORT-3")
@pytest.mark.parametrize("how", ["cancel", "close"])
async def test_giving_up_a_call_closes_its_connection_at_once(how: str) -> None:
    closed: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def handler(_: Request, answer: Answer) -> None:
        await answer.start()
        await answer.send(text("a"))
        await answer.gone.wait()
        closed.set_result(asyncio.get_running_loop().time())

    async with serve(handler) as server:
        chat = provider(server.url)
        batches = chat.generate(request())
        assert await anext(batches)
        begin = asyncio.get_running_loop().time()
        if how == "close":
            await batches.aclose()
        else:
            waiting = asyncio.create_task(anext(batches))  # type: ignore[arg-type]
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        assert await asyncio.wait_for(closed, 2) - begin < 0.5
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


@pytest.mark.requirement("WIRE-9")
async def test_a_clean_end_without_a_finish_reason_is_no_end_signal_and_no_failure() -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer.all(text("a"))

    folded, failure = await answer_of(handler)
    assert (folded.text, folded.stopped, failure) == ("a", None, None)


@pytest.mark.requirement("WIRE-10")
async def test_an_error_inside_a_200_comes_after_the_output_before_it() -> None:
    async def handler(_: Request, answer: Answer) -> None:
        error = b'data: {"error":{"message":"my diary","code":429}}\n\n'
        await answer.all(text("a") + error, retry_after="3")

    folded, failure = await answer_of(handler)
    assert folded.text == "a"
    assert failure
    assert (failure.reason, failure.retry_after) == (Reason.PROVIDER_RATE_LIMITED, 3.0)


@pytest.mark.requirement("TRANSPORT-5")
@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (
            401,
            b'{"error":{"code":"invalid_api_key","message":"Incorrect API key: my diary"}}',
            Reason.PROVIDER_AUTH_FAILED,
        ),
        (404, b'{"error":{"code":"model_not_found"}}', Reason.MODEL_NOT_FOUND),
        (403, b"", Reason.PROVIDER_FORBIDDEN),
        (429, b"", Reason.PROVIDER_RATE_LIMITED),
        (503, b"<html>", Reason.PROVIDER_UNAVAILABLE),
        (307, b"", Reason.PROVIDER_REJECTED),
    ],
)
async def test_a_status_has_its_reason(status: int, body: bytes, reason: Reason) -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer.start(status, "application/json", location="http://elsewhere.invalid/")
        if body:
            await answer.send(body)
        await answer.end()

    _, failure = await answer_of(handler)
    assert failure
    assert failure.reason is reason
    assert failure.message.endswith((".", ")"))


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


@pytest.mark.requirement("TRANSPORT-5")
async def test_plain_http_where_tls_is_asked_for_is_no_trusted_connection() -> None:
    def complain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    listener = await asyncio.start_server(complain, "127.0.0.1", 0)
    chat = provider(f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1")
    _, failure = await ask(chat, request())
    await chat.aclose()
    listener.close()
    assert failure
    assert (failure.reason, failure.retryable) == (Reason.PROVIDER_NETWORK, False)
    assert "TLS" in failure.message


@pytest.mark.requirement("TRANSPORT-5")
async def test_a_certificate_that_nobody_vouches_for_is_no_trusted_connection(tmp_path: Path) -> None:
    certificate = tmp_path / "cert.pem"
    made = subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            tmp_path / "key.pem",
            "-out",
            certificate,
        ]
        + ["-days", "1", "-subj", "/CN=localhost"],
        check=False,
        capture_output=True,
    )
    if made.returncode:
        pytest.skip("openssl is not here to make a certificate")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, tmp_path / "key.pem")

    def drop(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    listener = await asyncio.start_server(drop, "127.0.0.1", 0, ssl=context)
    chat = provider(f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1")
    _, failure = await ask(chat, request())
    await chat.aclose()
    listener.close()
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


@pytest.mark.requirement("PROFILE-2", "TRANSPORT-5")
async def test_a_missing_key_is_said_before_anything_is_sent() -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer.all(END)

    async with serve(handler) as server:
        environ: dict[str, str] = {}
        chat = provider(server.url, environ, key_required=True)
        assert (chat.info.configured, "KEY" in chat.info.hint) == (False, True)
        _, failure = await ask(chat, request())
        assert failure
        assert failure.reason is Reason.PROVIDER_NOT_CONFIGURED
        assert "environment variable KEY" in failure.message
        assert server.requests == []
        environ["KEY"] = "now there"
        assert chat.info.configured
        _, failure = await ask(chat, request())
        assert failure is None
        assert server.requests[0].headers["authorization"] == "Bearer now there"
        await chat.aclose()


@pytest.mark.requirement("PROFILE-2", "TRANSPORT-5")
async def test_a_key_with_a_line_break_inside_is_refused_without_showing_it() -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer.all(END)

    async with serve(handler) as server:
        chat = provider(server.url, {"KEY": f"{KEY}\nX-Evil: 1"})
        _, failure = await ask(chat, request())
        await chat.aclose()
    assert failure
    assert failure.reason is Reason.PROVIDER_NOT_CONFIGURED
    assert server.requests == []


async def test_a_closed_provider_refuses_calls() -> None:
    chat = provider("http://127.0.0.1:1/v1")
    await chat.aclose()
    await chat.aclose()
    _, failure = await ask(chat, request())
    assert failure
    assert failure.reason is Reason.SHUTTING_DOWN


@pytest.mark.requirement("WIRE-16")
async def test_provider_options_come_last_and_cannot_lift_a_limit() -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer.all(END)

    async with serve(handler) as server:
        chat = provider(server.url)
        _, failure = await ask(
            chat, request(reasoning_effort="low", provider_options={"seed": 7, "reasoning_effort": "x"})
        )
        assert failure is None
        sent = json.loads(server.requests[0].body)
        assert (sent["seed"], sent["reasoning_effort"]) == (7, "x")
        for name in ("max_tokens", "max_completion_tokens", "messages", "tools", "n", "stream", "model"):
            _, failure = await ask(chat, request(provider_options={name: 1}))
            assert failure
            assert failure.reason is Reason.OPTION_NOT_SUPPORTED
            assert name in failure.message
        assert len(server.requests) == 1
        await chat.aclose()


@pytest.mark.requirement("WIRE-15")
@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (ToolChoice(), None),
        (ToolChoice(ToolChoiceMode.AUTO), None),
        (ToolChoice(ToolChoiceMode.NONE), "none"),
        (ToolChoice(ToolChoiceMode.REQUIRED), "required"),
        (ToolChoice(routed_name="f"), {"type": "function", "function": {"name": "f"}}),
    ],
)
async def test_the_tool_choice_is_sent_or_refused(choice: ToolChoice, sent: object) -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer.all(END)

    async with serve(handler) as server:
        asked = request(tools=b"[]", tool_choice=choice, parallel_tool_calls=False)
        chat = provider(server.url, parallel_tool_calls=True)
        assert (await ask(chat, asked))[1] is None
        body = json.loads(server.requests[0].body)
        assert body.get("tool_choice") == sent
        assert (body["tools"], body["parallel_tool_calls"]) == ([], False)
        await chat.aclose()
        unable = provider(server.url, tool_choice=["auto"], named_tool_choice=False)
        _, failure = await ask(unable, asked)
        assert (failure.reason if failure else None) == (None if sent is None else Reason.OPTION_NOT_SUPPORTED)
        await unable.aclose()


@pytest.mark.requirement("WIRE-15")
async def test_a_reasoning_effort_that_cannot_be_told_is_refused() -> None:
    chat = provider("http://127.0.0.1:1/v1", reasoning_effort_field="")
    _, failure = await ask(chat, request(reasoning_effort="low"))
    assert failure
    assert failure.reason is Reason.OPTION_NOT_SUPPORTED


@pytest.mark.requirement("WIRE-13")
async def test_a_history_of_a_megabyte_is_sent_as_it_was_kept() -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer.all(text("a") + END)

    async with serve(handler) as server:
        chat = provider(server.url)
        piece = msgspec.json.encode({"role": "user", "content": "x" * 2000})
        folded, failure = await ask(chat, ModelRequest("m", [piece] * 1000, limits=CallLimits(total=20)))
        assert (folded.text, failure) == ("a", None)
        assert b",".join([piece] * 1000) in server.requests[0].body
        await chat.aclose()


@pytest.mark.requirement("PROFILE-3")
def test_no_sdk_is_imported_with_the_provider() -> None:
    code = (
        "import sys, turnwired.providers.openai_chat; print([m for m in sys.modules if m in ('openai', 'anthropic')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "[]"
