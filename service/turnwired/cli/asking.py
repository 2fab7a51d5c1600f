"""Puts the questions of a run to the person at the terminal, or says how to answer them from elsewhere.

It knows domain values and a client; what an answer leads to is the server's. What models say is shown as text only.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from turnwired.cli.render import seen
from turnwired.domain.approval import Approval, ApprovalDecision, ApprovalKind, ApprovalState
from turnwired.domain.event import RunWaiting

if TYPE_CHECKING:
    from turnwired.rpc.client import Client

_WHY = {
    ApprovalKind.RULE: "a rule asks first",
    ApprovalKind.DESTRUCTIVE: "the tool may destroy something",
    ApprovalKind.LOOP_DETECTED: "the model repeats itself",
    ApprovalKind.INPUT: "the tool asks",
}
_WORDS = {
    "y": ApprovalDecision.ONCE,
    "yes": ApprovalDecision.ONCE,
    "a": ApprovalDecision.ALWAYS,
    "always": ApprovalDecision.ALWAYS,
    "n": ApprovalDecision.REJECT,
    "no": ApprovalDecision.REJECT,
}


def decision_of(line: str) -> tuple[ApprovalDecision, str] | None:
    """What a line means: yes, always, or no with whatever follows as the comment. None: nothing."""
    word, _, rest = line.strip().partition(" ")
    decision = _WORDS.get(word.lower())
    if decision is None or (rest and decision is not ApprovalDecision.REJECT):
        return None
    return decision, rest.strip()


def question(approval: Approval) -> Iterator[str]:
    """The question in lines of plain text."""
    call = approval.call
    yield f"{seen(approval.title)}  ({_WHY[approval.kind]})"
    yield f"  {call.tool.routed_name} {seen(call.arguments_json)}"
    if approval.input_schema_json is not None:
        yield f"  it asks for: {seen(approval.input_schema_json)}"
    if approval.always_patterns:
        yield f"  always would allow: {seen(', '.join(approval.always_patterns))}"


def where_to_answer(run_id: str, waiting: RunWaiting, server: str) -> Iterator[str]:
    """What a run waits for, and the commands that answer it, for whoever cannot be asked here."""
    for approval in waiting.approvals:
        yield from question(approval)
        for verb in ("approve", "reject"):
            fill = " --input '{...}'" if verb == "approve" and approval.input_schema_json is not None else ""
            yield f"  turnwire approvals {verb} {run_id} {approval.approval_id}{fill} --server {server}"
    for call in waiting.client_tool_calls:
        yield f"the run waits for the result of {call.tool.routed_name} ({call.call_id}): SubmitToolResults hands it in"


def at_a_terminal() -> bool:
    """Whether a person can be asked here."""
    return sys.stdin.isatty() and sys.stdout.isatty()


class Asker:
    """Asks each question once and sends the answer."""

    def __init__(self, console: Console, client: Client) -> None:
        self._console = console
        self._client = client
        self._asked: set[str] = set()

    async def ask(self, waiting: RunWaiting) -> None:
        """Ask what has not been asked. What somebody else answered first is told, and no error."""
        from turnwired.rpc.client import CallFailed

        for approval in waiting.approvals:
            if approval.approval_id in self._asked or approval.state is not ApprovalState.PENDING:
                continue
            self._asked.add(approval.approval_id)
            decision, comment = await self._decision(approval)
            filled = await self._input(approval) if decision is not ApprovalDecision.REJECT else None
            if approval.kind is ApprovalKind.INPUT and decision is ApprovalDecision.ALWAYS:
                decision = ApprovalDecision.ONCE
            try:
                await self._client.resolve_approval(
                    approval.run_id, approval.approval_id, decision, comment, approval.call_digest, filled
                )
            except CallFailed as error:
                self._console.print(Text(f"not answered: {error}", style="yellow"), soft_wrap=True)

    async def _decision(self, approval: Approval) -> tuple[ApprovalDecision, str]:
        for line in question(approval):
            self._console.print(Text(line, style="bold"), soft_wrap=True)
        while True:
            self._console.print(Text("[y]es, [a]lways, [n]o (with words for the model): "), end="")
            line = await _line()
            if line == "":  # the end of input: nobody is there any more
                return ApprovalDecision.REJECT, ""
            found = decision_of(line)
            if found is not None:
                return found

    async def _input(self, approval: Approval) -> str | None:
        if approval.input_schema_json is None:
            return None
        self._console.print(Text("values, a JSON object on one line: "), end="")
        return (await _line()).strip() or "{}"


async def _line() -> str:
    """A line from standard input, read in a thread that holds up neither the loop nor the end of the process."""
    loop = asyncio.get_running_loop()
    read: asyncio.Future[str] = loop.create_future()

    def tell(line: str) -> None:
        if not read.done():
            read.set_result(line)

    def wait() -> None:
        line = sys.stdin.readline()
        loop.call_soon_threadsafe(tell, line)

    threading.Thread(target=wait, name="answer", daemon=True).start()
    return await read
