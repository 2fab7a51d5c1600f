"""The RPCs of TurnService that are about runs which wait for their callers: translated here, done by the engine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from turnwire.v1 import approval_pb2, turn_service_pb2
from turnwired.codec.approval import approval_to_pb
from turnwired.codec.run import run_to_pb
from turnwired.domain.run import Run
from turnwired.engine.steering import Receipt
from turnwired.rpc import waiting_request as read
from turnwired.rpc.auth import calling
from turnwired.rpc.errors import Context
from turnwired.rpc.paging import page
from turnwired.rpc.request import page_size

if TYPE_CHECKING:
    from turnwired.engine.steering import Steering

_RECEIPTS = {
    Receipt.ACCEPTED: turn_service_pb2.TOOL_RESULT_RECEIPT_STATUS_ACCEPTED,
    Receipt.DUPLICATE: turn_service_pb2.TOOL_RESULT_RECEIPT_STATUS_DUPLICATE,
    Receipt.UNKNOWN_CALL: turn_service_pb2.TOOL_RESULT_RECEIPT_STATUS_UNKNOWN_CALL,
}


class WaitingRpcs:
    """Behaviours for one engine's runs."""

    def __init__(self, steering: Steering) -> None:
        self._steering = steering

    async def list_approvals(
        self, request: turn_service_pb2.ListApprovalsRequest, context: Context
    ) -> turn_service_pb2.ListApprovalsResponse:
        """Questions, oldest first."""
        del context
        query = read.approval_filter(request, calling().tenant)
        size = page_size(request.page_size, 50, 500)
        found, token = await page(
            lambda most: self._steering.list_approvals(query, most, request.page_token),
            size,
            approval_to_pb,
            approval_pb2.Approval,
        )
        return turn_service_pb2.ListApprovalsResponse(approvals=found, next_page_token=token)

    async def resolve_approval(
        self, request: turn_service_pb2.ResolveApprovalRequest, context: Context
    ) -> turn_service_pb2.ResolveApprovalResponse:
        """Answer a question."""
        del context
        answer = read.answer(request)
        run = await self._steering.resolve(calling(), request.run_id, request.approval_id, answer)
        response = turn_service_pb2.ResolveApprovalResponse()
        run_to_pb(run, response.run)
        return response

    async def submit_tool_results(
        self, request: turn_service_pb2.SubmitToolResultsRequest, context: Context
    ) -> turn_service_pb2.SubmitToolResultsResponse:
        """Hand in what calls gave that the caller executed."""
        del context
        taken = await self._steering.submit(calling(), request.run_id, read.results(request))
        response = turn_service_pb2.SubmitToolResultsResponse(pending_call_ids=taken.pending_call_ids)
        for call_id, receipt in taken.receipts:
            response.receipts.add(call_id=call_id, status=_RECEIPTS[receipt])
        run_to_pb(taken.run, response.run)
        return response

    async def append_input(
        self, request: turn_service_pb2.AppendInputRequest, context: Context
    ) -> turn_service_pb2.AppendInputResponse:
        """Add the user's words to a run in progress."""
        del context
        messages, files = read.appended(request)
        ids, run = await self._steering.append_input(calling(), request.run_id, request.request_id, messages, files)
        response = turn_service_pb2.AppendInputResponse(message_ids=ids)
        run_to_pb(run, response.run)
        return response


def without_payloads(run: Run) -> Run:
    """The run as it is listed: what it waits for is named, without what the calls are to do."""
    if run.waiting is None:
        return run
    approvals = tuple(
        replace(item, call=replace(item.call, arguments_json=""), title=item.title) for item in run.waiting.approvals
    )
    calls = tuple(replace(call, arguments_json="") for call in run.waiting.client_tool_calls)
    return replace(run, waiting=replace(run.waiting, approvals=approvals, client_tool_calls=calls))
