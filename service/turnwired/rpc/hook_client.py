"""Apps that implement HookService, as hooks: the hook port on one side, gRPC on the other.

One call at a time per run, each with a deadline. When to try again is the port's: here a status only becomes "nobody is
there" or "this was not taken". Nothing that an app says is logged, and its token is nowhere but in the calls.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

import grpc

from turnwire.v1 import hook_service_pb2, hook_service_pb2_grpc
from turnwired.codec.event import encode_event
from turnwired.codec.frame import events_of
from turnwired.codec.message import message_to_pb
from turnwired.codec.run import run_to_pb
from turnwired.domain.errors import TurnwireError
from turnwired.domain.hook_kind import HookKind, kind_of
from turnwired.engine.hooks import Hook, HookAbsent, HookBatch, Patience, SettledRun

NAME_PREFIX: Final = "grpc:"
AGAIN_SECONDS: Final = 30.0
SPARE_SECONDS: Final = 5.0
"""How much longer than its deadline a call may take before it is given up all the same."""
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,8192}")

Request = TypeVar("Request", hook_service_pb2.OnEventsRequest, hook_service_pb2.OnSettleRequest)
Response = TypeVar("Response", hook_service_pb2.OnEventsResponse, hook_service_pb2.OnSettleResponse)


class NotTaken(TurnwireError):
    """The app answered with an error, or not within the deadline. The message is the status."""


@dataclass(frozen=True, slots=True)
class HookApp:
    """An app that is told, under the name that the configuration gives it.

    ``kinds`` None: events of every kind; empty: ends only. ``deadline``: seconds. ``tls`` with ``root_certificates``
    (PEM) None: the public ones that gRPC knows. ``token``: gives the bearer token as it is now; raises OSError.
    """

    name: str
    address: str
    kinds: frozenset[HookKind] | None = None
    deadline: float = 10.0
    tls: bool = False
    root_certificates: bytes | None = field(default=None, repr=False)
    token: Callable[[], Awaitable[str]] | None = field(default=None, repr=False)


class HookClient:
    """The connection to one app. It is made when there is something to tell, and made again for ever."""

    def __init__(self, app: HookApp) -> None:
        self._app = app
        options = [
            ("grpc.enable_http_proxy", 0),
            ("grpc.initial_reconnect_backoff_ms", 200),
            ("grpc.min_reconnect_backoff_ms", 200),
            ("grpc.max_reconnect_backoff_ms", 5_000),
        ]
        if app.tls:
            credentials = grpc.ssl_channel_credentials(app.root_certificates)
            self._channel = grpc.aio.secure_channel(app.address, credentials, options=options)
        else:
            self._channel = grpc.aio.insecure_channel(app.address, options=options)
        self._stub: hook_service_pb2_grpc.HookServiceAsyncStub = hook_service_pb2_grpc.HookServiceStub(self._channel)

    def hook(self) -> Hook:
        """The app as a hook."""
        return Hook(
            NAME_PREFIX + self._app.name,
            on_settle=self._on_settle,
            on_events=None if self._app.kinds == frozenset() else self._on_events,
            patience=Patience(call=self._app.deadline + SPARE_SECONDS, again=AGAIN_SECONDS),
        )

    async def aclose(self) -> None:
        """Close the connection."""
        await self._channel.close()

    async def _on_events(self, batch: HookBatch) -> int:
        last = batch.events[-1].sequence
        kinds = self._app.kinds
        told = [event for event in batch.events if kinds is None or kind_of(event.event) in kinds]
        if not told:
            return last
        run = batch.run
        request = hook_service_pb2.OnEventsRequest(
            run_id=run.run_id,
            tenant=batch.tenant,
            session_id=run.session_id,
            agent_id=run.agent_id,
            parent_run_id=run.parent_run_id,
            redelivered=batch.redelivered,
        )
        records = (encode_event(item.sequence, item.time_ns, item.iteration, item.event) for item in told)
        request.events.extend(events_of(b"".join(records)))
        response = await self._call(self._stub.OnEvents, request)
        return response.kept_sequence if response.HasField("kept_sequence") else last

    async def _on_settle(self, settled: SettledRun) -> None:
        run = settled.run
        request = hook_service_pb2.OnSettleRequest(
            delivery_id=settled.record_id,
            tenant=settled.tenant,
            structured_output_json=run.structured_output_json,
            redelivered=settled.redelivered,
        )
        run_to_pb(run, request.run)
        if run.message is not None:
            message_to_pb(run.message, request.message)
        await self._call(self._stub.OnSettle, request)

    async def _call(self, method: grpc.aio.UnaryUnaryMultiCallable[Request, Response], request: Request) -> Response:
        """One call. It waits for the app to be there, within its deadline."""
        metadata = await self._metadata()
        try:
            return await method(request, timeout=self._app.deadline, wait_for_ready=True, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            code = error.code()
        match code:
            case grpc.StatusCode.UNAVAILABLE:
                raise HookAbsent(f"nobody answers at {self._app.address}")
            case grpc.StatusCode.DEADLINE_EXCEEDED if not self._connected():
                raise HookAbsent(f"nobody answers at {self._app.address}")
            case grpc.StatusCode.UNAUTHENTICATED | grpc.StatusCode.PERMISSION_DENIED | grpc.StatusCode.UNIMPLEMENTED:
                raise HookAbsent(f"{self._app.address} refuses every call ({code.name})")  # no run is to blame
            case _:
                raise NotTaken(code.name)

    def _connected(self) -> bool:
        return self._channel.get_state() is grpc.ChannelConnectivity.READY

    async def _metadata(self) -> list[tuple[str, str]]:
        if self._app.token is None:
            return []
        try:
            token = (await self._app.token()).strip()
        except (OSError, UnicodeDecodeError):
            raise HookAbsent("its token cannot be read") from None
        if not _TOKEN.fullmatch(token):
            raise HookAbsent("its token is not one word of visible ASCII characters")
        return [("authorization", f"Bearer {token}")]
