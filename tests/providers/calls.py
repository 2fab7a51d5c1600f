"""Calls of the chat completions provider to a scripted server, for the tests that look at what becomes of them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

from providers.folding import Folded, add_all
from providers.server import Answer, Request, serve

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Failure
from turnwired.providers.build import provider_for
from turnwired.providers.http_provider import HttpProvider
from turnwired.providers.port import CallLimits, ModelRequest
from turnwired.providers.profiles import shipped, with_overrides

KEY = "sk-very-secret-key"
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
USER = b'{"role":"user","content":"my diary"}'


def text(words: str) -> bytes:
    """A chunk with text."""
    chunk = {"id": "r", "model": "m", "choices": [{"index": 0, "delta": {"content": words}, "finish_reason": None}]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def provider(url: str, environ: Mapping[str, str] | None = None, **overrides: Any) -> HttpProvider:
    """A provider of the generic profile at ``url``."""
    row = {"base_url": url, "base_url_env": "", "key_env": "KEY", **overrides}
    profile = with_overrides(shipped(), {"openai-compatible": row})["openai-compatible"]
    return provider_for(profile, environ={"KEY": KEY} if environ is None else environ)


def request(**fields: Any) -> ModelRequest:
    """A request of one message."""
    fields.setdefault("limits", CallLimits(total=20))
    return ModelRequest("m", [b"", USER], **fields)


async def ask(chat: HttpProvider, asked: ModelRequest) -> tuple[Folded, Failure | None]:
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
