"""MCP over Streamable HTTP between two services, each a process: one serves its tools, the other uses them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from e2e.provider import answer, calls, provider
from e2e.service import Followed, config_text, prompt, service

from turnwire.v1 import message_pb2, outcome_pb2

pytestmark = pytest.mark.anyio

OK = message_pb2.TOOL_RESULT_STATUS_OK
ERROR = message_pb2.TOOL_RESULT_STATUS_ERROR
NOT_EXECUTED = message_pb2.TOOL_RESULT_STATUS_NOT_EXECUTED
TOKEN = "a-token-of-the-other-service"
SERVING = """
[http]
listen = "127.0.0.1:0"
mcp = true
[[callers]]
principal = "other"
token_env = "OTHER_TOKEN"
"""


def results_of(run: Followed) -> list[message_pb2.ToolResult]:
    """The results of its calls, as they ended."""
    return [event.tool_call_finished.result for event in run.view.events if event.HasField("tool_call_finished")]


@pytest.mark.requirement("MCPH-1", "MCPH-14", "MCPOUT-1", "MCPOUT-3")
async def test_a_service_uses_the_tools_of_another_until_that_is_gone(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    turn = (calls(("other__add", {"a": 20, "b": 22}), ("barred__add", {"a": 1, "b": 2})), answer("42."))
    later = (calls(("other__add", {"a": 20, "b": 22})), answer("It is gone."))
    async with (
        provider(*turn, *later) as model,
        service(tmp_path / "other", config_text(model.url, more=SERVING), OTHER_TOKEN=TOKEN) as other,
    ):
        url = (await other.line("MCP clients")).split()[-1]
        (tmp_path / "token").write_text(TOKEN)
        using = f'[mcp_servers.other]\nurl = "{url}"\n[mcp_servers.other.headers]\n'
        using += f'Authorization = "Bearer ${{file:{tmp_path}/token}}"\n[mcp_servers.barred]\nurl = "{url}"\n'
        async with service(tmp_path / "one", config_text(model.url, more=using)) as one:
            sums = await one.run(prompt("What is 20 and 22?"))
            assert (await other.stop()).code == 0
            gone = await one.run(prompt("And again?"))
            ended = await one.stop()
    added, refused = sorted(results_of(sums), key=lambda result: result.status)
    assert (added.status, refused.status, refused.failure.reason) == (OK, ERROR, outcome_pb2.REASON_TOOL_NOT_FOUND)
    assert json.loads(added.structured_json or added.content[0].text) in (42, {"result": 42})
    assert sums.view.outcome is not None and sums.view.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED
    (lost,) = results_of(gone)
    assert (lost.status, lost.failure.reason) == (NOT_EXECUTED, outcome_pb2.REASON_MCP_UNAVAILABLE)
    assert "MCP server 'barred'" in ended.stderr and "401" in ended.stderr
    assert TOKEN not in ended.stderr
