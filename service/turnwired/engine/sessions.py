"""Sessions as callers read and delete them: what the store keeps, with the runs of this process as they stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import anyio

from turnwired.codec.message import decode_message
from turnwired.codec.run import decode_run
from turnwired.domain.errors import Conflict, NotFound
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import Message, Text
from turnwired.domain.run import Caller, Run, RunState
from turnwired.domain.session import Session
from turnwired.domain.usage import Usage, sum_cost, sum_usage
from turnwired.store.port import SessionFilter, Store, StoredRun, StoredSession

TITLE_CHARACTERS: Final = 80
FORCE_SECONDS: Final = 15.0
"""How long deleting a session waits for the end of the run that it has cancelled."""
_YIELD_EVERY: Final = 100

DELETED: Final = Failure(
    FailurePhase.SETTLEMENT, Reason.CANCELLED, "The session of the run is being deleted (DeleteSession with force)."
)


class Runs(Protocol):
    """What this module needs of the engine."""

    def as_it_stands(self, stored: StoredRun) -> Run:
        """The run, from this process where it executes it."""
        ...

    async def cancel_run(self, caller: Caller, run_id: str, failure: Failure) -> Run:
        """Ask a run to stop."""
        ...

    async def until_ended(self, run_id: str) -> None:
        """Return when this process does not execute the run any more."""
        ...


class Sessions:
    """Reads and deletes sessions of a store."""

    def __init__(self, store: Store, runs: Runs) -> None:
        self._store = store
        self._runs = runs

    async def get(self, caller: Caller, session_id: str) -> Session:
        """One session. Raises NotFound."""
        stored = await self._store.get_session(caller.tenant, session_id)
        if stored is None:
            raise _not_found(session_id)
        return await self._read(stored)

    async def list(self, query: SessionFilter, page_size: int, page_token: str) -> tuple[Sequence[Session], str]:
        """Newest change first, and the token of the next page. Raises InvalidRequest on a bad token."""
        stored, token = await self._store.list_sessions(query, page_size, page_token)
        return [await self._read(item) for item in stored], token

    async def messages(
        self, caller: Caller, session_id: str, page_size: int, page_token: str
    ) -> tuple[Sequence[Message], str]:
        """Oldest first, and the token of the next page. Raises NotFound, and InvalidRequest on a bad token."""
        stored, token = await self._store.list_messages(caller.tenant, session_id, page_size, page_token)
        if not stored and not await self._store.session_exists(caller.tenant, session_id):
            raise _not_found(session_id)
        return [decode_message(item.body) for item in stored], token

    async def delete(self, caller: Caller, session_id: str, *, force: bool) -> None:
        """Delete a session with its messages and runs. What is not there is deleted.

        ``force`` cancels the active run first and waits for its end. Raises Conflict SESSION_BUSY while one is active.
        """
        try:
            await self._store.delete_session(caller.tenant, session_id)
            return
        except Conflict as busy:
            if not force:
                raise
            run_id = busy.metadata["active_run_id"]
        await self._runs.cancel_run(caller, run_id, DELETED)
        with anyio.move_on_after(FORCE_SECONDS):
            await self._runs.until_ended(run_id)
        await self._store.delete_session(caller.tenant, session_id)

    async def _read(self, stored: StoredSession) -> Session:
        newest = stored.newest
        active = self._runs.as_it_stands(newest) if newest is not None else None
        if active is not None and active.state is RunState.SETTLED:
            active = None
        runs: list[Run] = [] if active is None else [active]
        for number, summary in enumerate(stored.summaries, 1):
            runs.append(decode_run(summary))
            if number % _YIELD_EVERY == 0:
                await anyio.lowlevel.checkpoint()  # a long session holds up nobody
        return Session(
            session_id=stored.session_id,
            agent_id=newest.agent_id if newest is not None else "",
            title=_title(stored.first_message),
            create_time_ns=stored.create_time_ns,
            update_time_ns=stored.update_time_ns,
            active_run=active,
            usage=sum_usage(run.usage for run in runs),
            cost=sum_cost(run.cost for run in runs if run.usage != Usage()),
            message_count=stored.message_count,
            labels=stored.labels,
        )


def _title(body: bytes) -> str:
    if not body:
        return ""
    parts = decode_message(body).parts
    text = " ".join(" ".join(part.content.text for part in parts if isinstance(part.content, Text)).split())
    return text if len(text) <= TITLE_CHARACTERS else f"{text[: TITLE_CHARACTERS - 1]}…"


def _not_found(session_id: str) -> NotFound:
    words = f"No session has the id {session_id!r}."
    return NotFound(Reason.SESSION_NOT_FOUND, words, {"session_id": session_id})
