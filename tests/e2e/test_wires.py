"""One session of the real service over all three wires: each turn calls a tool, each provider gets its words back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from e2e.service import Followed, Service, prompt, service
from e2e.wires import PATHS, SECRET, SIGNATURE, THOUGHT, Wires, wires

from turnwire.v1 import outcome_pb2

PROFILES = {"messages": "anthropic-compatible", "responses": "responses-compatible", "chat": "openai-compatible"}
OWN_WORDS = {"messages": SIGNATURE, "responses": SECRET, "chat": THOUGHT}


@dataclass(frozen=True, slots=True)
class World:
    """A service with one provider for each wire."""

    service: Service
    wires: Wires

    async def turn(self, wire: str, session: str) -> Followed:
        """One turn at a provider."""
        request = prompt("What is 1 + 2?", session_id=session)
        request.turn.model.provider, request.turn.model.model = wire, "m"
        run = await self.service.run(request)
        assert run.view.outcome is not None
        assert run.view.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED, run.view.outcome
        assert run.view.text == f"Three, says {wire}."
        return run


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    directory = tmp_path_factory.mktemp("wires")
    async with wires() as w:
        providers = "".join(
            f'[providers.{wire}]\nprofile = "{profile}"\nbase_url = "{w.url}/v1"\nmodels = ["m"]\n'
            for wire, profile in PROFILES.items()
        )
        tools = '[tools]\nentry_points = false\npython = ["agent_tools:add"]\n'
        config = f'[store]\npath = "runs.db"\n{providers}{tools}[agents.default]\ninstructions = ["Be brief."]\n'
        async with service(directory, config) as s:
            yield World(s, w)
            ended = await s.stop()
            assert (ended.code, "Traceback" in ended.stderr) == (0, False), ended.stderr


@pytest.mark.requirement("E2E-80", "SCN-080")
@pytest.mark.parametrize("wire", PATHS)
async def test_a_turn_with_a_tool_runs_over_each_wire_and_its_words_go_back_to_it(world: World, wire: str) -> None:
    before = len(world.wires.requests[wire])
    run = await world.turn(wire, f"alone-{wire}")
    first, second = world.wires.requests[wire][before:]
    assert OWN_WORDS[wire] not in json.dumps(first)
    assert OWN_WORDS[wire] in json.dumps(second)
    assert "3" in _result(wire, second)
    assert run.view.finished is not None
    usage = run.view.finished.usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (200, 180, 14)


@pytest.mark.requirement("E2E-81")
async def test_a_session_moves_between_the_wires_and_no_provider_sees_what_is_anothers(world: World) -> None:
    for wire in (*PATHS, *PATHS):
        await world.turn(wire, "moving")
    for wire in PATHS:
        sent = json.dumps(world.wires.requests[wire][-1])
        assert [words in sent for words in OWN_WORDS.values()] == [name == wire for name in OWN_WORDS], wire
        assert all(f"Three, says {other}." in sent for other in PATHS if other != wire)


def _result(wire: str, body: dict[str, Any]) -> str:
    """What the model was told of its call."""
    match wire:
        case "messages":
            return json.dumps(body["messages"][-1]["content"])
        case "responses":
            return json.dumps(body["input"][-1])
        case _:
            return str(body["messages"][-1]["content"])
