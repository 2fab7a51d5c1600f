"""Every call of the contract, found by its descriptors, made by those who are not to have what is there.

A call that is added is covered the moment it exists: it has to be refused to the unknown, and to tell a stranger of
another tenant the same about what is there as about what is not.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor, FileDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from tools.kit import eventually

from turnwire.v1 import (
    agent_service_pb2,
    mcp_server_service_pb2,
    server_service_pb2,
    session_service_pb2,
    tool_host_registry_service_pb2,
    turn_service_pb2,
)
from turnwire.v1.message_pb2 import ROLE_USER
from turnwired.app import Additions, running
from turnwired.config.load import read_config
from turnwired.testing.provider import ScriptedProvider, answer, calls

pytestmark = pytest.mark.anyio
SECONDS = 20.0
FILES: tuple[FileDescriptor, ...] = (
    agent_service_pb2.DESCRIPTOR,
    mcp_server_service_pb2.DESCRIPTOR,
    server_service_pb2.DESCRIPTOR,
    session_service_pb2.DESCRIPTOR,
    tool_host_registry_service_pb2.DESCRIPTOR,
    turn_service_pb2.DESCRIPTOR,
)
METHODS: dict[str, MethodDescriptor] = {
    f"{service.name}.{method.name}": method
    for file in FILES
    for service in file.services_by_name.values()
    for method in service.methods
}
every = pytest.mark.parametrize("name", METHODS)
ADA, BOB, EVE = (f"token-of-{name}-0123456789" for name in ("ada", "bob", "eve"))
MARK = "marked-as-adas"
"""In everything that is hers: no answer to anybody of another tenant has it, but where it says what was asked for."""
OF_THE_DEPLOYMENT = frozenset({"McpServerService", "ServerService"})
"""What these tell is no tenant's. Operators alone may change it."""
SEEN_BY_DESIGN = frozenset({"ToolHostRegistryService.RegisterToolHost"})
"""An id of a host is the deployment's: that it is taken is told to whoever wants it (docs/tool_hosts.md)."""
MADE = frozenset({"TurnService.RunTurn", "TurnService.StartTurn", "AgentService.PutAgent"})
"""Calls that make something of the caller's own under a name that another tenant may have too."""


@dataclass
class World:
    """A service with a run, a session and an agent of Ada's; the run waits for an approval."""

    address: str
    channel: grpc.aio.Channel
    run_id: str = ""
    approval_id: str = ""
    call_id: str = ""
    session_id: str = f"{MARK}-session"
    agent_id: str = f"{MARK}-agent"
    request_id: str = "0f0f0f0f-0000-4000-8000-000000000001"

    async def call(self, name: str, request: Message, token: str | None) -> str:
        """Makes a call as somebody: what comes of it, as text."""
        method = METHODS[name]
        path = f"/{method.containing_service.full_name}/{method.name}"
        kinds: dict[str, Any] = {
            "request_serializer": _bytes,
            "response_deserializer": GetMessageClass(method.output_type).FromString,
        }
        shown = (("authorization", f"Bearer {token}"),) if token is not None else ()
        try:
            if method.server_streaming:
                stream: Any = self.channel.unary_stream(path, **kinds)
                frames = [str(frame) async for frame in stream(request, metadata=shown, timeout=SECONDS)]
                return f"OK {frames}"
            unary: Any = self.channel.unary_unary(path, **kinds)
            return f"OK {await unary(request, metadata=shown, timeout=SECONDS)}"
        except grpc.aio.AioRpcError as error:
            return f"{error.code().name} {error.details()} {sorted(map(str, error.trailing_metadata() or ()))}"

    def ids(self, *, there: bool) -> dict[str, Any]:
        """Values of fields by their names: Ada's, or such as nobody has."""
        mine = {
            "run_id": self.run_id,
            "parent_run_id": self.run_id,
            "session_id": self.session_id,
            "agent_id": self.agent_id,
            "approval_id": self.approval_id,
            "call_id": self.call_id,
            "host_id": f"{MARK}-host",
            "server_id": f"{MARK}-server",
            "request_id": self.request_id,
        }
        return mine if there else {key: _like(value) for key, value in mine.items()}


def _like(value: str) -> str:
    """Another of the same length and shape: what is told of both differs in these letters alone."""
    return re.sub(r"[a-e]", "f", value.replace(MARK, "nobodys-at-all")).replace("0f0f", "1e1e")


def request_for(name: str, ids: dict[str, Any]) -> Message:
    """A request that asks for these, and says otherwise what a request has to say."""
    message = GetMessageClass(METHODS[name].input_type)()
    _fill(message, ids, 3)
    return message


def _fill(message: Message, ids: dict[str, Any], depth: int) -> None:
    for item in message.DESCRIPTOR.fields:
        if item.name in ids and item.type == FieldDescriptor.TYPE_STRING and not item.is_repeated:
            if item.name != "parent_run_id":
                setattr(message, item.name, ids[item.name])
        elif item.name == "input":
            getattr(message, item.name).add(role=ROLE_USER).parts.add(text="What is hers?")
        elif item.name == "results":
            getattr(message, item.name).add(call_id=ids["call_id"], status=1).content.add(text="forged")
        elif item.name == "decision":
            message.decision = 1  # type: ignore[attr-defined]  # ONCE
        elif item.name == "address":
            message.address = "127.0.0.1:1"  # type: ignore[attr-defined]
        elif item.name in {"turn", "agent"} and item.message_type is not None and depth:
            getattr(message, item.name).SetInParent()
            _fill(getattr(message, item.name), ids, depth - 1)


def _bytes(message: Message) -> bytes:
    return message.SerializeToString()


async def pay(amount: int, note: str) -> str:
    """Pay."""
    return f"paid {amount} for {note}"


@asynccontextmanager
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """The service, with what is Ada's in it."""
    names = {"ada": ("acme", ["operator"]), "bob": ("bank", ["operator", "tool_host"]), "eve": ("acme", [])}
    config = read_config(
        {
            "server": {"listen": "127.0.0.1:0", "allow_tool_host_registration": True, "grace_seconds": 0.1},
            "store": {"path": str(tmp_path / "runs.db")},
            "providers": {"scripted": {"profile": "openai", "base_url": "http://127.0.0.1:9/v1", "models": ["m"]}},
            "agents": {"default": {"policy": {"approval": {"rules": RULES}}}},
            "tools": {"entry_points": False},
            "callers": [
                {"principal": name, "tenant": tenant, "roles": roles, "token_env": name.upper()}
                for name, (tenant, roles) in names.items()
            ],
        },
        {"OPENAI_API_KEY": "k"},
    )
    tokens = {"ADA": ADA, "BOB": BOB, "EVE": EVE, "OPENAI_API_KEY": "k"}
    model = ScriptedProvider([calls(("pay", f'{{"amount": 7, "note": "{MARK}"}}')), answer("Done.")], repeat_last=True)
    added = Additions(tools=[pay], providers={"scripted": model})
    async with (
        running(config, tokens, additions=added) as service,
        grpc.aio.insecure_channel(service.address) as channel,
    ):
        w = World(service.address, channel)
        await _populate(w)
        yield w


RULES = [{"permission": "tool", "pattern": "pay", "action": "ask"}]


async def _populate(w: World) -> None:
    agent: Any = request_for("AgentService.PutAgent", w.ids(there=True))
    agent.agent.instructions.append(MARK)
    agent.agent.policy.approval.rules.add(permission="tool", pattern="pay", action=2)
    assert (await w.call("AgentService.PutAgent", agent, ADA)).startswith("OK")
    start: Any = request_for("TurnService.StartTurn", w.ids(there=True))
    start.turn.input[0].parts[0].text = MARK
    start.turn.labels["whose"] = MARK
    told = await w.call("TurnService.StartTurn", start, ADA)
    (w.run_id,) = re.findall(r'run_id: "([^"]+)"', told)

    async def asked() -> bool:
        return "approval_id" in await w.call("TurnService.ListApprovals", every_approval, ADA)

    every_approval = turn_service_pb2.ListApprovalsRequest()
    await eventually(asked, SECONDS)
    told = await w.call("TurnService.ListApprovals", every_approval, ADA)
    (w.approval_id,) = set(re.findall(r'approval_id: "([^"]+)"', told))
    (w.call_id,) = set(re.findall(r'call_id: "([^"]+)"', told))


def without_ids(told: str, ids: dict[str, Any]) -> str:
    """What was told, without what was asked for and without what differs from call to call."""
    for value in sorted((str(value) for value in ids.values() if value), key=len, reverse=True):
        told = told.replace(value, "?")
    told = re.sub(r"(run|msg|part)_[0-9a-f]{8,}\w*", "?", told)
    return re.sub(r"(seconds|nanos|duration|last_sequence|sequence): \d+", "?", told)


@pytest.mark.requirement("HOSTILE-40")
async def test_who_shows_no_token_or_a_wrong_one_is_refused_by_every_call_before_anything_else(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        for name in METHODS:
            for token in (None, "guessed-token-0123456789", f"{ADA}x", ""):
                told = await w.call(name, request_for(name, w.ids(there=True)), token)
                assert told.startswith("UNAUTHENTICATED"), (name, token, told[:200])
                assert MARK not in told, name


@pytest.mark.requirement("HOSTILE-41")
async def test_of_another_tenants_things_every_call_says_what_it_says_of_things_that_are_not_there(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        before = await hers(w)
        for name in sorted(METHODS, key=lambda name: name in MADE):  # these last: others would find what they make
            if name in SEEN_BY_DESIGN:
                continue
            told = {}
            for there in (True, False):
                ids = w.ids(there=there)
                answered = await w.call(name, request_for(name, ids), BOB)
                told[there] = without_ids(answered, ids)
            if name not in MADE:
                assert told[True] == told[False], name
            assert MARK not in told[True], name
            assert before == await hers(w), f"{name} changed what is not its caller's"


@pytest.mark.requirement("HOSTILE-41")
async def test_the_calls_ask_for_what_is_there_so_that_the_comparison_means_something(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        ids = w.ids(there=False)
        missing = {
            name for name in METHODS if (await w.call(name, request_for(name, ids), BOB)).startswith("NOT_FOUND")
        }
        for name in missing - {"TurnService.CancelRun", "SessionService.DeleteSession"} - set(OPERATED):
            told = await w.call(name, request_for(name, w.ids(there=True)), ADA)
            assert not told.startswith(("NOT_FOUND", "INVALID_ARGUMENT", "PERMISSION_DENIED")), (name, told[:300])
        by_id = {name for name in METHODS if any(item in {"run_id", "session_id"} for item in _names(name))}
        assert len(missing & by_id) >= 8


OPERATED = (
    "McpServerService.EnableMcpServer",
    "McpServerService.DisableMcpServer",
    "McpServerService.ReconnectMcpServer",
    "McpServerService.RemoveMcpServer",
    "ToolHostRegistryService.UnregisterToolHost",
)
"""What Ada has none of."""


def _names(name: str) -> Iterator[str]:
    return (item.name for item in METHODS[name].input_type.fields)


@pytest.mark.requirement("HOSTILE-42")
async def test_one_request_id_is_another_turn_for_another_tenant_and_a_page_token_opens_no_other_tenants_pages(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        again = turn_service_pb2.StartTurnRequest()
        again.turn.request_id = w.request_id
        again.turn.input.add(role=ROLE_USER).parts.add(text="Mine.")
        told = await w.call("TurnService.StartTurn", again, BOB)
        assert told.startswith("OK")
        assert "existing" not in told
        assert w.run_id not in told
        for name in ("TurnService.ListRuns", "TurnService.ListApprovals", "SessionService.ListSessions"):
            request: Any = GetMessageClass(METHODS[name].input_type)(page_size=1)
            first = await w.call(name, request, ADA)
            assert MARK in first or w.run_id in first, name
            for token in [*re.findall(r'next_page_token: "([^"]+)"', first), "AAAA", "eyJ9"]:
                request.page_token = token
                other = await w.call(name, request, BOB)
                assert MARK not in other and w.run_id not in other, name


@pytest.mark.requirement("HOSTILE-43")
async def test_who_is_no_operator_changes_and_reads_nothing_that_is_for_operators(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        before = await hers(w)
        for name in METHODS:
            operators = name.startswith("McpServerService.") or name == "AgentService.PutAgent"
            if operators:
                told = await w.call(name, request_for(name, w.ids(there=True)), EVE)
                assert told.startswith("PERMISSION_DENIED"), (name, told[:200])
        assert before == await hers(w)


async def hers(w: World) -> list[str]:
    """What Ada has: her run as it waits, her agent, her session and what was said in it."""
    names = ("TurnService.GetRun", "AgentService.GetAgent", "SessionService.GetSession", "SessionService.ListMessages")
    return [await w.call(name, request_for(name, w.ids(there=True)), ADA) for name in names]
