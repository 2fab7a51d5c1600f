"""``turnwire approvals``: list the questions of runs that wait on a server, and answer them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from turnwired.cli.render import seen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnwired.domain.approval import Approval, ApprovalDecision

DEFAULT_SERVER = "127.0.0.1:7443"
ServerOption = Annotated[str, typer.Option("--server", "-s", help="Address of the server.")]
RunArgument = Annotated[str, typer.Argument(help="Run that asks.")]
ApprovalArgument = Annotated[str, typer.Argument(help="Question to answer; `turnwire approvals list` names them.")]

commands = typer.Typer(name="approvals", help="List and answer the questions of runs that wait.", no_args_is_help=True)


async def listed(
    server: str, token: str | None, session: str | None, run: str | None, *, every: bool
) -> list[Approval]:
    """The questions that a server lists; raises CallFailed."""
    from turnwired.rpc.client import Client

    async with Client(server, token) as client:
        return await client.list_approvals(session_id=session, run_id=run, every=every)


async def answer(
    server: str,
    token: str | None,
    run: str,
    approval: str,
    decision: ApprovalDecision,
    comment: str,
    filled: str | None = None,
) -> str:
    """Answer a question; the state of the run after it. Raises CallFailed."""
    from turnwired.rpc.client import Client

    async with Client(server, token) as client:
        return await client.resolve_approval(run, approval, decision, comment, input_json=filled)


def approval_table(approvals: Sequence[Approval]) -> Table:
    """One row for each question."""
    table = Table(box=None, pad_edge=False)
    for column in ("run", "approval", "state", "tool", "arguments"):
        table.add_column(column, overflow="fold")
    for item in approvals:
        decided = "" if item.decision is None else f" {item.decision.value.lower()} by {item.resolved_by}"
        cells = (
            item.run_id,
            item.approval_id,
            f"{item.state.value.lower()}{decided}",
            item.call.tool.routed_name,
            seen(item.call.arguments_json),
        )
        table.add_row(*map(Text, cells))
    return table


def show(console: Console, approvals: Sequence[Approval]) -> None:
    """The table, or that there is nothing to answer."""
    if approvals:
        console.print(approval_table(approvals))
    else:
        console.print("no questions")
