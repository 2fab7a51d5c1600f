"""The child process under an MCP server, apart from MCP: what of its words is kept and logged."""

from __future__ import annotations

import logging

import pytest

from turnwired.tools.mcp.process import ChildProcess

pytestmark = pytest.mark.anyio

READS = (
    b"plain words\napi_key=abcdef",
    b"ghijklmnop\n",
    b"e" * 100_000,
    b" password=hunter2hunter2\n\n",
    b"x" * 500 + b" token=" + b"s3cr3t" * 100,
)


def _talked() -> ChildProcess:
    """A child that said this in these reads, and ended."""
    child = ChildProcess("talker", 1000)
    for data in READS:
        child.pipe_data_received(2, data)
    child.pipe_connection_lost(2, None)
    return child


@pytest.mark.requirement("MCP-17")
async def test_what_a_server_writes_to_stderr_is_logged_by_lines_without_credentials(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "turnwired.tools.mcp.process")
    _talked()
    assert [record.getMessage() for record in caplog.records] == [
        "talker stderr: plain words",
        "talker stderr: api_key=[redacted]",
        f"talker stderr: {'e' * 256}...",
        f"talker stderr: {'x' * 500} token=[redacted]",
    ]


@pytest.mark.requirement("MCP-17")
async def test_nothing_of_it_is_logged_unless_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    _talked()
    assert not caplog.records


@pytest.mark.requirement("MCP-17")
async def test_the_last_words_are_redacted_before_they_are_cut() -> None:
    words = _talked().last_words
    assert words.endswith("x token=[redacted]")
    assert len(words) == 300
