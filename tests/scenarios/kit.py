"""Whole turns through the public API: run over gRPC, read again, and held to what every run must keep.

Knows the contract and the test kit; what a scenario demands is in its test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from execution.served import SECONDS, Seen, Served, turn, words

from turnwire.v1 import event_pb2, message_pb2, outcome_pb2, session_service_pb2, turn_service_pb2
from turnwired.codec.event import event_from_pb
from turnwired.domain.generation import (
    FinishReason,
    GenerationStopped,
    ModelItem,
    TextChunk,
    ToolArgumentsChunk,
    ToolCallClosed,
    ToolCallOpened,
)
from turnwired.domain.policy import Policy, ToolPolicy
from turnwired.testing.events import lines_of
from turnwired.testing.provider import Step, usage

ANSWERED = outcome_pb2.OUTCOME_KIND_ANSWERED
ERRORED = outcome_pb2.OUTCOME_KIND_ERRORED
ABORTED = outcome_pb2.OUTCOME_KIND_ABORTED
BUDGET_EXCEEDED = outcome_pb2.OUTCOME_KIND_BUDGET_EXCEEDED
MAX_STEPS = outcome_pb2.OUTCOME_KIND_MAX_STEPS
OUTPUT_LIMIT = outcome_pb2.OUTCOME_KIND_OUTPUT_LIMIT
PROVIDER_EOF = outcome_pb2.OUTCOME_KIND_PROVIDER_EOF
REFUSED = outcome_pb2.OUTCOME_KIND_REFUSED
TOOL_ONLY = outcome_pb2.OUTCOME_KIND_TOOL_ONLY
OK = message_pb2.TOOL_RESULT_STATUS_OK
ERROR = message_pb2.TOOL_RESULT_STATUS_ERROR
INTERRUPTED = message_pb2.TOOL_RESULT_STATUS_INTERRUPTED
NOT_EXECUTED = message_pb2.TOOL_RESULT_STATUS_NOT_EXECUTED

SERIAL = Policy(tool=ToolPolicy(max_parallel_calls=1))
PARALLEL = Policy(tool=ToolPolicy(max_parallel_calls=8))


@dataclass
class Told:
    """A settled run: what its reader was sent, the same as lines, and the run as it is kept."""

    seen: Seen
    run: turn_service_pb2.GetRunResponse

    @property
    def lines(self) -> list[str]:
        """One line for each step."""
        return lines_of([event_from_pb(event) for event in self.seen.events])

    @property
    def outcome(self) -> outcome_pb2.Outcome:
        """How it ended."""
        return self.seen.finished.outcome

    @property
    def text(self) -> str:
        """The text of the final message."""
        return "".join(part.text for part in self.seen.finished.message.parts)

    @property
    def results(self) -> list[message_pb2.ToolResult]:
        """The results in the order in which their calls began."""
        began = [e.tool_call_started.call_id for e in self.seen.events if e.HasField("tool_call_started")]
        by_id = {result.call_id: result for result in self.seen.results}
        return [by_id[call_id] for call_id in began]

    @property
    def said(self) -> list[str]:
        """The words of the results, in that order."""
        return [words(result) for result in self.results]

    @property
    def stops(self) -> list[event_pb2.IterationFinished]:
        """The ends of the iterations."""
        return [e.iteration_finished for e in self.seen.events if e.HasField("iteration_finished")]

    @property
    def irregularities(self) -> list[str]:
        """In what the provider departed from its protocol, as notices tell it."""
        notices = (event.notice.metadata for event in self.seen.events if event.HasField("notice"))
        return [metadata["irregularity"] for metadata in notices if "irregularity" in metadata]

    @property
    def reasons(self) -> list[outcome_pb2.Reason.ValueType]:
        """The reasons of the notices."""
        return [notice.reason for notice in self.seen.notices]


async def play(s: Served, text: str = "Hello", *, started: bool = False, **fields: object) -> Told:
    """One turn to its end; ``started``: with StartTurn and a later reader instead of a stream of its own."""
    if started:
        request = turn_service_pb2.StartTurnRequest(turn=turn(text, **fields).turn)
        run_id = (await s.turns.StartTurn(request, timeout=SECONDS)).run_id
        return await told(s, await s.watch(run_id))
    return await told(s, await s.run(text, **fields))


async def told(s: Served, seen: Seen) -> Told:
    """The run of a stream that has ended, with what must hold of every run checked."""
    again = await s.watch(seen.run_id)
    run = await s.settled(seen.run_id)
    result = Told(seen, run)
    assert Told(again, run).lines == result.lines, "a later reader is told the same"
    assert run.run.outcome == seen.finished.outcome
    assert [event.sequence for event in seen.events] == list(range(1, len(seen.events) + 1)), "no gap, no repeat"
    calls = [event.tool_call_started.call_id for event in seen.events if event.HasField("tool_call_started")]
    assert sorted(calls) == sorted(item.call_id for item in seen.results), "each call settles once"
    assert all(calls)
    assert len(set(calls)) == len(calls)
    return result


async def kept(s: Served, session_id: str) -> list[message_pb2.Message]:
    """What a session keeps."""
    request = session_service_pb2.ListMessagesRequest(session_id=session_id)
    return list((await s.sessions.ListMessages(request, timeout=SECONDS)).messages)


def spoken(text: str, *wanted: tuple[str, str], finish: FinishReason = FinishReason.TOOL_CALLS) -> list[Step]:
    """An answer of a text and then calls, as one stream: pairs of name and arguments."""
    items: list[ModelItem] = [TextChunk(0, text)] if text else []
    for index, (name, arguments) in enumerate(wanted, start=1):
        items += [ToolCallOpened(index, f"c{index}", name), ToolArgumentsChunk(index, arguments), ToolCallClosed(index)]
    return [items, [GenerationStopped(finish, finish.value.lower()), usage()]]


def sent(s: Served, call: int) -> list[tuple[str, list[object]]]:
    """Role and parts of the messages of a request, in order."""
    return [(str(message["role"]), _parts(message)) for message in s.provider.messages(call) if "parts" in message]


def _parts(message: dict[str, object]) -> list[object]:
    parts = message["parts"]
    assert isinstance(parts, list)
    return list(parts)


def pairs(messages: Sequence[tuple[str, list[object]]]) -> list[tuple[str, str]]:
    """Ids of the calls with the content of their results, after checking that each call is answered once, in order."""
    found: list[tuple[str, str]] = []
    waiting: list[str] = []
    for _, parts in messages:
        results = [part for part in parts if isinstance(part, dict) and "result" in part]
        if results or waiting:
            assert [str(part["result"]) for part in results] == waiting, "the results of a turn follow it, in order"
        for part in results:
            content = part["content"]
            assert isinstance(content, list)
            found.append((str(part["result"]), " ".join(str(item) for item in content)))
        waiting = [str(part["call"]) for part in parts if isinstance(part, dict) and "call" in part]
    assert waiting == [], "no call is left without its result"
    assert len({call for call, _ in found}) == len(found), "no id is used twice"
    return found
