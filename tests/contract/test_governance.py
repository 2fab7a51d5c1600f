"""The contract over time: what was added is listed, old bytes are read, an old client works, the page is right."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import grpc
import pytest
from e2e.provider import answer, calls, provider
from e2e.service import CHANNEL, SECONDS, config_text, service
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessages

from scripts import contract_docs, contract_golden, contract_set
from turnwire.v1.event_pb2 import RunEvent
from turnwired.codec.event import decode_events, encode_event
from turnwired.codec.frame import record_header

ROOT = Path(__file__).parents[2]
GOLDEN: dict[str, dict[str, Any]] = json.loads(contract_golden.GOLDEN.read_text(encoding="utf-8"))
NOT_WRITTEN_YET = ("compaction_started", "compaction_finished")
"""Events of the contract that this server does not write, and so does not read."""


def bytes_of(name: str) -> bytes:
    """The golden bytes of an event."""
    return base64.b64decode(GOLDEN[name]["base64"])


@pytest.mark.requirement("CONTRACT-7")
@pytest.mark.parametrize("name", GOLDEN)
def test_golden_bytes_of_an_event_still_say_what_they_said(name: str) -> None:
    event = RunEvent.FromString(bytes_of(name))
    assert MessageToDict(event, preserving_proto_field_name=True) == GOLDEN[name]["json"]
    assert event.SerializeToString(deterministic=True) == bytes_of(name)


@pytest.mark.requirement("CONTRACT-7")
def test_every_event_of_the_contract_has_golden_bytes_with_every_kind_of_part() -> None:
    for name, _ in contract_golden.events():
        assert name in GOLDEN, f"{name}: run scripts/contract_golden.py"
        assert RunEvent.FromString(bytes_of(name)).WhichOneof("event") == name.partition(".")[0]


@pytest.mark.requirement("CONTRACT-8")
@pytest.mark.parametrize("name", [name for name in GOLDEN if name.partition(".")[0] not in NOT_WRITTEN_YET])
def test_the_log_of_an_older_server_is_read_and_written_again_as_it_was(name: str) -> None:
    stored = bytes_of(name)
    (logged,) = decode_events(record_header(len(stored)) + stored)
    again = encode_event(logged.sequence, logged.time_ns, logged.iteration, logged.event)
    assert decode_events(again) == [logged]


@pytest.mark.requirement("CONTRACT-9")
def test_the_changelog_names_what_was_added_since_the_release_and_nothing_else() -> None:
    text = (ROOT / "proto" / "CHANGELOG.md").read_text(encoding="utf-8")
    unreleased = text.partition("## Unreleased\n")[2].partition("\n## ")[0]
    listed = {name for name in re.findall(r"`([A-Z][\w.]+)`", unreleased) if name != "Cursor"}
    assert listed == set(contract_set.added(contract_set.released(), contract_set.now()))


@pytest.mark.requirement("CONTRACT-10")
def test_the_page_of_the_contract_is_what_its_files_say_and_has_every_name() -> None:
    page = contract_docs.PAGE.read_text(encoding="utf-8")
    assert page == contract_docs.page(), "run scripts/contract_docs.py"
    for element in contract_set.elements(contract_set.now()).values():
        last = element.name.rpartition(".")[2]
        assert f"`{last}`" in page or f"## {element.name}\n" in page, element.name
    headings = {line.lstrip("#").strip().replace(".", "").lower() for line in page.splitlines() if line.startswith("#")}
    assert set(re.findall(r"\(#([\w.]+)\)", page)) <= headings


class OldClient:
    """A client made of the released image alone: its messages know nothing that came later."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        files: FileDescriptorSet = contract_set.released()
        self._types = GetMessages(list(files.file), pool=DescriptorPool())
        self._channel = channel

    def message(self, name: str, content: dict[str, Any]) -> Message:
        """A message of the old contract."""
        made: Message = ParseDict(content, self._types[f"turnwire.v1.{name}"]())
        return made

    def _reads(self, name: str) -> Any:
        return self._types[f"turnwire.v1.{name}"].FromString

    async def stream(self, method: str, request: Message, response: str) -> list[Any]:
        """All frames of a streaming call."""
        call: Any = self._channel.unary_stream(
            f"/turnwire.v1.TurnService/{method}",
            request_serializer=_bytes,
            response_deserializer=self._reads(response),
        )
        return [frame async for frame in call(request, timeout=SECONDS)]

    async def unary(self, method: str, request: Message, response: str) -> Any:
        """The answer of a call."""
        call: Any = self._channel.unary_unary(
            f"/turnwire.v1.TurnService/{method}",
            request_serializer=_bytes,
            response_deserializer=self._reads(response),
        )
        return await call(request, timeout=SECONDS)


@pytest.mark.anyio
@pytest.mark.requirement("CONTRACT-11")
async def test_a_client_of_the_released_contract_runs_turns_and_reads_all_that_it_knows(tmp_path: Path) -> None:
    found, added = calls(("find_tools", {"query": "add two numbers"})), calls(("add", {"a": 2, "b": 40}))
    async with (
        provider(found, added, answer("42.")) as p,
        service(tmp_path, config_text(p.url).replace("[tools]\n", "[tools]\nfind_above = 1\n"), GATES=p.url) as s,
        grpc.aio.insecure_channel(s.address, options=CHANNEL) as channel,
    ):
        old = OldClient(channel)
        turn = {"input": [{"role": "ROLE_USER", "parts": [{"text": "What is 2 + 40?"}]}], "requestId": "old-1"}
        frames = await old.stream("RunTurn", old.message("RunTurnRequest", {"turn": turn}), "RunTurnResponse")
        events = [event for frame in frames for event in frame.events]
        run_id = events[0].run_started.run_id
        watched = await old.stream("WatchRun", old.message("WatchRunRequest", {"runId": run_id}), "WatchRunResponse")
        request = old.message("GetRunRequest", {"runId": run_id, "includeTrace": True})
        got = await old.unary("GetRun", request, "GetRunResponse")
        tools = await old.unary("ListTools", old.message("ListToolsRequest", {}), "ListToolsResponse")
        await s.stop()
    kinds = [event.WhichOneof("event") for event in events]
    assert None in kinds, "this run has an event that the released contract does not know"
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert events[-1].run_finished.message.parts[0].text == "42."
    again = [event for frame in watched for event in frame.events]
    assert again[-1] == events[-1]
    assert (again[0].sequence, again[-1].sequence) == (1, len(events))
    assert got.run.outcome.kind == 1
    assert got.message == events[-1].run_finished.message
    assert any(tool.ref.routed_name == "add" for tool in tools.tools)


def _bytes(message: Message) -> bytes:
    return message.SerializeToString()
