"""Tools for callers that run no turn, such as clients of the MCP endpoint: listed and called as in a run, one by one.

The deployment's policy rules: what it denies is not called, and what it would ask a person about cannot be asked here.
It knows tools by their port, and no transport. Operator tools and agents are not there: for the former there is no
outside, and a call of the latter is a run. Nor is the tool that finds others: who lists tools sees them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from turnwired.domain.errors import Conflict, NotFound, ToolError, Unavailable
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import Part, Text, ToolResult
from turnwired.domain.policy import PermissionAction, PolicyLayer
from turnwired.domain.run import Caller
from turnwired.domain.tool import Tool, ToolRef, ToolSelection, ToolSource
from turnwired.engine.ids import new_run_id
from turnwired.engine.ports import Wiring
from turnwired.engine.prepared import MAX_RESULT_BYTES
from turnwired.policy.bounds import Bounds, bounds_of
from turnwired.policy.merge import Layer, merge
from turnwired.policy.permissions import ASKING, Permissions, asking_for, permissions_of
from turnwired.tools.port import CheckedCall, ProgressReporter, ToolInvocation, ToolOutput, ToolView

EVERYTHING: Final = ToolSelection()
MOST_LISTED: Final = 64
HIDDEN: Final = frozenset((ToolSource.OPERATOR, ToolSource.AGENT, ToolSource.CLIENT))


@dataclass(frozen=True, slots=True)
class OutsideCall:
    """One call. ``headers`` carry trace propagation; ``on_progress`` is told how far the tool is."""

    name: str
    arguments_json: str
    headers: Mapping[str, str]
    on_progress: ProgressReporter | None = None


class Outside:
    """The tools of a deployment for whoever calls them itself. At most ``most`` calls are under way at a time."""

    def __init__(self, wiring: Wiring, most: int = 100) -> None:
        self._registry = wiring.registry
        self.most = most
        self._under_way = 0
        self._listed: dict[int, tuple[ToolView, tuple[Tool, ...]]] = {}
        self.stopping = False
        config = wiring.config
        policy = merge([Layer(PolicyLayer.DEPLOYMENT, config.deployment_ref, config.deployment_policy)], config.ceiling)
        self._bounds: Bounds = bounds_of(policy)
        self._permissions: Permissions = permissions_of(policy.policy)

    async def tools(self, caller: Caller) -> Sequence[Tool]:
        """What the caller may call, by routed name: the same object for as long as nothing changes.

        Raises Conflict when a required source cannot be used.
        """
        view = await self._view(caller)
        kept = self._listed.get(id(view))
        if kept is None or kept[0] is not view:
            if len(self._listed) >= MOST_LISTED:
                self._listed.clear()
            found = [tool for tool in view.tools if _is_outside(view, tool.ref)]
            kept = self._listed[id(view)] = view, tuple(sorted(found, key=lambda tool: tool.ref.routed_name))
        return kept[1]

    async def call(self, caller: Caller, call: OutsideCall) -> ToolResult:
        """Check a call, rule on it, and make it. What goes wrong with it is a result that says so.

        Raises NotFound for a tool that is not there for this caller, Conflict as ``tools``, and Unavailable.
        """
        if self.stopping:
            raise Unavailable(Reason.SHUTTING_DOWN, "The server is stopping; call again.", 1.0)
        if self._under_way >= self.most:
            words = f"{self._under_way} calls are under way, which is the most this server takes; try again."
            raise Unavailable(Reason.OVERLOADED, words, 1.0)
        self._under_way += 1
        try:
            return await self._made(caller, call)
        finally:
            self._under_way -= 1

    async def _made(self, caller: Caller, call: OutsideCall) -> ToolResult:
        view = await self._view(caller)
        checked = view.check(call.name, call.arguments_json, self._bounds.argument_validation)
        if checked.tool is None or not _is_outside(view, checked.tool):
            words = f"There is no tool {call.name[:64]!r}, or it is not for this caller."
            raise NotFound(Reason.TOOL_NOT_FOUND, words, {"tool": call.name[:64]})
        refused = checked.failure or self._ruled(call.name, checked)
        run_id = new_run_id()  # there is no such run: what a tool sees of a call is unique all the same
        if refused is not None:
            told = ToolOutput((Part("", Text(refused.message)),), is_error=True, failure=refused)
            return view.settle(run_id, told, None)
        assert checked.arguments is not None, "a call without a failure can be made"
        invocation = ToolInvocation(
            run_id=run_id,
            call_id="call_1",
            native_name=checked.tool.native_name,
            arguments=checked.arguments,
            caller=caller,
            timeout=self._bounds.tool_call_timeout,
            headers=call.headers,
            on_progress=call.on_progress,
        )
        most = min(self._bounds.max_result_bytes or MAX_RESULT_BYTES, MAX_RESULT_BYTES)
        return await view.execute(call.name, invocation, most)

    async def _view(self, caller: Caller) -> ToolView:
        try:
            return await self._registry.view(EVERYTHING, caller)
        except ToolError as error:
            raise Conflict(error.failure.reason, error.failure.message) from error

    def _ruled(self, name: str, checked: CheckedCall) -> Failure | None:
        """Why the policy does not let the call run, if it does not."""
        asks_for = checked.asks_for or asking_for(name)
        ruling = self._permissions.decide_call(name, asks_for, checked.annotations)
        if ruling.action is PermissionAction.DENY:
            words = f"Not executed: the policy of this server denies {name}."
            return Failure(FailurePhase.TOOL, Reason.TOOL_DENIED, words, origin=name)
        if ruling.action in ASKING:
            words = (
                f"Not executed: a person has to approve this call of {name}, and nobody can be asked here. Make it in a"
                " run, whose approvals can be answered; or let the operator of this server allow it by a rule."
            )
            return Failure(FailurePhase.TOOL, Reason.TOOL_DENIED, words, origin=name)
        return None


def _is_outside(view: ToolView, ref: ToolRef) -> bool:
    return ref.source not in HIDDEN and ref.routed_name != view.finder
