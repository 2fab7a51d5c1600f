"""The chat completions provider against a scripted server: what it sends and what becomes of answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import msgspec
import pytest
from providers.calls import END, KEY, answer_of, ask, provider, request, text
from providers.server import Answer, Request, serve

from turnwired.domain.failure import Reason
from turnwired.domain.generation import FinishReason
from turnwired.domain.tool import ToolChoice, ToolChoiceMode
from turnwired.providers.port import CallLimits, ModelRequest

pytestmark = pytest.mark.anyio


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


@pytest.mark.requirement("WIRE-9")
async def test_a_clean_end_without_a_finish_reason_is_no_end_signal_and_no_failure() -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer.all(text("a"))

    folded, failure = await answer_of(handler)
    assert (folded.text, folded.stopped, failure) == ("a", None, None)


@pytest.mark.requirement("CHAT-17")
async def test_a_server_that_keeps_the_stream_open_after_all_was_said_holds_nobody_up() -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer.start()
        usage = b'"usage":{"prompt_tokens":1,"completion_tokens":1}'
        await answer.send(
            text("a") + b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],' + usage + b"}\n\n"
        )
        await answer.gone.wait()

    folded, failure = await answer_of(handler, done_marker=False, usage="with_finish")
    assert (folded.text, failure) == ("a", None)
    assert folded.usage
    assert folded.stopped


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
        assert len(server.requests) == 0
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


@pytest.mark.requirement("TRANSPORT-5")
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


@pytest.mark.requirement("PROFILE-2", "WIRE-12")
async def test_an_exchange_shows_neither_key_nor_prompt() -> None:
    shown = repr(await provider("http://127.0.0.1:1/v1")._exchange(request()))
    assert KEY not in shown
    assert "diary" not in shown


@pytest.mark.requirement("PROFILE-3")
def test_no_sdk_is_imported_with_the_provider() -> None:
    code = "import sys, turnwired.providers.openai_chat; print({'openai', 'anthropic'} & set(sys.modules))"
    environ = {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, env=environ, capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "set()"
