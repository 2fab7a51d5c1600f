"""Generation options through the engine: whose they are, who is asked whether they can be had, and who gets them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from engine.harness import World, user, world
from turnwired.domain.errors import FieldViolation, InvalidRequest
from turnwired.domain.event import RunStarted
from turnwired.domain.failure import Reason
from turnwired.domain.message import Blob, Message, Part, Role, Text
from turnwired.domain.model import GenerationOptions, ModelSelection, OutputFormat
from turnwired.domain.tool import ToolChoice, ToolChoiceMode, ToolSelection
from turnwired.providers.build import wire_of
from turnwired.providers.port import ModelRequest
from turnwired.providers.profiles import shipped
from turnwired.testing.provider import ScriptedProvider, answer, calls
from turnwired.tools.port import ToolInvocation

pytestmark = pytest.mark.anyio

AGENTS = GenerationOptions(temperature=0.2, seed=7)


@asynccontextmanager
async def with_agents_options() -> AsyncIterator[World]:
    async with world([answer('"Hi."')], options=AGENTS) as w:
        yield w


@pytest.mark.requirement("OUT-10")
@pytest.mark.parametrize(
    ("asked", "options"),
    [
        (None, AGENTS),
        (ModelSelection("", ""), AGENTS),
        (ModelSelection("", "", options=GenerationOptions(seed=1)), GenerationOptions(temperature=0.2, seed=1)),
        (ModelSelection("scripted", ""), GenerationOptions()),
        (ModelSelection("", "other", options=GenerationOptions(seed=1)), GenerationOptions(seed=1)),
    ],
    ids=["nothing", "an empty selection", "one option", "a provider", "a model"],
)
async def test_options_that_are_not_set_come_with_the_agents_own_model_only(
    asked: ModelSelection | None, options: GenerationOptions
) -> None:
    async with with_agents_options() as w:
        reader = await w.run(model=asked)
    assert w.provider.requests[0].options == options
    (started,) = reader.of(RunStarted)
    assert isinstance(started, RunStarted)
    assert started.model.options == options


def no_seeds(request: ModelRequest) -> list[FieldViolation]:
    if request.options.seed is None:
        return []
    return [FieldViolation("turn.model.options.seed", "this server takes no seed; leave it out")]


@pytest.mark.requirement("OUT-11")
@pytest.mark.parametrize("own", [True, False])
async def test_what_the_provider_has_no_place_for_is_refused_and_says_whose_value_it_is(own: bool) -> None:
    async with with_agents_options() as w:
        w.provider.refuses = no_seeds
        asked = ModelSelection("", "", options=GenerationOptions(seed=1)) if own else None
        with pytest.raises(InvalidRequest) as caught:
            await w.start(model=asked)
        assert caught.value.reason is Reason.OPTION_NOT_SUPPORTED
        (violation,) = caught.value.violations
        assert violation.field == "turn.model.options.seed"
        assert ("agents.default.options" in violation.description) is not own
        assert w.provider.requests == []


@pytest.mark.requirement("OUT-11")
async def test_the_provider_is_shown_all_that_the_run_would_ask() -> None:
    seen: list[ModelRequest] = []

    def look(request: ModelRequest) -> list[FieldViolation]:
        seen.append(request)
        return []

    async with with_agents_options() as w:
        w.provider.refuses = look
        await w.run(session_id="s", output_format=OutputFormat("{}", "any"))
    (request,) = w.provider.requests
    assert seen[0] == replace(request, system=b"", messages=(), tools=b"", offered=(), headers={})


@pytest.mark.requirement("OUT-20")
async def test_a_file_that_the_wire_cannot_carry_is_refused_with_its_place_and_enters_no_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encode = ScriptedProvider.encode_message

    def no_videos(self: ScriptedProvider, message: Message) -> bytes:
        for index, part in enumerate(message.parts):
            if isinstance(part.content, Blob):
                raise InvalidRequest([FieldViolation(f"parts[{index}].blob", "video/mp4 is not taken")])
        return encode(self, message)

    monkeypatch.setattr(ScriptedProvider, "encode_message", no_videos)
    film = Message(Role.USER, (Part("", Text("What is this?")), Part("", Blob("video/mp4", b"..."))))
    async with world([answer("Later.")]) as w:
        with pytest.raises(InvalidRequest) as caught:
            await w.start(session_id="s", input=(user("Look."), film))
        assert [violation.field for violation in caught.value.violations] == ["turn.input[1].parts[1].blob"]
        assert not await w.store.session_exists("default", "s")


@pytest.mark.requirement("OUT-23")
@pytest.mark.parametrize("choice", [ToolChoice(routed_name="look"), ToolChoice(ToolChoiceMode.REQUIRED)])
async def test_a_forced_tool_choice_holds_for_the_first_model_call_only(choice: ToolChoice) -> None:
    async def look(invocation: ToolInvocation) -> str:
        return f"seen {len(invocation.arguments)}"

    async with world([calls(("look", "{}")), answer("Seen.")], {"look": look}) as w:
        await w.run(tools=ToolSelection(choice=choice))
    first, second = w.provider.requests
    assert (first.tool_choice, second.tool_choice) == (choice, ToolChoice())
    assert second.tools == first.tools, "the prefix stays"


@pytest.mark.requirement("OUT-20")
@pytest.mark.parametrize("name", ["groq", "xai-responses", "anthropic-compatible"])
@pytest.mark.parametrize("part_id", ["", "mine"])
async def test_each_wire_names_a_part_of_the_input_by_its_place(
    monkeypatch: pytest.MonkeyPatch, name: str, part_id: str
) -> None:
    wire = wire_of(shipped()[name])
    monkeypatch.setattr(ScriptedProvider, "encode_message", lambda _, message: wire.encode_message(message))
    sound = Message(Role.USER, (Part(part_id, Text("What is said?")), Part(part_id, Blob("audio/wav", b"RIFF"))))
    async with world([answer("Later.")]) as w:
        with pytest.raises(InvalidRequest) as caught:
            await w.start(input=(user("Listen."), sound))
    assert [violation.field for violation in caught.value.violations] == ["turn.input[1].parts[1]"]
