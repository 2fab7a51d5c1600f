"""The conformance suite of tool sources: what every ``Toolset`` owes the registry, wherever its tools run.

The author of a source writes one function, ``open_sample()``: a context manager that gives a source, not started yet,
with the three tools of ``SampleToolset``. The rules are those of ``turnwired.tools.port``. Knows no source.

    @pytest.mark.parametrize("check", TOOLSET_CHECKS, ids=name_of)
    async def test_my_source_conforms(check): await check(open_sample)
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Failure
from turnwired.domain.message import Data, Text, ToolResultStatus
from turnwired.domain.policy import ArgumentValidation
from turnwired.domain.run import Caller
from turnwired.domain.tool import ToolSelection
from turnwired.testing.conformance import bounded, require, run_all, within
from turnwired.tools.port import ToolInvocation, ToolOutput, Toolset
from turnwired.tools.registry import Registry, Source

WORDS = "Hello, Wörld ✓"
START_SECONDS = 2.0
"""How long ``start`` may take: it only begins."""


@dataclass(frozen=True, slots=True)
class SampleToolset:
    """A source, not started, and the native names of three of its tools.

    ``echo`` takes ``{"text": string}`` and gives the text. ``fails`` ends in an error of the tool's own. ``hangs`` ends
    only when it is cancelled; ``cancelled`` returns once it has been told so.
    """

    toolset: Toolset
    cancelled: Callable[[], Awaitable[object]]
    echo: str = "echo"
    fails: str = "fails"
    hangs: str = "hangs"
    fails_arguments: Mapping[str, object] = field(default_factory=dict[str, object])


OpenSample = Callable[[], AbstractAsyncContextManager[SampleToolset]]
OpenBroken = Callable[[], AbstractAsyncContextManager[Toolset]]


def invocation(name: str, arguments: Mapping[str, object] | None = None) -> ToolInvocation:
    """One call, as the registry makes it."""
    return ToolInvocation("run_1", f"call_{name}", name, arguments or {}, Caller(), timeout=10.0)


def _words(output: ToolOutput) -> str:
    contents = [part.content for part in output.content]
    words = "".join(
        item.text if isinstance(item, Text) else item.json for item in contents if isinstance(item, Text | Data)
    )
    return words + (output.structured_json or "")


async def _echoes(sample: SampleToolset) -> None:
    output = await sample.toolset.call(invocation(sample.echo, {"text": WORDS}))
    require(not output.is_error, f"a tool that succeeds says so: {output}")
    require(WORDS in _words(output) or json.dumps(WORDS) in _words(output), f"the result comes whole: {output}")


async def _failure_of(toolset: Toolset, call: ToolInvocation) -> tuple[ToolOutput | None, Failure | None]:
    try:
        output = await toolset.call(call)
    except ToolError as error:
        return None, error.failure
    return output, output.failure


@bounded
async def it_starts_at_once_and_lists_its_tools(open_sample: OpenSample) -> None:
    """``start`` only begins; ``tools`` gives native names and object schemas, the same each time."""
    async with open_sample() as sample:
        async with within(START_SECONDS, "`start` only begins, and returns"):
            await sample.toolset.start()
        first, second = await sample.toolset.tools(), await sample.toolset.tools()
        names = [tool.ref.native_name for tool in first]
        missing = {sample.echo, sample.fails, sample.hangs} - set(names)
        require(not missing, f"all tools are listed; missing: {missing}")
        require(first == second, "a list that has not changed is the same")
        for tool in first:
            schema = json.loads(tool.input_schema_json)
            require(isinstance(schema, dict), f"{tool.ref.native_name}: the schema is a JSON object")
        require(sample.toolset.failure is None, f"a source that works has no failure: {sample.toolset.failure}")
        await sample.toolset.aclose()


@bounded
async def a_call_gives_its_result(open_sample: OpenSample) -> None:
    """The result of a tool comes as it was made."""
    async with open_sample() as sample:
        await sample.toolset.start()
        await sample.toolset.tools()
        await _echoes(sample)
        await sample.toolset.aclose()


@bounded
async def a_tool_that_fails_fails_alone(open_sample: OpenSample) -> None:
    """An error of the tool is an error result or a ToolError, without a traceback, and the source goes on."""
    async with open_sample() as sample:
        await sample.toolset.start()
        await sample.toolset.tools()
        output, failure = await _failure_of(sample.toolset, invocation(sample.fails, sample.fails_arguments))
        require(failure is not None or (output is not None and output.is_error), f"an error is told: {output}")
        shown = repr(output) + repr(failure)
        require("Traceback (most recent call last)" not in shown, "nobody is shown a traceback")
        await _echoes(sample)
        await sample.toolset.aclose()


@bounded
async def a_name_that_is_not_there_is_an_error(open_sample: OpenSample) -> None:
    """A call of a tool that the source has not is an error, and the source goes on."""
    async with open_sample() as sample:
        await sample.toolset.start()
        await sample.toolset.tools()
        output, failure = await _failure_of(sample.toolset, invocation("no_such_tool_of_anybody"))
        require(failure is not None or (output is not None and output.is_error), f"an error is told: {output}")
        await _echoes(sample)
        await sample.toolset.aclose()


@bounded
async def cancelling_reaches_the_tool(open_sample: OpenSample) -> None:
    """A cancelled call ends, its tool is told, and the source goes on."""
    async with open_sample() as sample:
        await sample.toolset.start()
        await sample.toolset.tools()
        call = asyncio.create_task(sample.toolset.call(invocation(sample.hangs)))
        done, _ = await asyncio.wait([call], timeout=0.2)
        require(not done, "the tool that hangs hangs")
        call.cancel()
        await asyncio.wait([call])
        require(call.cancelled(), "a cancellation is not swallowed")
        await sample.cancelled()
        await _echoes(sample)
        await sample.toolset.aclose()


@bounded
async def calls_run_side_by_side(open_sample: OpenSample) -> None:
    """A call that takes long holds up no other."""
    async with open_sample() as sample:
        await sample.toolset.start()
        await sample.toolset.tools()
        slow = asyncio.create_task(sample.toolset.call(invocation(sample.hangs)))
        await asyncio.wait([slow], timeout=0.2)
        await asyncio.gather(*(_echoes(sample) for _ in range(8)))
        require(not slow.done(), "the slow call is still on")
        slow.cancel()
        await asyncio.wait([slow])
        await sample.toolset.aclose()


@bounded
async def closing_ends_what_it_started(open_sample: OpenSample) -> None:
    """``aclose`` is bounded, with a call in flight too, and may be repeated; afterwards calls fail at once."""
    async with open_sample() as sample:
        await sample.toolset.start()
        await sample.toolset.tools()
        slow = asyncio.create_task(_failure_of(sample.toolset, invocation(sample.hangs)))
        await asyncio.wait([slow], timeout=0.2)
        await sample.toolset.aclose()
        await sample.toolset.aclose()
        slow.cancel()
        await asyncio.wait([slow])
        output, failure = await _failure_of(sample.toolset, invocation("no_such_tool_of_anybody"))
        require(failure is not None or (output is not None and output.is_error), "a source that is closed runs nothing")


@bounded
async def the_registry_takes_it(open_sample: OpenSample) -> None:
    """Through the registry: schemas that can be used, arguments checked, results and errors settled."""
    async with open_sample() as sample:
        registry = Registry([Source(sample.toolset, namespace="n")])
        await registry.start()
        view = await registry.view(ToolSelection(), Caller())
        try:
            require(not view.failures, f"nothing is left out: {view.failures}")
            echo, fails = f"n__{sample.echo}", f"n__{sample.fails}"
            checked = view.check(echo, json.dumps({"text": WORDS}), ArgumentValidation.STRICT)
            require(checked.arguments is not None, f"good arguments are taken: {checked.failure}")
            result = await view.execute(echo, invocation(sample.echo, checked.arguments), 65536)
            require(result.status is ToolResultStatus.OK, f"a result is OK: {result}")
            wrong = view.check(echo, "{}", ArgumentValidation.STRICT)
            require(wrong.failure is not None, "the schema says what the tool needs")
            failed = await view.execute(fails, invocation(sample.fails, sample.fails_arguments), 65536)
            require(failed.status is ToolResultStatus.ERROR, f"an error of a tool is an ERROR: {failed}")
            require(failed.failure is not None and failed.content, "with a failure, and words for the model")
        finally:
            await registry.aclose()


@bounded
async def a_broken_source_fails_alone(open_broken: OpenBroken) -> None:
    """A source that cannot be reached: nothing raises, there are no tools, and ``failure`` says why."""
    async with open_broken() as toolset:
        async with within(START_SECONDS, "`start` only begins, and returns"):
            await toolset.start()
        tools = await toolset.tools()
        require(not tools, f"it offers nothing: {tools}")
        require(toolset.failure is not None and toolset.failure.message, "its failure says why")
        output, failure = await _failure_of(toolset, invocation("echo", {"text": WORDS}))
        require(output is None and failure is not None, "a call is a ToolError")
        await toolset.aclose()


TOOLSET_CHECKS: tuple[Callable[[OpenSample], Awaitable[None]], ...] = (
    it_starts_at_once_and_lists_its_tools,
    a_call_gives_its_result,
    a_tool_that_fails_fails_alone,
    a_name_that_is_not_there_is_an_error,
    cancelling_reaches_the_tool,
    calls_run_side_by_side,
    closing_ends_what_it_started,
    the_registry_takes_it,
)
BROKEN_TOOLSET_CHECKS: tuple[Callable[[OpenBroken], Awaitable[None]], ...] = (a_broken_source_fails_alone,)
"""For sources that can be out of reach; their subject is a source that is."""


async def toolset_conformance(open_sample: OpenSample, open_broken: OpenBroken | None = None) -> None:
    """All checks; those of a broken source if there can be one. Raises ExceptionGroup with every one that fails."""
    await run_all(TOOLSET_CHECKS, open_sample)
    if open_broken is not None:
        await run_all(BROKEN_TOOLSET_CHECKS, open_broken)
