"""The ``turnwire`` command: serve, run a prompt, list tools, show policy and profiles. A mistake is one clear line."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import anyio
import typer
from rich.console import Console

from turnwired import __version__
from turnwired.cli.approvals import (
    DEFAULT_SERVER,
    ApprovalArgument,
    RunArgument,
    answer,
    commands,
    listed,
    show,
)
from turnwired.cli.approvals import ServerOption as AnswerOption
from turnwired.cli.mcp import ServerIdArgument, changed
from turnwired.cli.mcp import commands as mcp_commands
from turnwired.cli.mcp import listed as listed_servers
from turnwired.cli.mcp import show as show_servers
from turnwired.domain.errors import ConfigError, DatabaseInUse, StoreError, TurnwireError

if TYPE_CHECKING:
    from turnwired.app import Service
    from turnwired.domain.approval import ApprovalDecision
    from turnwired.domain.model import OutputFormat
    from turnwired.rpc.client import Client

# The processes that we start exec at once, and what gRPC would say about forking is no news to anybody.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

app = typer.Typer(
    name="turnwire",
    help="Runs agent turns: one gRPC call in, one stream of events out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
# Into a pipe every row is one line, however long: what reads it there wraps or cuts for itself.
console = Console(highlight=False, width=None if sys.stdout.isatty() else 1000)
errors = Console(stderr=True, highlight=False)

T = TypeVar("T")
Target = tuple[str, str | None]
"""A server's address, and the token to show it."""

ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="Configuration file. Default: ./turnwire.toml, if there is one.")
]
ServerOption = Annotated[
    str | None,
    typer.Option("--server", "-s", help="Address of a running server. Default: a private one, for this command only."),
]
TokenOption = Annotated[
    str | None,
    typer.Option("--token-env", help="Variable with the token of a caller, for a server that asks who calls."),
]
AgentOption = Annotated[str, typer.Option("--agent", "-a", help="Agent. Default: the deployment's default agent.")]


LAST_SECONDS = 2.0
"""How long tasks that are left at the end, such as a tool that does not heed its cancellation, may take to end."""


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run on uvloop where it is installed: the same semantics at about half the cost per frame."""
    runner = asyncio.Runner(loop_factory=_loop_factory())
    left: set[asyncio.Task[Any]] = set()
    try:
        return runner.run(_with_an_end(main, left))
    finally:
        if not left:  # otherwise closing would wait for them, and there may be no end to that
            runner.close()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:  # not on every platform
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _with_an_end(main: Coroutine[Any, Any, T], left: set[asyncio.Task[Any]]) -> T:
    """Run the coroutine, then end what it left behind; ``left`` is what does not end."""
    try:
        return await main
    finally:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            left |= (await asyncio.wait(others, timeout=LAST_SECONDS))[1]


def fail(message: object) -> typer.Exit:
    """One line on stderr, exit status 2."""
    errors.print(f"turnwire: {message}", soft_wrap=True, markup=False)
    return typer.Exit(2)


@app.command()
def serve(
    config: ConfigOption = None,
    listen: Annotated[str | None, typer.Option(help="host:port or unix:path, instead of server.listen.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")] = False,
) -> None:
    """Serve until SIGTERM or Ctrl-C; runs in flight then finish within the grace period, or are cancelled."""
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    for noisy in ("asyncio", "alembic", "aiohttp", "grpc", "httpx", "httpx2", "mcp", "sse_starlette", "uvicorn"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    try:
        run_loop(_serve(config, listen))
    except (ConfigError, StoreError) as error:
        raise fail(error) from None


async def _serve(config_path: Path | None, listen: str | None) -> None:
    from turnwired.app import configured, running

    environ = dict(os.environ)
    if listen is not None:
        environ["TURNWIRE_SERVER__LISTEN"] = listen
    config = configured(config_path, environ)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with running(config) as service:
        await _until_discovered(service, stop)
        console.print(f"turnwire {__version__} is listening on {service.address}", soft_wrap=True)
        if service.http is not None and service.http.connect_url:
            console.print(f"browsers and curl find it at {service.http.connect_url}", soft_wrap=True)
        if service.http is not None and service.http.mcp_url:
            console.print(f"MCP clients find its tools at {service.http.mcp_url}", soft_wrap=True)
        collector = asyncio.create_task(_spare_the_collector(service.warm))
        await stop.wait()
        collector.cancel()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
            # A second signal ends the process at once; as KeyboardInterrupt it would unwind every run first.
            signal.signal(number, signal.SIG_DFL)
        console.print("stopping: no new runs, those in flight may finish", soft_wrap=True)
        await service.drain()
    console.print("stopped", soft_wrap=True)


async def _spare_the_collector(warm: asyncio.Event) -> None:
    """Take what was loaded at the start, some hundred thousand objects that stay, out of every garbage collection.

    Runs leave hardly any cycles, so collections may be rarer too. 200 turns at once: the 99th percentile of the
    lateness of a delta fell from 173 to 74 ms.
    """
    await warm.wait()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@app.command()
def run(
    prompt: Annotated[str, typer.Argument(help="What to say to the agent; - reads standard input.")],
    config: ConfigOption = None,
    server: ServerOption = None,
    token_env: TokenOption = None,
    agent: AgentOption = "",
    session: Annotated[str | None, typer.Option(help="Session to continue or to begin.")] = None,
    reasoning: Annotated[bool, typer.Option(help="Show the model's reasoning.")] = False,
    schema: Annotated[
        Path | None, typer.Option(help="JSON Schema in a file: the answer is a JSON value that matches it.")
    ] = None,
) -> None:
    """Run one turn and show it live. Exit status 0 if it was answered, 1 if it ended otherwise."""
    text = sys.stdin.read() if prompt == "-" else prompt
    if not text.strip():
        raise fail("the prompt is empty")
    wanted = _output_format(schema)
    _quiet()
    try:
        answered = run_loop(_run(text, config, _target(server, token_env), agent, session, wanted, reasoning=reasoning))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except DatabaseInUse as error:
        raise fail(f"{error}; or run the turn on that one with --server") from None
    except TurnwireError as error:
        raise fail(error) from None
    raise typer.Exit(0 if answered else 1)


def _output_format(schema: Path | None) -> OutputFormat | None:
    """The format that a schema file asks for, named after the file."""
    from turnwired.domain.model import OutputFormat

    if schema is None:
        return None
    try:
        text = schema.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise fail(f"the schema cannot be read: {error}") from None
    name = "".join(char if char.isascii() and (char.isalnum() or char in "_-") else "_" for char in schema.stem)
    return OutputFormat(text, name[:64])


async def _run(
    text: str,
    config: Path | None,
    target: Target | None,
    agent: str,
    session: str | None,
    wanted: OutputFormat | None,
    *,
    reasoning: bool,
) -> bool:
    from turnwired.cli.asking import Asker, at_a_terminal, where_to_answer
    from turnwired.cli.render import RunView
    from turnwired.domain.event import RunWaiting
    from turnwired.domain.message import Message, Part, Role, Text
    from turnwired.domain.outcome import OutcomeKind
    from turnwired.domain.run import Caller, TurnSpec
    from turnwired.rpc.client import Client, Rewound

    spec = TurnSpec(
        Caller(),
        (Message(Role.USER, (Part("", Text(text)),)),),
        agent_id=agent,
        session_id=session,
        output_format=wanted,
    )
    view = RunView(console, show_reasoning=reasoning)
    async with _server(config, target, stores=True) as (address, token), Client(address, token) as client:
        asker = Asker(console, client) if at_a_terminal() else None
        try:
            async for event in client.run_turn(spec):
                if isinstance(event, Rewound):
                    view.rewound()
                    continue
                view.show(event)
                if isinstance(event, RunWaiting):
                    view.close()
                    if asker is not None:
                        await asker.ask(event)
                    else:
                        for line in where_to_answer(view.run_id, event, address):
                            errors.print(line, soft_wrap=True, markup=False)
        except asyncio.CancelledError:
            view.close()
            if view.run_id and view.outcome is None:
                await _cancel(client, view.run_id)
            raise
        finally:
            view.close()
    return view.outcome is OutcomeKind.ANSWERED


async def _cancel(client: Client, run_id: str) -> None:
    """Ctrl-C ends the run too: one with a session would go on without anybody, and keep its session busy."""
    from turnwired.rpc.client import CallFailed

    with anyio.move_on_after(LAST_SECONDS, shield=True):
        try:
            await client.cancel_run(run_id)
        except CallFailed as error:
            errors.print(f"turnwire: run {run_id} may go on: {error}", soft_wrap=True, markup=False)
        else:
            errors.print(f"turnwire: cancelled run {run_id}", soft_wrap=True, markup=False)


@app.command()
def tools(
    config: ConfigOption = None, server: ServerOption = None, token_env: TokenOption = None, agent: AgentOption = ""
) -> None:
    """List the tools that an agent sees, and what is left out and why."""
    _quiet()
    try:
        run_loop(_tools(config, _target(server, token_env), agent))
    except TurnwireError as error:
        raise fail(error) from None


async def _tools(config: Path | None, target: Target | None, agent: str) -> None:
    from turnwired.cli.render import seen
    from turnwired.cli.tables import tool_table
    from turnwired.rpc.client import Client

    async with _server(config, target, stores=False) as (address, token), Client(address, token) as client:
        listing = await client.list_tools(agent)
    if listing.tools:
        console.print(tool_table(listing.tools))
    else:
        console.print(
            "no tools; add functions under tools.python, MCP servers under mcp_servers, services under grpc_services"
        )
    left_out = [failure.message for failure in listing.failures]
    left_out += [words for collision in listing.collisions for words in collision.sentences()]
    for words in left_out:
        errors.print(f"not available: {seen(words)}", soft_wrap=True, markup=False)


app.add_typer(commands)


@commands.command("list")
def list_approvals(
    server: AnswerOption = DEFAULT_SERVER,
    token_env: TokenOption = None,
    session: Annotated[str | None, typer.Option(help="Only those of this session.")] = None,
    run_id: Annotated[str | None, typer.Option("--run", help="Only those of this run.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Answered ones too.")] = False,
) -> None:
    """List the questions that nobody has answered, oldest first."""
    _quiet()
    try:
        show(console, run_loop(listed(server, _token(token_env), session, run_id, every=every)))
    except TurnwireError as error:
        raise fail(error) from None


@commands.command("approve")
def approve(
    run_id: RunArgument,
    approval: ApprovalArgument,
    server: AnswerOption = DEFAULT_SERVER,
    token_env: TokenOption = None,
    always: Annotated[bool, typer.Option("--always", help="And from now on, in the session of the run.")] = False,
    filled: Annotated[
        str | None, typer.Option("--input", help="What the tool asks for, where it asks: a JSON object.")
    ] = None,
) -> None:
    """Let a call run, or give a tool what it asks for."""
    from turnwired.domain.approval import ApprovalDecision

    decision = ApprovalDecision.ALWAYS if always else ApprovalDecision.ONCE
    _answer(server, token_env, run_id, approval, decision, filled=filled)


@commands.command("reject")
def reject(
    run_id: RunArgument,
    approval: ApprovalArgument,
    server: AnswerOption = DEFAULT_SERVER,
    token_env: TokenOption = None,
    comment: Annotated[str, typer.Option("--comment", help="What the model is told.")] = "",
) -> None:
    """Deny a call. The model is told and may adjust."""
    from turnwired.domain.approval import ApprovalDecision

    _answer(server, token_env, run_id, approval, ApprovalDecision.REJECT, comment=comment)


def _answer(
    server: str,
    token_env: str | None,
    run_id: str,
    approval: str,
    decision: ApprovalDecision,
    *,
    comment: str = "",
    filled: str | None = None,
) -> None:
    _quiet()
    try:
        state = run_loop(answer(server, _token(token_env), run_id, approval, decision, comment, filled))
    except TurnwireError as error:
        raise fail(error) from None
    console.print(f"{decision.value.lower()}: run {run_id} is {state.lower()}", soft_wrap=True)


app.add_typer(mcp_commands)


@mcp_commands.command("list")
def list_mcp_servers(server: AnswerOption = DEFAULT_SERVER, token_env: TokenOption = None) -> None:
    """List the MCP servers, how each is reached and whether it can be used."""
    _quiet()
    try:
        show_servers(console, run_loop(listed_servers(server, _token(token_env))))
    except TurnwireError as error:
        raise fail(error) from None


@mcp_commands.command("enable")
def enable_mcp_server(
    server_id: ServerIdArgument, server: AnswerOption = DEFAULT_SERVER, token_env: TokenOption = None
) -> None:
    """Use a server again, and connect to it."""
    _change_mcp_server(server, token_env, "enable", server_id)


@mcp_commands.command("disable")
def disable_mcp_server(
    server_id: ServerIdArgument, server: AnswerOption = DEFAULT_SERVER, token_env: TokenOption = None
) -> None:
    """Stop using a server, until it is enabled or the service starts again."""
    _change_mcp_server(server, token_env, "disable", server_id)


@mcp_commands.command("reconnect")
def reconnect_mcp_server(
    server_id: ServerIdArgument, server: AnswerOption = DEFAULT_SERVER, token_env: TokenOption = None
) -> None:
    """Drop the connection to a server and what is known of its tools, and connect again."""
    _change_mcp_server(server, token_env, "reconnect", server_id)


def _change_mcp_server(server: str, token_env: str | None, change: str, server_id: str) -> None:
    _quiet()
    try:
        show_servers(console, [run_loop(changed(server, _token(token_env), change, server_id))])
    except TurnwireError as error:
        raise fail(error) from None


@app.command()
def policy(
    config: ConfigOption = None,
    server: ServerOption = None,
    token_env: TokenOption = None,
    agent: AgentOption = "",
    session: Annotated[str | None, typer.Option(help="With what this session has been allowed always.")] = None,
) -> None:
    """Show every policy value in force, with the layer that supplied it."""
    _quiet()
    try:
        run_loop(_policy(config, _target(server, token_env), agent, session))
    except TurnwireError as error:
        raise fail(error) from None


async def _policy(config: Path | None, target: Target | None, agent: str, session: str | None) -> None:
    from turnwired.cli.tables import policy_table
    from turnwired.domain.policy import Policy
    from turnwired.rpc.client import Client

    stores = session is not None
    async with _server(config, target, stores=stores) as (address, token), Client(address, token) as client:
        effective = await client.resolve_policy(agent, Policy(), session)
    console.print(policy_table(effective))


@app.command()
def profiles(
    name: Annotated[str | None, typer.Argument(help="Profile or provider to show whole, as TOML.")] = None,
    config: ConfigOption = None,
) -> None:
    """List the provider profiles (*: configured) and what each lacks, or show one as TOML for a configuration."""
    _quiet()
    from turnwired.app import configured, profile_summaries, profile_text
    from turnwired.cli.tables import profile_table

    try:
        loaded = configured(config, os.environ)
        if name is None:
            console.print(profile_table(profile_summaries(loaded, os.environ)))
            return
        text = profile_text(loaded, name)
    except ConfigError as error:
        raise fail(error) from None
    if text is None:
        raise fail(f"there is no profile {name!r}; turnwire profiles lists them")
    console.print(text, end="", markup=False, soft_wrap=True)


@app.command()
def version() -> None:
    """Print the version."""
    console.print(__version__)


def _quiet() -> None:
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)


def _token(name: str | None) -> str | None:
    if name is not None and not os.environ.get(name, "").strip():
        raise fail(f"--token-env: the environment variable {name} is not set")
    return None if name is None else os.environ[name].strip()


def _target(server: str | None, token_env: str | None) -> Target | None:
    if server is None and token_env is not None:
        raise fail("--token-env counts with --server only: the private server knows who started it")
    return None if server is None else (server, _token(token_env))


@asynccontextmanager
async def _server(config_path: Path | None, target: Target | None, *, stores: bool) -> AsyncIterator[Target]:
    """The given server, or a private one in this process: same code, same wire, a free loopback port.

    ``stores``: the command makes runs to keep; else the private one needs no database. Who started it is its operator.
    """
    if target is not None:
        yield target
        return
    from turnwired.app import configured, running
    from turnwired.config.model import MEMORY

    config = configured(config_path, os.environ)
    changes: dict[str, Any] = {
        "server": config.server.model_copy(update={"listen": "127.0.0.1:0"}),
        "http": config.http.model_copy(update={"listen": None}),
    }
    if not stores:
        changes["store"] = config.store.model_copy(update={"path": MEMORY})
    own = secrets.token_urlsafe(32)
    async with running(config.model_copy(update=changes), own_token=own) as service:
        await service.discovery.wait(_tell_awaited)
        yield service.address, own
        await service.drain()


def _tell_awaited(set_ids: Sequence[str]) -> None:
    errors.print(f"waiting for the tools of {', '.join(set_ids)}", soft_wrap=True)


async def _until_discovered(service: Service, stop: asyncio.Event) -> None:
    """So that the first call after the line that names the address finds the tools; not if it is to stop before."""
    tasks = [asyncio.create_task(service.discovery.wait(_tell_awaited)), asyncio.create_task(stop.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def main() -> None:
    """Entry point of the command."""
    app()


if __name__ == "__main__":
    main()
