"""The Python client in the conformance set of all clients: a case per line on standard input, an answer per line back.

Uses what the package ``turnwire`` offers to everybody. docs/clients.md says what a case and an answer are.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.json_format import ParseDict

from turnwire import ALWAYS, ONCE, AsyncClient, Decision, Resume, RunView, StreamLost, TurnwireError, Update, reject
from turnwire.v1.approval_pb2 import Approval
from turnwire.v1.outcome_pb2 import OutcomeKind
from turnwire.v1.turn_service_pb2 import RunTurnRequest, WatchRunRequest

Case = dict[str, Any]


class Played:
    """One case and what is kept of it beside its view."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.view = RunView()
        self.rewinds = 0
        self.asked: list[str] = []
        self.cancel: Callable[[], object] = lambda: None

    def seen(self, update: Update, view: RunView) -> None:
        """Told of each update."""
        self.view = view
        self.rewinds += update.rewind_to is not None
        wanted = self.case.get("cancel_on")
        if wanted is not None and any((event.WhichOneof("event") or "unknown") == wanted for event in update.events):
            self.cancel()

    def approve(self, approval: Approval) -> Decision:
        """As the case says."""
        self.asked.append(approval.call.tool.routed_name)
        given = self.case["approvals"]
        return {"once": ONCE, "always": ALWAYS, "reject": reject(given.get("comment", ""))}[given["decision"]]

    async def play(self) -> None:
        """The run or the watch of the case, to its end."""
        case, resume = self.case, self.case.get("resume")
        limit = case["timeout_ms"] / 1000 if "timeout_ms" in case else None
        ways = None
        if resume is not None:
            ways = Resume(resume["attempts"], resume["initial_delay_ms"] / 1000, resume["max_delay_ms"] / 1000)
        async with AsyncClient(case["target"], token=case.get("token"), resume=ways) as client:
            if "watch" in case:
                watched = ParseDict(case["watch"], WatchRunRequest())
                async for update in client.follow(watched, timeout=limit):
                    self.view.apply(update)
                    self.seen(update, self.view)
                return
            await client.run(
                ParseDict(case["run"], RunTurnRequest()),
                tools={name: tool(behaviour) for name, behaviour in case.get("tools", {}).items()},
                approve=self.approve if "approvals" in case else None,
                on_update=self.seen,
                timeout=limit,
            )

    def answer(self, error: Case | None) -> Case:
        """What there is to compare."""
        view, last, dense = self.view, 0, True
        kinds: list[str] = []
        arguments: dict[str, list[str]] = {}
        names: dict[str, str] = {}
        for event in view.events:
            first = event.first_sequence if event.HasField("first_sequence") else event.sequence
            dense, last = dense and first == last + 1, event.sequence
            kind = event.WhichOneof("event") or "unknown"
            if kinds[-1:] != [kind]:
                kinds.append(kind)
            if kind == "tool_call_started":
                names[event.tool_call_started.call_id] = event.tool_call_started.tool.routed_name
            elif kind == "tool_call_arguments_finished":
                done = event.tool_call_arguments_finished
                if names[done.call_id] in self.case.get("tools", {}):
                    arguments.setdefault(names[done.call_id], []).append(done.arguments_json)
        waiting, usage = view.waiting, view.usage
        return {
            "id": self.case["id"],
            "run_id": view.run_id,
            "text": view.text,
            "outcome": None if view.outcome is None else OutcomeKind.Name(view.outcome.kind),
            "waiting": []
            if waiting is None
            else [*(a.approval_id for a in waiting.approvals), *(c.call_id for c in waiting.client_tool_calls)],
            "kinds": kinds,
            "sequences_dense": dense,
            "last_sequence": str(last),
            "usage": {}
            if usage is None
            else {"input_tokens": str(usage.input_tokens), "output_tokens": str(usage.output_tokens)},
            "tool_arguments": arguments,
            "approvals_asked": self.asked,
            "rewinds": self.rewinds,
            "error": error,
        }


def tool(behaviour: Case) -> Callable[..., object]:
    """A function that returns, fails or echoes."""

    def function(**arguments: object) -> object:
        if "fail" in behaviour:
            raise RuntimeError(behaviour["fail"])
        return arguments if behaviour.get("echo") else behaviour["return"]

    return function


async def play(case: Case) -> Case:
    """One case. What the language itself raises is sorted, and everything else is a fault of this program."""
    played = Played(case)
    task = asyncio.create_task(played.play())
    played.cancel = task.cancel
    try:
        await task
    except TurnwireError as error:
        told = {"code": error.code.name, "reason": error.reason, "domain": error.domain, "metadata": {**error.metadata}}
        return played.answer({"type": "TurnwireError", **told})
    except StreamLost:
        return played.answer({"type": "StreamLost"})
    except asyncio.CancelledError:
        return played.answer({"type": "Cancelled"})
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
            raise
        return played.answer({"type": "DeadlineExceeded"})
    return played.answer(None)


def main() -> None:
    """Cases until the end of the input."""
    for line in sys.stdin:
        print(json.dumps(asyncio.run(play(json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()
