"""Checking and executing calls: arguments, deadlines, exceptions, caps, cancellation."""

from __future__ import annotations

import asyncio
import json
import logging

import anyio
import pytest
from tools.kit import FakeToolset, described, invocation, run_tool, view_of, view_of_functions, words_of

from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import ToolResultStatus
from turnwired.domain.policy import ArgumentValidation
from turnwired.tools.port import ToolInvocation, ToolOutput, ToolView
from turnwired.tools.registry import Source

STRICT = ArgumentValidation.STRICT
SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "who": {"type": "string", "maxLength": 5, "pattern": "^[a-z]+$"}},
        "required": ["n"],
        "additionalProperties": False,
    }
)


async def _view(schema: str = SCHEMA) -> ToolView:
    return await view_of(Source(FakeToolset("s", [described("act", schema)])))


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("TOOL-7")
@pytest.mark.parametrize("arguments", ["", " \n", "{}"])
async def test_blank_arguments_are_the_empty_object(arguments: str) -> None:
    checked = (await _view('{"type":"object"}')).check("act", arguments, STRICT)
    assert (checked.arguments, checked.failure) == ({}, None)


@pytest.mark.requirement("TOOL-7")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"action": listt"}', "line 1 column"),
        ('{"n":1', "unexpected end of data"),
        ('{"n":1}{"n":1}', "unexpected content after"),
        ('{"n":NaN}', "not valid JSON"),
        ('{"n":NaN,"who":"1234567890123456789"}', "NaN is not JSON"),
        ("[1]", "of type list"),
        ("null", "of type null"),
        ('"{}"', "of type str"),
        ("[" * 3000, "not valid JSON"),
        ("1234567890123456789" + "[" * 100_000, "not valid JSON"),
    ],
)
async def test_what_is_no_json_object_fails_in_words_for_the_model(arguments: str, words: str) -> None:
    for validation in (STRICT, ArgumentValidation.NONE):
        checked = (await _view()).check("act", arguments, validation)
        assert checked.arguments is None
        assert checked.failure is not None
        assert checked.tool is not None
        assert checked.failure.reason is Reason.TOOL_ARGUMENTS_INVALID
        assert words in checked.failure.message
        assert "exactly one JSON object" in checked.failure.message


@pytest.mark.requirement("TOOL-7")
async def test_integers_beyond_64_bits_stay_what_they_are() -> None:
    checked = (await _view()).check("act", '{"n":123456789012345678901234567890}', STRICT)
    assert checked.arguments == {"n": 123456789012345678901234567890}


@pytest.mark.requirement("TOOL-8")
async def test_violations_are_told_without_the_values() -> None:
    checked = (await _view()).check("act", '{"who":"Secret-Value","extra":1}', STRICT)
    assert checked.failure is not None
    assert checked.arguments is None
    message = checked.failure.message
    assert '"n" is a required property' in message
    assert "/who: the value is longer than 5 characters" in message
    assert "'extra' was unexpected" in message
    assert "Secret-Value" not in message


@pytest.mark.requirement("TOOL-8")
async def test_without_validation_only_the_form_is_checked() -> None:
    checked = (await _view()).check("act", '{"who":7}', ArgumentValidation.NONE)
    assert (checked.arguments, checked.failure) == ({"who": 7}, None)


@pytest.mark.requirement("TOOL-8")
async def test_many_violations_are_not_all_told() -> None:
    names = [f"p{index}" for index in range(50)]
    view = await _view(json.dumps({"type": "object", "required": names}))
    failure = view.check("act", "{}", STRICT).failure
    assert failure is not None
    assert failure.message.endswith("; and more.")
    assert failure.message.count("required") == 5


@pytest.mark.requirement("TOOL-8")
async def test_a_hostile_pattern_takes_bounded_time() -> None:
    schema = json.dumps({"type": "object", "properties": {"a": {"pattern": r"^(?=a)(a|aa)+\1?$"}}})
    view = await _view(schema)
    checked = view.check("act", json.dumps({"a": "a" * 60 + "!"}), STRICT)  # unbounded, it outlasts any test
    assert checked.failure is not None


@pytest.mark.requirement("TOOL-8")
async def test_a_schema_of_an_older_draft_is_read_as_that_draft() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"pair": {"items": [{"type": "integer"}, {"type": "string"}]}},
    }
    view = await _view(json.dumps(schema))
    assert view.check("act", '{"pair":[1,"a"]}', STRICT).failure is None
    assert view.check("act", '{"pair":["a",1]}', STRICT).failure is not None


@pytest.mark.requirement("TOOL-7")
async def test_an_unknown_tool_is_told_with_names_that_are_close() -> None:
    view = await _view()
    checked = view.check("acct", "{}", STRICT)
    assert checked.tool is None
    assert checked.failure is not None
    assert checked.failure.reason is Reason.TOOL_NOT_FOUND
    assert "act" in checked.failure.message
    result = await view.execute("acct", invocation(), None)
    assert result.status is ToolResultStatus.NOT_EXECUTED


# --- deadlines and cancellation --------------------------------------------------------------------------------------


@pytest.mark.requirement("TOOL-9")
async def test_a_call_past_its_deadline_is_cancelled_and_said_to_have_perhaps_taken_effect() -> None:
    cancelled = anyio.Event()

    async def slow() -> str:
        """Never ends."""
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()
        return "never"

    result = await run_tool(await view_of_functions(slow), "slow", timeout=0.02)
    assert cancelled.is_set()
    assert result.status is ToolResultStatus.ERROR
    assert result.failure is not None
    assert result.failure.reason is Reason.TOOL_TIMEOUT
    assert "timed out after 0.02 s; it may have taken effect" in words_of(result)


@pytest.mark.requirement("TOOL-9")
async def test_a_tool_that_turns_its_cancellation_into_an_error_has_still_timed_out() -> None:
    async def stubborn() -> str:
        """Ends badly."""
        try:
            await anyio.sleep_forever()
        except BaseException as error:
            raise RuntimeError("interrupted") from error
        return "never"

    result = await run_tool(await view_of_functions(stubborn), "stubborn", timeout=0.02)
    assert result.failure is not None
    assert result.failure.reason is Reason.TOOL_TIMEOUT


@pytest.mark.requirement("TOOL-13")
async def test_cancelling_the_caller_cancels_the_tool() -> None:
    begun, cancelled = anyio.Event(), anyio.Event()

    async def slow() -> str:
        """Never ends."""
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()
        return "never"

    view = await view_of_functions(slow)
    results: list[object] = []
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:

            async def call() -> None:
                results.append(await run_tool(view, "slow"))

            group.start_soon(call)
            await begun.wait()
            group.cancel_scope.cancel()
    assert cancelled.is_set()
    assert not results


@pytest.mark.requirement("TOOL-13")
async def test_a_native_cancellation_of_the_task_goes_through() -> None:
    begun = asyncio.Event()

    async def slow() -> str:
        """Never ends."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    task = asyncio.create_task(run_tool(await view_of_functions(slow), "slow"))
    await asyncio.wait_for(begun.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.requirement("TOOL-13")
async def test_a_tool_that_cancels_itself_is_an_error_result() -> None:
    async def confused() -> str:
        """Raises what only others should."""
        raise asyncio.CancelledError

    result = await run_tool(await view_of_functions(confused), "confused")
    assert result.status is ToolResultStatus.ERROR
    assert "cancelled itself" in words_of(result)


# --- what tools raise ------------------------------------------------------------------------------------------------


@pytest.mark.requirement("TOOL-10", "TOOL-14")
async def test_an_exception_is_an_error_result_with_its_words_and_no_traceback() -> None:
    async def bad() -> str:
        """Fails."""
        raise ValueError("no such row")

    result = await run_tool(await view_of_functions(bad), "bad")
    assert result.status is ToolResultStatus.ERROR
    assert words_of(result) == "The tool call failed.\nValueError: no such row"
    assert result.failure is not None
    assert (result.failure.reason, result.failure.origin_code) == (Reason.TOOL_FAILED, "ValueError")
    assert result.failure.call_id == "call-1"
    assert "no such row" not in result.failure.message  # content, which telemetry and logs must not carry
    assert __file__ not in words_of(result)


@pytest.mark.requirement("TOOL-10")
@pytest.mark.parametrize(
    ("words", "secret"),
    [
        ("GET https://bob:hunter22@db.test/x failed", "hunter22"),
        ("401 for Authorization: Bearer abcdef0123456789", "abcdef0123456789"),
        ("api_key=abcdef012345 is not valid", "abcdef012345"),
        ('{"password": "hunter22"}', "hunter22"),
        ("key sk-abcdefghijklmnop1234 has no credit", "sk-abcdefghijklmnop1234"),
    ],
)
async def test_credentials_in_what_a_tool_raises_are_not_passed_on(
    words: str, secret: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def bad() -> str:
        """Fails."""
        raise RuntimeError(words)

    result = await run_tool(await view_of_functions(bad), "bad")
    assert secret not in repr(result)
    assert "[redacted]" in words_of(result)
    assert "RuntimeError" in caplog.text
    assert secret not in caplog.text  # also in the log that is asked to say more


@pytest.mark.requirement("TOOL-10")
async def test_a_tool_that_exits_the_process_only_fails() -> None:
    async def leaves() -> str:
        """Exits."""
        raise SystemExit(3)

    def leaves_too() -> str:
        """Exits in its thread."""
        raise SystemExit(3)

    view = await view_of_functions(leaves, leaves_too)
    for name in ("leaves", "leaves_too"):
        assert (await run_tool(view, name)).status is ToolResultStatus.ERROR


@pytest.mark.requirement("TOOL-10")
async def test_a_source_that_breaks_its_port_gives_an_error_result() -> None:
    def broken(_: ToolInvocation) -> ToolOutput:
        raise KeyError("secret detail")

    view = await view_of(Source(FakeToolset("s", [described("act")], output=broken)))
    result = await run_tool(view, "act")
    assert result.status is ToolResultStatus.ERROR
    assert "KeyError" in words_of(result)
    assert "secret detail" not in words_of(result)


@pytest.mark.requirement("TOOL-10")
@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (Reason.TOOL_OUTCOME_UNKNOWN, ToolResultStatus.OUTCOME_UNKNOWN),
        (Reason.MCP_UNAVAILABLE, ToolResultStatus.NOT_EXECUTED),
        (Reason.OVERLOADED, ToolResultStatus.NOT_EXECUTED),
        (Reason.TOOL_FAILED, ToolResultStatus.ERROR),
    ],
)
async def test_the_failure_of_a_source_decides_the_status(reason: Reason, status: ToolResultStatus) -> None:
    def failing(_: ToolInvocation) -> ToolOutput:
        raise ToolError(Failure(FailurePhase.TOOL, reason, "words for the model"))

    view = await view_of(Source(FakeToolset("s", [described("act")], output=failing)))
    result = await run_tool(view, "act")
    assert result.status is status
    assert words_of(result) == "The tool call failed: words for the model"
