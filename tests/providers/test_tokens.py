"""Counting input tokens: who counts, and what the answer says of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import msgspec
import pytest
from providers.calls import KEY
from providers.server import Answer, Request, serve

from turnwired.domain.message import Blob, Content, Message, Part, Role, Text
from turnwired.domain.tool import Tool, ToolRef, ToolSource
from turnwired.providers.build import wire_of
from turnwired.providers.http_provider import HttpProvider
from turnwired.providers.openai_chat import OpenAIChat
from turnwired.providers.port import CallLimits, ModelRequest
from turnwired.providers.profiles import Profile, Wire, shipped
from turnwired.providers.tokens import estimated, tokenized
from turnwired.providers.wire import CountCall

TOOL = Tool(
    ToolRef("shop__find", "find", ToolSource.LOCAL),
    "Finds an article.",
    '{"type":"object","properties":{"name":{"type":"string"}}}',
)


class Counting(OpenAIChat):
    """The chat wire with a counter of its own."""

    def count(self, request: ModelRequest) -> CountCall | None:
        return CountCall(
            "/count", b",".join(request.messages), lambda value: value.get("n") if isinstance(value, dict) else None
        )


def provider(url: str, tokenizer: str = "") -> HttpProvider:
    profile = Profile("p", Wire.OPENAI_CHAT, "p", base_url=url, key_env="KEY", tokenizer=tokenizer)
    return HttpProvider(profile, Counting(profile), environ={"KEY": KEY})


def request(*texts: str, tools: Sequence[Tool] = ()) -> ModelRequest:
    chat = OpenAIChat(Profile("p", Wire.OPENAI_CHAT, "p"))
    pieces = [msgspec.json.encode({"role": "user", "content": text}) for text in texts]
    encoded = chat.encode_tools(tools) if tools else b""
    return ModelRequest("m", pieces, tools=encoded, limits=CallLimits(total=5))


@pytest.mark.requirement("TOK-1")
async def test_the_providers_own_counter_is_asked_with_its_credentials_and_is_exact() -> None:
    async def answer(asked: Request, out: Answer) -> None:
        assert asked.path == "/v1/count"
        assert asked.headers["authorization"] == f"Bearer {KEY}"
        await out.all(b'{"n":17}', content_type="application/json")

    async with serve(answer) as server:
        chat = provider(server.url)
        count = await chat.count_tokens(request("Hello"))
        await chat.aclose()
    assert (count.tokens, count.exact, count.method) == (17, True, "the provider")


@pytest.mark.requirement("TOK-2")
@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (404, b'{"error":{"message":"no"}}', "MODEL_NOT_FOUND"),
        (500, b"oops", "PROVIDER_UNAVAILABLE"),
        (200, b'{"m":1}', "no number"),
        (200, b"not json", "no number"),
        (200, b"[1]", "no number"),
        (200, b"x" * 100_000, "PROVIDER_PROTOCOL_ERROR"),
    ],
)
async def test_a_counter_that_fails_is_replaced_and_the_count_says_why(status: int, body: bytes, why: str) -> None:
    async def answer(_: Request, out: Answer) -> None:
        await out.all(body, status=status, content_type="application/json")

    async with serve(answer) as server:
        chat = provider(server.url)
        count = await chat.count_tokens(request("Hello"))
        await chat.aclose()
    assert not count.exact
    assert count.tokens > 0
    assert why in count.method


@pytest.mark.requirement("TOK-2")
async def test_a_counter_that_says_nothing_is_left_after_the_limit() -> None:
    async def answer(_: Request, out: Answer) -> None:
        await out.gone.wait()

    async with serve(answer) as server:
        chat = provider(server.url)
        hurried = ModelRequest("m", [b'{"role":"user","content":"x"}'], limits=CallLimits(total=0.05))
        count = await chat.count_tokens(hurried)
        await chat.aclose()
    assert (count.exact, "PROVIDER_TIMEOUT" in count.method) == (False, True)


@pytest.mark.requirement("TOK-3")
async def test_a_tokenizer_counts_what_the_model_reads() -> None:
    pytest.importorskip("bpe_openai")
    hello = await tokenized(request("Hello world"), "o200k_base")
    assert hello.method == "tokenizer o200k_base"
    assert not hello.exact
    # Four for the frame, one for the key "content", two for the text.
    assert hello.tokens == 4 + 1 + 2
    longer = await tokenized(request("Hello world " * 20_000), "o200k_base")
    assert 40_000 <= longer.tokens <= 41_000
    with_tool = await tokenized(request("Hello world", tools=[TOOL]), "o200k_base")
    assert 15 < with_tool.tokens - hello.tokens < 60


@pytest.mark.requirement("TOK-3")
async def test_a_file_counts_at_a_flat_rate_whatever_its_size() -> None:
    pytest.importorskip("bpe_openai")

    def with_image(size: int) -> ModelRequest:
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * size}}
        return ModelRequest("m", [msgspec.json.encode({"role": "user", "content": [image]})])

    small, large = [(await tokenized(with_image(size), "o200k_base")).tokens for size in (10, 100_000)]
    assert small == large
    assert 1000 <= small < 1020


@pytest.mark.requirement("TOK-3", "TOK-4")
async def test_a_profile_names_its_tokenizer_and_without_the_package_the_count_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    profile = Profile("p", Wire.OPENAI_CHAT, "p", base_url="http://127.0.0.1:1/v1", tokenizer="o200k_base")
    chat = HttpProvider(profile, OpenAIChat(profile), environ={})
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "bpe_openai", None)
        missing = await chat.count_tokens(request("Hello world"))
    assert "turnwired[tokenizer]" in missing.method
    pytest.importorskip("bpe_openai")
    found = await chat.count_tokens(request("Hello world"))
    assert found.method == "tokenizer o200k_base"
    await chat.aclose()


@pytest.mark.requirement("TOK-4")
def test_an_estimate_grows_with_everything_that_is_sent() -> None:
    plain = estimated(request("Hello"))
    assert plain.method == "bytes / 4"
    assert plain.tokens == -(-len(json.dumps({"role": "user", "content": "Hello"}, separators=(",", ":"))) // 4)
    assert estimated(request("Hello", tools=[TOOL])).tokens > plain.tokens
    assert estimated(ModelRequest("m", [], system=b"x" * 40)).tokens == 10


@pytest.mark.requirement("TOK-4")
@pytest.mark.parametrize("row", ["groq", "xai-responses", "anthropic-compatible"])
def test_an_estimate_takes_a_large_file_for_a_thousand_tokens_and_a_long_text_for_its_size(row: str) -> None:
    wire = wire_of(shipped()[row])

    def count(*contents: Content) -> int:
        message = wire.encode_message(Message(Role.USER, tuple(Part("", content) for content in contents)))
        return estimated(ModelRequest("m", [message])).tokens

    words = Text("Hello")
    picture = Blob("image/png", bytes(range(256)) * 4000)
    assert 1000 <= count(words, picture) - count(words) < 1300
    assert 2000 <= count(words, picture, picture) - count(words) < 2600
    for letters in ("no space but\u00e4" * 10_000, "\u6f22\u5b57" * 10_000, "two words " * 10_000):
        assert count(Text(letters)) >= len(letters) // 4
    assert count(words, Blob("image/png", b"x" * 90)) < count(words) + 100
