"""TurnService: starts, follows, reads and stops runs. Translates; the engine does."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import cast

import grpc

from turnwire.v1 import policy_pb2, run_pb2, tool_pb2, turn_service_pb2
from turnwired.codec.enums import OUTCOME_KIND, PERMISSION_ACTION, RUN_STATE
from turnwired.codec.frame import Visibility
from turnwired.codec.message import message_to_pb
from turnwired.codec.model import model_to_pb
from turnwired.codec.policy import effective_policy_to_pb
from turnwired.codec.run import run_to_pb
from turnwired.codec.trace import trace_to_pb
from turnwired.codec.values import failure_to_pb, tool_collision_to_pb, tool_to_pb
from turnwired.domain.errors import CodecError, FieldViolation, InvalidRequest
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.permission import TOOL
from turnwired.domain.run import Cursor, OnDisconnect
from turnwired.domain.tool import Tool
from turnwired.engine.live import STREAM_CUT, ends_with_stream
from turnwired.engine.service import Engine
from turnwired.policy.merge import Layer
from turnwired.rpc import request as read
from turnwired.rpc.auth import calling
from turnwired.rpc.errors import Context
from turnwired.rpc.handlers import Behaviours
from turnwired.rpc.interceptor import call_headers, deadline_is_over
from turnwired.rpc.paging import name_before, named_page, page
from turnwired.rpc.waiting import WaitingRpcs, without_payloads
from turnwired.store.port import RunFilter


class TurnService:
    """Behaviours of the RPCs that this release builds."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting = WaitingRpcs(engine.steering)

    def behaviours(self) -> Behaviours:
        """By method name; every other method of the service answers UNIMPLEMENTED."""
        return Behaviours(
            unary={
                "StartTurn": self.start_turn,
                "GetRun": self.get_run,
                "ListRuns": self.list_runs,
                "CancelRun": self.cancel_run,
                "ListApprovals": self._waiting.list_approvals,
                "ResolveApproval": self._waiting.resolve_approval,
                "SubmitToolResults": self._waiting.submit_tool_results,
                "AppendInput": self._waiting.append_input,
                "ResolvePolicy": self.resolve_policy,
                "CountTokens": self.count_tokens,
                "ListTools": self.list_tools,
            },
            streaming={"RunTurn": self.run_turn, "WatchRun": self.watch_run},
        )

    async def run_turn(self, request: turn_service_pb2.RunTurnRequest, context: Context) -> None:
        """Start the run, or attach to the one that the request id names, and follow it."""
        limit = context.time_remaining()
        asked = read.disconnect(request.on_disconnect)
        after = read.cursor(request.after)
        level = read.stream_detail(request.stream_detail)
        closes = read.closes_on_wait(request.on_wait)
        spec = read.turn_spec(request.turn, calling(), asked)
        if ends_with_stream(spec):
            spec = replace(spec, caller_timeout=cast("float | None", limit))  # None without one, whatever the stubs say
        accepted = await self._engine.start_turn(spec, call_headers())
        try:
            await self._follow(accepted.run_id, after, level, context, until_waiting=closes)
            self._engine.stream_closed(accepted.run_id)
        except asyncio.CancelledError:
            if ends_with_stream(spec) and not accepted.existing:
                self._stream_was_cut(accepted.run_id, context, limit)
            raise

    async def _follow(
        self, run_id: str, after: Cursor, level: Visibility, context: Context, *, until_waiting: bool
    ) -> None:
        try:
            await self._engine.follow(calling(), run_id, after, level, context.write, until_waiting=until_waiting)
        except grpc.aio.InternalError as error:
            # A write that finds the call ended says so before gRPC cancels us: it is the same thing.
            raise asyncio.CancelledError from error

    def _stream_was_cut(self, run_id: str, context: Context, limit: float | None) -> None:
        if limit is not None and deadline_is_over(context, limit):
            self._engine.deadline_reached(run_id, limit)
            return
        self._engine.cancel_if_live(run_id, STREAM_CUT)

    async def start_turn(
        self, request: turn_service_pb2.StartTurnRequest, context: Context
    ) -> turn_service_pb2.StartTurnResponse:
        """Start the run and return its ids at once."""
        spec = read.turn_spec(request.turn, calling(), OnDisconnect.CONTINUE)
        accepted = await self._engine.start_turn(spec, call_headers())
        return turn_service_pb2.StartTurnResponse(
            session_id=accepted.session_id,
            run_id=accepted.run_id,
            message_ids=accepted.message_ids,
            existing=accepted.existing,
        )

    async def watch_run(self, request: turn_service_pb2.WatchRunRequest, context: Context) -> None:
        """Follow a run from a cursor, live or from the store."""
        closes = read.closes_on_wait(request.on_wait)
        after = read.cursor(request.after)
        level = read.stream_detail(request.stream_detail)
        await self._follow(request.run_id, after, level, context, until_waiting=closes)

    async def get_run(
        self, request: turn_service_pb2.GetRunRequest, context: Context
    ) -> turn_service_pb2.GetRunResponse:
        """A run with its final message and value."""
        run = await self._engine.get_run(calling(), request.run_id)
        response = turn_service_pb2.GetRunResponse()
        run_to_pb(run, response.run)
        if run.message is not None:
            message_to_pb(run.message, response.message)
        if run.structured_output_json is not None:
            response.structured_output_json = run.structured_output_json
        if request.include_trace:
            trace_to_pb(await self._engine.get_trace(calling(), request.run_id), response.trace)
        return response

    async def list_runs(
        self, request: turn_service_pb2.ListRunsRequest, context: Context
    ) -> turn_service_pb2.ListRunsResponse:
        """Runs, newest first."""
        labels = dict(request.labels)
        read.require_labels(labels)
        try:
            states = tuple(RUN_STATE.from_wire(state, "states") for state in dict.fromkeys(request.states))
            kinds = dict.fromkeys(request.outcome_kinds)  # named twice is named once: a statement has bounded parts
            outcomes = tuple(OUTCOME_KIND.from_wire(kind, "outcome_kinds") for kind in kinds)
        except CodecError as error:
            raise InvalidRequest([FieldViolation(error.path, error.problem)]) from error
        query = RunFilter(
            tenant=calling().tenant,
            session_id=request.session_id if request.HasField("session_id") else None,
            agent_id=request.agent_id if request.HasField("agent_id") else None,
            states=states,
            parent_run_id=request.parent_run_id if request.HasField("parent_run_id") else None,
            labels=labels,
            outcomes=outcomes,
        )
        found, token = await page(
            lambda most: self._engine.list_runs(query, most, request.page_token),
            read.page_size(request.page_size, 50, 500),
            lambda run, out: run_to_pb(without_payloads(run), out),
            run_pb2.Run,
        )
        return turn_service_pb2.ListRunsResponse(runs=found, next_page_token=token)

    async def cancel_run(
        self, request: turn_service_pb2.CancelRunRequest, context: Context
    ) -> turn_service_pb2.CancelRunResponse:
        """Ask a run to stop."""
        comment = f" Comment: {request.comment[:500]}" if request.comment else ""
        failure = Failure(FailurePhase.MODEL, Reason.CANCELLED, f"CancelRun was called.{comment}")
        run = await self._engine.cancel_run(calling(), request.run_id, failure)
        response = turn_service_pb2.CancelRunResponse()
        run_to_pb(run, response.run)
        return response

    async def resolve_policy(
        self, request: turn_service_pb2.ResolvePolicyRequest, context: Context
    ) -> turn_service_pb2.ResolvePolicyResponse:
        """The policy that a run would get, in a session with its standing answers."""
        session = await self._session_layer(request)
        model = read.model(request.model, "model") if request.HasField("model") else None
        layer = read.policy(request.policy if request.HasField("policy") else policy_pb2.Policy(), "policy")
        effective = self._engine.resolve_policy(calling(), request.agent_id, model, layer, session)
        response = turn_service_pb2.ResolvePolicyResponse()
        effective_policy_to_pb(effective, response.effective_policy)
        return response

    async def _session_layer(
        self, request: turn_service_pb2.ResolvePolicyRequest | turn_service_pb2.ListToolsRequest
    ) -> Layer | None:
        if not request.HasField("session_id"):
            return None
        return await self._engine.session_layer(calling(), request.session_id)

    async def count_tokens(
        self, request: turn_service_pb2.CountTokensRequest, context: Context
    ) -> turn_service_pb2.CountTokensResponse:
        """Input tokens of the first model call of a turn."""
        count, limits, model = await self._engine.count_tokens(read.turn_spec(request.turn, calling(), None))
        response = turn_service_pb2.CountTokensResponse(
            input_tokens=count.tokens, exact=count.exact, method=count.method
        )
        if limits.context_tokens is not None:
            response.context_tokens = limits.context_tokens
        model_to_pb(model, response.model)
        return response

    async def list_tools(
        self, request: turn_service_pb2.ListToolsRequest, context: Context
    ) -> turn_service_pb2.ListToolsResponse:
        """The tools that a run would see, by routed name, with what the rules say of each in the session.

        Those behind the last name of the page before.
        """
        before = name_before(request.page_token, "ListTools")
        session = await self._session_layer(request)
        selection = read.tool_selection(request.selection, "selection")
        size = read.page_size(request.page_size, 100, 1000)
        permissions = self._engine.permissions(calling(), request.agent_id, session)
        view = await self._engine.list_tools(calling(), request.agent_id, selection)
        tools = sorted(view.tools, key=lambda tool: tool.ref.routed_name)
        rest = [tool for tool in tools if tool.ref.routed_name > before]

        def write(tool: Tool, listed: tool_pb2.Tool) -> None:
            tool_to_pb(tool, listed)
            ruling = permissions.decide(TOOL, tool.ref.routed_name, tool.annotations)
            listed.permission = PERMISSION_ACTION.to_wire[ruling.action]

        found, token = await named_page(
            rest, size, lambda tool: tool.ref.routed_name, write, tool_pb2.Tool, "ListTools"
        )
        response = turn_service_pb2.ListToolsResponse(tools=found, next_page_token=token)
        if not request.page_token:
            for collision in view.collisions:
                tool_collision_to_pb(collision, response.collisions.add())
            for failure in view.failures:
                failure_to_pb(failure, response.source_failures.add())
        return response
