"""Pages that say of themselves what makes a reader slow, or fail."""

from __future__ import annotations

import time

import pytest
from tools.operator.kit import tools_of
from tools.operator.web import loopback, page, web

pytestmark = pytest.mark.anyio

SIZE = 300_000


@pytest.mark.requirement("HOSTILE-16")
@pytest.mark.parametrize("label", ["punycode", "idna", "undefined", "unicode_escape", "raw_unicode_escape", "utf-7"])
async def test_a_codec_that_is_no_character_set_of_pages_is_not_used(label: str) -> None:
    body = page(b"a" * SIZE + b"\xff", content_type=f"text/plain; charset={label}")
    async with web({"/": body}) as site:
        config = {"fetch": {"private_hosts": ["site.test"]}}
        tools = await tools_of(config, loopback("site.test"))
        began = time.thread_time()
        words = await tools.words("http_fetch", url=f"http://site.test:{site.port}/")
        assert time.thread_time() - began < 2
    assert words.endswith("aaa\ufffd")


@pytest.mark.requirement("HOSTILE-16")
@pytest.mark.parametrize(
    "label", ["iso-8859-1", "windows-1252", "utf-16le", "shift_jis", "gb18030", "koi8-r", "macintosh"]
)
async def test_character_sets_of_pages_are_read(label: str) -> None:
    text = "read"
    body = page(text.encode(label), content_type=f"text/plain; charset={label}")
    async with web({"/": body}) as site:
        tools = await tools_of({"fetch": {"private_hosts": ["site.test"]}}, loopback("site.test"))
        assert (await tools.words("http_fetch", url=f"http://site.test:{site.port}/")).endswith(text)
