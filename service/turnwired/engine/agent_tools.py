"""Agents as tools: a call of one is a run of that agent on behalf of the run that called it.

A ``Toolset`` of one run. It may know agents and, through ``ChildRuns``, how a run is started and stopped; never how it
is executed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from turnwired.domain.errors import RequestError, StoreError, ToolError
from turnwired.domain.event import RunWaiting
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import Blob, Data, Message, Part, Role, Text
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.run import Agent, OnDisconnect, Run, TurnSpec
from turnwired.domain.tool import Tool, ToolRef, ToolSource
from turnwired.tools.port import ToolInvocation, ToolOutput

PREFIX = "agent__"
INPUT = "input"
"""The one argument: what the agent is told, as its user."""
INPUT_SCHEMA = (
    '{"type":"object","properties":{"input":{"type":"string","description":"What the agent is to do, with all that it'
    ' has to know: it sees nothing of this conversation."}},"required":["input"],"additionalProperties":false}'
)
SHOWN = (Text, Blob, Data)


class ChildRuns(Protocol):
    """Runs of this process that are made on behalf of others."""

    async def run_child(
        self, spec: TurnSpec, run_id: str, headers: Mapping[str, str], on_waiting: Callable[[RunWaiting], None]
    ) -> Run:
        """Start the run under this id and return it when it has settled. Cancelled, the run is stopped first.

        ``on_waiting`` is told whenever the run begins to wait for its caller. Raises RequestError or StoreError when it
        cannot be started.
        """
        ...


def child_run_id(run_id: str, call_id: str) -> str:
    """The id of the run that an agent makes of a call: the same for whoever asks, as hard to guess as its parent's."""
    return f"run_{hashlib.sha256(f'{run_id}/{call_id}'.encode()).hexdigest()[:32]}"


@dataclass(frozen=True, slots=True)
class AgentToolset:
    """The agents that one run may call. ``unknown`` are ids that the calling agent names and nobody has."""

    agents: Sequence[Agent]
    unknown: Sequence[str]
    runs: ChildRuns
    set_id: str = "agents"
    failure: Failure | None = field(default=None, init=False)

    @property
    def left_out(self) -> Sequence[Failure]:
        """Agents that are not there."""
        words = "The agent {!r} is offered as a tool, but no agent has this id. It is left out."
        return [
            Failure(FailurePhase.ROUTING, Reason.AGENT_NOT_FOUND, words.format(agent_id), origin=agent_id)
            for agent_id in self.unknown
        ]

    async def start(self) -> None:
        """Nothing to start: the agents are there."""

    async def tools(self) -> Sequence[Tool]:
        """One tool for each agent."""
        return [
            Tool(
                ToolRef("", f"{PREFIX}{agent.agent_id}", ToolSource.AGENT, agent.agent_id),
                agent.description or f"The agent {agent.agent_id}.",
                INPUT_SCHEMA,
            )
            for agent in self.agents
        ]

    async def call(self, invocation: ToolInvocation) -> ToolOutput:
        """Run the agent to its end. Raises ToolError when it cannot begin; an end without an answer is an error."""
        agent_id = invocation.native_name.removeprefix(PREFIX)
        text = str(invocation.arguments[INPUT])
        spec = TurnSpec(
            invocation.caller,
            (Message(Role.USER, (Part("", Text(text)),)),),
            agent_id=agent_id,
            parent_run_id=invocation.run_id,
            on_disconnect=OnDisconnect.CANCEL,
        )
        run_id = child_run_id(invocation.run_id, invocation.call_id)
        try:
            run = await self.runs.run_child(spec, run_id, invocation.headers, _teller(agent_id, run_id, invocation))
        except RequestError as error:
            raise ToolError(_failed(agent_id, error.reason, f"could not begin: {error.message}")) from error
        except StoreError as error:
            words = "could not begin: the run could not be stored"
            raise ToolError(_failed(agent_id, Reason.STORE_UNAVAILABLE, words)) from error
        return _output(agent_id, run)

    async def aclose(self) -> None:
        """Nothing to stop: each call ends the run that it made."""


def _teller(agent_id: str, run_id: str, invocation: ToolInvocation) -> Callable[[RunWaiting], None]:
    """Lets whoever follows the run above know that the one below waits, and where to answer."""

    def tell(waiting: RunWaiting) -> None:
        if invocation.on_progress is not None:
            what = "an approval" if waiting.approvals else "a result of its caller"
            invocation.on_progress(0.0, None, f"The agent {agent_id} waits for {what} (run {run_id}).")

    return tell


def _output(agent_id: str, run: Run) -> ToolOutput:
    if run.outcome is None:
        raise ToolError(_failed(agent_id, Reason.TOOL_OUTCOME_UNKNOWN, "ran, but how it ended could not be stored"))
    parts = () if run.message is None else run.message.parts
    shown = tuple(part for part in parts if isinstance(part.content, SHOWN))
    if run.outcome.kind is OutcomeKind.ANSWERED:
        return ToolOutput(shown, run.structured_output_json)
    why = run.outcome.failure
    words = f"ended without an answer ({run.outcome.kind.value})" + ("" if why is None else f": {why.message}")
    failure = _failed(agent_id, Reason.TOOL_FAILED, words, {"child_run_id": run.run_id})
    return ToolOutput((Part("", Text(failure.message)), *shown), is_error=True, failure=failure)


def _failed(agent_id: str, reason: Reason, words: str, metadata: Mapping[str, str] | None = None) -> Failure:
    message = f"The agent {agent_id} {words}"
    return Failure(FailurePhase.TOOL, reason, message, origin=agent_id, metadata=metadata or {})
