"""Fetches that users of other runtimes saw go astray: redirects, spellings of addresses, names that change."""

from __future__ import annotations

import json

import anyio
import pytest
from tools.operator.kit import OPERATOR
from tools.operator.web import Names, loopback, page, redirect, web

from turnwired import Rewound, Runtime
from turnwired.domain.event import LoggedEvent, ToolCallFinished, ToolCallStarted
from turnwired.domain.message import ToolResult, ToolResultStatus
from turnwired.domain.outcome import OutcomeKind
from turnwired.testing import ScriptedProvider, answer, calls
from turnwired.tools.operator.config import OperatorConfig
from turnwired.tools.operator.toolset import OperatorToolset

pytestmark = pytest.mark.anyio


async def fetched(toolset: OperatorToolset, *urls: str) -> list[ToolResult]:
    """The results of one answer of the model that fetches all of these, in their order."""
    results: dict[str, ToolResult] = {}
    order: list[str] = []

    async def told(item: LoggedEvent | Rewound) -> None:
        assert isinstance(item, LoggedEvent)
        match item.event:
            case ToolCallStarted(call_id=call_id):
                order.append(call_id)
            case ToolCallFinished(result):
                results[result.call_id] = result
            case _:
                pass

    model = ScriptedProvider([calls(*(("http_fetch", json.dumps({"url": url})) for url in urls)), answer("Done.")])
    async with Runtime({}, providers={"scripted": model}, tools=[toolset]) as runtime:
        result = await runtime.run_turn("Fetch.", on_event=told, caller=OPERATOR)
    assert (result.outcome.kind, len(model.requests)) == (OutcomeKind.ANSWERED, 2)
    return [results[call_id] for call_id in order]


@pytest.mark.requirement("SCN-156")
async def test_a_redirect_to_a_private_address_and_odd_spellings_are_errors_of_their_calls() -> None:
    async with web({"/r": redirect("http://169.254.169.254/latest/"), "/s": page(b"SECRET")}) as site:
        fetch = {"private_hosts": [f"public.test:{site.port}"], "max_redirects": 5}
        config = OperatorConfig.model_validate({"fetch": fetch})
        here = f"public.test:{site.port}"
        results = await fetched(
            OperatorToolset(config, loopback("public.test")),
            f"http://{here}/r",
            "http://0x7f000001/",
            "http://[::ffff:169.254.169.254]/",
            "file:///etc/passwd",
            f"http://user:pw@{here}/big",
            f"http://{here}/endless",
        )
    *refused, endless = results
    codes = [result.failure.origin_code for result in refused if result.failure is not None]
    assert codes == ["blocked_address"] * 3 + ["blocked_scheme", "blocked_userinfo"]
    assert {result.status for result in refused} <= {ToolResultStatus.ERROR, ToolResultStatus.DENIED}
    assert endless.status is ToolResultStatus.OK and endless.content
    assert sorted(site.paths) == ["/endless", "/r"] and site.sent < 50_000_000
    assert not any("authorization" in request.lower() for request in site.requests)


@pytest.mark.requirement("SCN-157")
async def test_a_name_is_judged_by_all_its_records_and_connected_to_as_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[str] = []

    async def connect(remote_host: str, *_: object, **__: object) -> None:
        connected.append(str(remote_host))
        raise OSError("not from a test")

    monkeypatch.setattr(anyio, "connect_tcp", connect)
    names = Names({"rebind.test": [["93.184.216.34"], ["127.0.0.1"]], "mixed.test": [["93.184.216.34", "10.0.0.1"]]})
    toolset = OperatorToolset(OperatorConfig.model_validate({"fetch": {}}), names)
    rebound, mixed = await fetched(toolset, "http://rebind.test/", "http://mixed.test/")
    assert rebound.failure is not None and rebound.failure.origin_code == "no_connection"
    assert mixed.failure is not None and mixed.failure.origin_code == "blocked_address"
    assert connected == ["93.184.216.34"]
