"""Tokens of single messages, which history is held against: by a tokenizer or by size, and nobody is asked."""

from __future__ import annotations

import base64
import sys

import msgspec
import pytest
from providers.test_tokens import provider

NOWHERE = "http://127.0.0.1:9"
"""Asking it would fail."""


def piece(text: str) -> bytes:
    return msgspec.json.encode({"role": "user", "content": text})


@pytest.mark.requirement("CTX-9")
async def test_a_message_counts_a_token_for_four_bytes() -> None:
    pieces = [piece("hello"), piece("x" * 4000)]
    counts = await provider(NOWHERE).measure("m", pieces)
    assert list(counts) == [-(-len(each) // 4) for each in pieces]


@pytest.mark.requirement("CTX-9")
async def test_a_picture_is_not_counted_like_a_letter_of_its_length() -> None:
    picture = base64.b64encode(bytes(range(256)) * 4000).decode()
    (tokens,) = await provider(NOWHERE).measure("m", [piece(f"data:image/png;base64,{picture}")])
    assert 900 < tokens < 2000


@pytest.mark.requirement("CTX-9")
async def test_the_tokenizer_of_the_profile_counts_where_there_is_one() -> None:
    pytest.importorskip("bpe_openai")
    short, long = await provider(NOWHERE, "o200k_base").measure("m", [piece("hello"), piece("hello " * 100)])
    assert short < 12
    assert 100 < long < 115


@pytest.mark.requirement("CTX-9")
async def test_without_the_tokenizers_package_size_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwired.providers.tokens.PACKAGE", "nothing_of_that_name")
    monkeypatch.delitem(sys.modules, "bpe_openai", raising=False)
    assert list(await provider(NOWHERE, "o200k_base").measure("m", [b"x" * 40])) == [10]
