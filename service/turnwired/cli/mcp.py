"""``turnwire mcp``: list the MCP servers of a running service, and operate them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from turnwired.cli.render import seen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnwired.domain.mcp import McpServerStatus

ServerIdArgument = Annotated[str, typer.Argument(help="Id of the MCP server; `turnwire mcp list` names them.")]

commands = typer.Typer(name="mcp", help="List and operate the MCP servers of a running service.", no_args_is_help=True)


async def listed(server: str, token: str | None) -> list[McpServerStatus]:
    """The MCP servers of a service. Raises CallFailed."""
    from turnwired.rpc.client import Client

    async with Client(server, token) as client:
        return await client.list_mcp_servers()


async def changed(server: str, token: str | None, change: str, server_id: str) -> McpServerStatus:
    """A server after ``enable``, ``disable`` or ``reconnect``. Raises CallFailed."""
    from turnwired.rpc.client import Client, McpServerChange

    async with Client(server, token) as client:
        return await client.change_mcp_server(McpServerChange(change), server_id)


def server_table(servers: Sequence[McpServerStatus]) -> Table:
    """One row for each server."""
    table = Table(box=None, pad_edge=False)
    for column in ("server", "transport", "endpoint", "state", "tools", "newest failure"):
        table.add_column(column, overflow="fold")
    for item in servers:
        failure = "" if item.last_failure is None else seen(item.last_failure.message)
        marks = "".join(f" ({mark})" for mark, on in (("required", item.required), ("added", item.added)) if on)
        transport = item.transport.value.lower().replace("_", " ")
        state = item.state.value.lower().replace("_", " ")
        cells = (f"{item.server_id}{marks}", transport, seen(item.endpoint), state, str(item.tool_count), failure)
        table.add_row(*map(Text, cells))
    return table


def show(console: Console, servers: Sequence[McpServerStatus]) -> None:
    """The table, or that there is no server."""
    if servers:
        console.print(server_table(servers))
    else:
        console.print("no MCP servers; add them under mcp_servers")
