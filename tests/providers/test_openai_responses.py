"""The Responses provider against a scripted server: what it sends, what becomes of answers, and the way back."""

from __future__ import annotations

import json
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
from providers.calls import KEY, ask
from providers.returning import message_of
from providers.server import Answer, Request, serve

from turnwired.domain.failure import Reason
from turnwired.domain.generation import FinishReason, ModelItem
from turnwired.domain.message import Message, Part, Role, Text, ToolCall, ToolResult
from turnwired.domain.message import ToolResultStatus as Status
from turnwired.providers.build import provider_for
from turnwired.providers.http_provider import HttpProvider
from turnwired.providers.port import CallLimits, ModelRequest
from turnwired.providers.profiles import Profile, Wire

pytestmark = pytest.mark.anyio

USER = b'{"role":"user","content":"my diary"}'
REASONING = '{"type":"reasoning", "id":"rs_1","summary":[],"encrypted_content":"gA=="}'
SEARCH = '{"type":"web_search_call","id":"ws_1","status":"completed"}'
MESSAGE = '{"type":"message","id":"msg_1","phase":"commentary","content":[{"type":"output_text","text":"I look."}]}'
CALL = '{"type":"function_call","id":"fc_1","call_id":"theirs","name":"look_up","arguments":"{}"}'


def event(kind: str, **fields: Any) -> bytes:
    """One event."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def done(index: int, item: str) -> bytes:
    """A finished item, its text as it is given."""
    data = f'{{"type":"response.output_item.done","output_index":{index},"item":{item}}}'
    return f"event: response.output_item.done\ndata: {data}\n\n".encode()


def text(words: str, index: int = 0) -> bytes:
    """A delta of text."""
    return event("response.output_text.delta", output_index=index, content_index=0, delta=words)


CREATED = event("response.created", response={"id": "resp_1", "model": "m", "status": "in_progress"})
END = event("response.completed", response={"id": "resp_1", "status": "completed", "output": []})


def provider(url: str, **fields: Any) -> HttpProvider:
    """A provider of this wire at ``url``."""
    profile = Profile("acme", Wire.OPENAI_RESPONSES, "acme", base_url=url, key_env="KEY")
    return provider_for(replace(profile, **fields), environ={"KEY": KEY})


def request(*messages: bytes, **fields: Any) -> ModelRequest:
    """A request with limits."""
    return ModelRequest("m", messages or (USER,), limits=CallLimits(total=20), **fields)


@pytest.mark.requirement("RESP-28")
async def test_a_call_sends_the_body_to_the_endpoint_and_gives_the_items() -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer.all(CREATED + text("Hel") + text("lo") + END)

    async with serve(handler) as server:
        responses = provider(server.url)
        folded, failure = await ask(responses, request())
        assert (folded.text, failure) == ("Hello", None)
        assert folded.stopped
        assert folded.stopped.reason is FinishReason.STOP
        [sent] = server.requests
        assert sent.path == "/v1/responses"
        assert sent.headers["authorization"] == f"Bearer {KEY}"
        assert json.loads(sent.body)["input"] == [json.loads(USER)]
        assert (responses.info.wire, responses.info.configured) == ("openai.responses", True)
        await responses.aclose()


@pytest.mark.requirement("RESP-28")
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("rate_limit_exceeded", Reason.PROVIDER_RATE_LIMITED),
        ("insufficient_quota", Reason.PROVIDER_QUOTA_EXHAUSTED),
        ("server_error", Reason.PROVIDER_UNAVAILABLE),
        ("context_length_exceeded", Reason.CONTEXT_OVERFLOW),
    ],
)
async def test_a_failed_response_is_a_failure_that_keeps_the_output_before_it(code: str, reason: Reason) -> None:
    failed = {"status": "failed", "error": {"code": code, "message": "my diary"}}

    async def handler(_: Request, answer: Answer) -> None:
        await answer.all(CREATED + text("a") + event("response.failed", response=failed), retry_after="3")

    async with serve(handler) as server:
        responses = provider(server.url)
        folded, failure = await ask(responses, request())
        await responses.aclose()
    assert folded.text == "a"
    assert failure
    assert failure.reason is reason


@pytest.mark.requirement("RESP-28")
async def test_a_clean_end_without_a_terminal_event_is_no_end_signal_and_no_failure() -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer.all(CREATED + text("a"))

    async with serve(handler) as server:
        responses = provider(server.url)
        folded, failure = await ask(responses, request())
        await responses.aclose()
    assert (folded.text, folded.stopped, failure) == ("a", None, None)


@pytest.mark.requirement("RESP-27", "RESP-28")
async def test_the_servers_counter_counts() -> None:
    async def handler(_: Request, answer: Answer) -> None:
        await answer.all(b'{"object":"response.input_tokens","input_tokens":11}')

    async with serve(handler) as server:
        responses = provider(server.url, token_counter=True)
        count = await responses.count_tokens(request())
        await responses.aclose()
    assert (count.tokens, count.exact) == (11, True)
    assert server.requests[0].path == "/v1/responses/input_tokens"


@pytest.mark.requirement("RESP-15", "RESP-16", "RESP-28")
async def test_a_turn_goes_back_as_it_came_with_our_own_call_id() -> None:
    answer_body = CREATED + done(0, REASONING) + done(1, SEARCH) + done(2, MESSAGE) + done(3, REASONING)
    answer_body += done(4, CALL.replace('"arguments":"{}"', '"arguments":""')) + END

    async def handler(_: Request, answer: Answer) -> None:
        await answer.all(answer_body)

    async with serve(handler) as server:
        responses = provider(server.url)
        items: list[ModelItem] = []
        async with aclosing(responses.generate(request())) as batches:
            async for batch in batches:
                items += batch
        turn = message_of(items, "acme")
        [ours] = [part.content.call_id for part in turn.parts if isinstance(part.content, ToolCall)]
        results = Message(Role.TOOL, (Part("r", ToolResult(ours, Status.OK, (Part("t", Text("17:48")),))),))
        history = [USER, responses.encode_message(turn), responses.encode_message(results)]
        _, failure = await ask(responses, request(*history))
        assert failure is None
        await responses.aclose()
    sent = server.requests[1].body
    assert f"{REASONING},{SEARCH},".encode() in sent
    assert sent.count(REASONING.encode()) == 2
    assert [entry.get("id") or entry.get("call_id") for entry in json.loads(sent)["input"]] == [
        *(None, "rs_1", "ws_1", "msg_1", "rs_1"),
        *(ours, ours),
    ]
    said = json.loads(sent)["input"][3]
    assert (said["phase"], said["content"]) == ("commentary", [{"type": "output_text", "text": "I look."}])
