"""Structured output through the engine: what the provider is asked, what readers get, what the session keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.harness import CALLER, world
from turnwired.domain.errors import FieldViolation, InvalidRequest
from turnwired.domain.event import IterationStarted
from turnwired.domain.failure import Reason
from turnwired.domain.model import IterationKind, OutputFormat
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.tool import ToolChoice, ToolChoiceMode
from turnwired.providers.port import ModelRequest
from turnwired.testing.provider import answer, calls
from turnwired.tools.port import ToolInvocation

pytestmark = pytest.mark.anyio

FORMAT = OutputFormat('{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}', "number")


async def look(invocation: ToolInvocation) -> str:
    return "seen"


@pytest.mark.requirement("OUT-13")
async def test_every_model_call_asks_for_the_format_and_the_run_has_the_value() -> None:
    async with world([calls(("look", "{}")), answer('```json\n{"n": 1}\n```')], {"look": look}) as w:
        run_id, reader, task = await w.start(output_format=FORMAT)
        await task
        run = await w.engine.get_run(CALLER, run_id)
    assert [request.output_format for request in w.provider.requests] == [FORMAT, FORMAT]
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
    assert reader.finished.structured_output_json == run.structured_output_json == '{"n": 1}'


@pytest.mark.requirement("OUT-14", "OUT-17")
async def test_a_correction_keeps_the_request_and_forbids_tools_and_the_session_keeps_it() -> None:
    script = [calls(("look", "{}")), answer('{"n":"x"}'), answer('{"n":2}'), answer("Later.")]
    async with world(script, {"look": look}) as w:
        reader = await w.run(session_id="s", output_format=FORMAT)
        await w.run(session_id="s")
    first, second, third, later = w.provider.requests
    assert [e.kind for e in reader.of(IterationStarted) if isinstance(e, IterationStarted)][2:] == [
        IterationKind.STRUCTURED_OUTPUT
    ]
    assert third.tool_choice == ToolChoice(ToolChoiceMode.NONE)
    assert (third.system, third.tools) == (first.system, first.tools), "the prefix stays"
    assert list(third.messages)[: len(second.messages)] == list(second.messages)
    told = w.provider.messages(2)[-1]
    assert told["role"] == "USER"
    assert "/n: the value is not of type" in str(told["parts"])
    assert reader.finished.structured_output_json == '{"n":2}'
    assert list(later.messages)[: len(third.messages)] == list(third.messages)


@pytest.mark.requirement("OUT-14")
async def test_tools_are_left_out_where_the_provider_cannot_be_told_not_to_call_them() -> None:
    def refuses(request: ModelRequest) -> list[FieldViolation]:
        forbids = request.tool_choice.mode is ToolChoiceMode.NONE
        return [FieldViolation("turn.tools.choice", "no such choice")] if forbids else []

    async with world([answer("no"), answer('{"n":2}')], {"look": look}) as w:
        w.provider.refuses = refuses
        reader = await w.run(output_format=FORMAT)
    assert reader.finished.outcome.kind is OutcomeKind.ANSWERED
    assert (w.provider.requests[1].tools, w.provider.requests[1].offered) == (b"", ())
    assert w.provider.requests[1].tool_choice == ToolChoice()


@pytest.mark.requirement("OUT-15")
async def test_a_run_without_a_matching_answer_is_errored_with_text_and_trace() -> None:
    async with world([answer("no"), answer("still no")]) as w:
        run_id, reader, task = await w.start(output_format=FORMAT)
        await task
        run = await w.engine.get_run(CALLER, run_id)
    failure = reader.finished.outcome.failure
    assert failure is not None
    assert failure.reason is Reason.STRUCTURED_OUTPUT_INVALID
    assert reader.finished.trace is not None
    assert run.message is not None
    assert run.structured_output_json is None


@pytest.mark.requirement("OUT-12")
async def test_a_schema_that_is_none_is_refused_before_a_run_exists() -> None:
    async with world([]) as w:
        with pytest.raises(InvalidRequest) as caught:
            await w.start(output_format=replace(FORMAT, json_schema='{"type":"strin"}'))
        assert [violation.field for violation in caught.value.violations] == ["turn.output_format.json_schema"]
        assert w.provider.requests == []


@pytest.mark.requirement("OUT-19")
async def test_the_cache_key_is_that_of_the_session_else_of_the_agent_and_says_neither() -> None:
    async with world([answer("a")] * 5) as w:
        for session in ("one-session", "one-session", "another", None, None):
            await w.run(session_id=session)
    keys = [request.cache_key for request in w.provider.requests]
    assert keys[0] == keys[1]
    assert keys[3] == keys[4]
    assert len(set(keys)) == 3
    assert all(len(key) == 32 and "session" not in key and "default" not in key for key in keys)
