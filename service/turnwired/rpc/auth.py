"""Who makes an RPC, and what only operators may ask for. The one table of roles is here.

It knows metadata and the contract's names; who a token belongs to is told by ``callers``. Health and reflection are no
services of ours and open to all.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from google.protobuf import message

from turnwire.v1 import mcp_server_service_pb2, tool_host_registry_service_pb2, turn_service_pb2
from turnwired.callers import Callers, bearer
from turnwired.domain.errors import PermissionDenied
from turnwired.domain.run import OPERATOR_ROLE, TOOL_HOST_ROLE, Caller
from turnwired.rpc.errors import Context

Rule = Callable[[Any], bool]
"""Whether a request of an RPC needs the role."""

_calling: ContextVar[Caller | None] = ContextVar("turnwire_caller", default=None)


def _always(_: message.Message) -> bool:
    return True


def _across_sessions(request: turn_service_pb2.ListApprovalsRequest) -> bool:
    return not (request.run_id or request.session_id)


NEEDS_OPERATOR: Final[dict[str, Rule]] = {
    "turnwire.v1.AgentService/PutAgent": _always,
    "turnwire.v1.TurnService/ListApprovals": _across_sessions,
    **{
        f"{service.full_name}/{method.name}": _always
        for service in (
            mcp_server_service_pb2.DESCRIPTOR.services_by_name["McpServerService"],
            tool_host_registry_service_pb2.DESCRIPTOR.services_by_name["ToolHostRegistryService"],
        )
        for method in service.methods
    },
}
"""RPCs for operators, where the configuration has callers; without it nobody is told from anybody else."""


ALSO_FOR: Final = {
    f"turnwire.v1.ToolHostRegistryService/{name}": TOOL_HOST_ROLE
    for name in ("RegisterToolHost", "UnregisterToolHost", "ListToolHosts")
}
"""Roles beside the operator's that may do what the rest may not."""


def calling() -> Caller:
    """The caller of the RPC that this task handles."""
    caller = _calling.get()
    assert caller is not None, "every RPC of ours comes through the gate"
    return caller


class Gate:
    """Lets RPCs in. One for each server."""

    def __init__(self, callers: Callers | None = None) -> None:
        self._callers = callers or Callers()

    def admit(self, context: Context) -> None:
        """Find out who calls, before anything of the request is read. Raises Unauthenticated."""
        callers = self._callers
        metadata = (context.invocation_metadata() or ()) if callers.known else ()
        _calling.set(callers.caller(bearer(metadata)))  # the task is this RPC's alone: nothing to put back

    def check(self, name: str, request: message.Message) -> None:
        """Whether the caller may ask this. Raises PermissionDenied."""
        rule = NEEDS_OPERATOR.get(name)
        if rule is None or not self._callers.configured or OPERATOR_ROLE in calling().roles:
            return
        if rule(request):
            role = ALSO_FOR.get(name, OPERATOR_ROLE)
            if role in calling().roles:
                return
            words = f"{name} needs the role {role!r} here, which the caller does not have."
            raise PermissionDenied(words, {"method": name, "role": role})
