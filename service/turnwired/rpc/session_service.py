"""SessionService: reads and deletes stored conversations. Translates; the engine does."""

from __future__ import annotations

from turnwire.v1 import message_pb2, session_service_pb2
from turnwired.codec.agent import session_to_pb
from turnwired.codec.message import message_to_pb
from turnwired.engine.service import Engine
from turnwired.rpc import request as read
from turnwired.rpc.auth import calling
from turnwired.rpc.errors import Context
from turnwired.rpc.handlers import Behaviours
from turnwired.rpc.paging import page
from turnwired.store.port import SessionFilter


class SessionService:
    """Behaviours of all its RPCs."""

    def __init__(self, engine: Engine) -> None:
        self._sessions = engine.sessions

    def behaviours(self) -> Behaviours:
        """By method name."""
        return Behaviours(
            unary={
                "GetSession": self.get_session,
                "ListSessions": self.list_sessions,
                "ListMessages": self.list_messages,
                "DeleteSession": self.delete_session,
            },
            streaming={},
        )

    async def get_session(
        self, request: session_service_pb2.GetSessionRequest, context: Context
    ) -> session_service_pb2.GetSessionResponse:
        """One session."""
        read.require_id("session_id", request.session_id)
        response = session_service_pb2.GetSessionResponse()
        session_to_pb(await self._sessions.get(calling(), request.session_id), response.session)
        return response

    async def list_sessions(
        self, request: session_service_pb2.ListSessionsRequest, context: Context
    ) -> session_service_pb2.ListSessionsResponse:
        """Sessions, newest change first."""
        agent_id = request.agent_id if request.HasField("agent_id") else None
        labels = dict(request.labels)
        read.require_labels(labels)
        query = SessionFilter(calling().tenant, agent_id, labels)
        size = read.page_size(request.page_size, 50, 500)
        sessions, token = await self._sessions.list(query, size, request.page_token)
        response = session_service_pb2.ListSessionsResponse(next_page_token=token)
        for session in sessions:
            session_to_pb(session, response.sessions.add())
        return response

    async def list_messages(
        self, request: session_service_pb2.ListMessagesRequest, context: Context
    ) -> session_service_pb2.ListMessagesResponse:
        """Messages of a session, oldest first."""
        read.require_id("session_id", request.session_id)
        size = read.page_size(request.page_size, 50, 500)
        session_id, start = request.session_id, request.page_token
        found, token = await page(
            lambda most: self._sessions.messages(calling(), session_id, most, start),
            size,
            message_to_pb,
            message_pb2.Message,
        )
        return session_service_pb2.ListMessagesResponse(messages=found, next_page_token=token)

    async def delete_session(
        self, request: session_service_pb2.DeleteSessionRequest, context: Context
    ) -> session_service_pb2.DeleteSessionResponse:
        """Delete a session."""
        read.require_id("session_id", request.session_id)
        await self._sessions.delete(calling(), request.session_id, force=request.force)
        return session_service_pb2.DeleteSessionResponse()
