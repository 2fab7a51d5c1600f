"""The commands as a person or a script runs them: what they print, where, and their exit status."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from e2e.provider import Hang, Provider, Refuse, Say, answer, calls, provider
from e2e.service import Service, child_environment, config_text, run_cli, service, spawn_cli

from turnwired import __version__
from turnwired.policy.leaves import LEAF

pytestmark = pytest.mark.anyio


@dataclass(frozen=True, slots=True)
class World:
    """A provider, a service, and the arguments that name it."""

    provider: Provider
    service: Service

    @property
    def server(self) -> tuple[str, str]:
        """Arguments for a command that is to use the service."""
        return ("--server", self.service.address)


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """One service for all commands."""
    directory = tmp_path_factory.mktemp("cli")
    more = '[agents.default]\ninstructions = "Be brief."\npolicy.loop.max_steps = 7\n'
    async with provider() as p, service(directory, config_text(p.url, more=more), GATES=p.url) as s:
        yield World(p, s)


@pytest.mark.requirement("CLI-10")
async def test_run_on_a_server_prints_plain_lines_into_a_pipe(world: World, tmp_path: Path) -> None:
    world.provider.script(calls(("add", {"a": 20, "b": 22})), answer("It is ", "42."))
    ended = await run_cli("run", "What is 20 + 22?", *world.server, cwd=tmp_path)
    lines = ended.stdout.splitlines()
    assert (ended.code, ended.stderr) == (0, "")
    assert "scripted/scripted-model, 4 tools" in lines[0]
    assert lines[1].startswith('✓ add({"a": 20, "b": 22})')
    assert lines[2:4] == ["  42", "It is 42."]
    assert lines[4].startswith("ANSWERED  2 model calls, 1 tool calls, 40 tokens in, 10 out, cost unknown")
    assert "\x1b" not in ended.stdout


@pytest.mark.requirement("CLI-11")
async def test_run_reads_the_prompt_from_a_pipe_and_continues_a_session(world: World, tmp_path: Path) -> None:
    world.provider.script(answer("Noted."), answer("Seven."))
    for words in ("My number is 7.", "What is my number?"):
        ended = await run_cli("run", "-", "--session", "s1", *world.server, cwd=tmp_path, stdin=words)
        assert ended.code == 0, ended
    said = [(message["role"], message["content"]) for message in world.provider.requests[1]["messages"]]
    assert said == [
        ("system", "Be brief."),
        ("user", "My number is 7."),
        ("assistant", "Noted."),
        ("user", "What is my number?"),
    ]


@pytest.mark.requirement("OUT-22")
async def test_run_asks_for_the_schema_of_a_file_and_shows_the_value(world: World, tmp_path: Path) -> None:
    world.provider.script(answer('{"n": "x"}'), answer('{"n": 1}'))
    schema = tmp_path / "a number.json"
    schema.write_text('{"type":"object","properties":{"n":{"type":"integer"}}}', encoding="utf-8")
    ended = await run_cli("run", "Hello", "--schema", str(schema), *world.server, cwd=tmp_path)
    assert ended.code == 0, ended
    assert 'structured output  {"n": 1}' in ended.stdout
    assert "notice: The answer does not match the output format: /n: " in ended.stdout
    missing = await run_cli("run", "Hello", "--schema", "nowhere.json", *world.server, cwd=tmp_path)
    assert missing.code == 2
    assert missing.stderr.startswith("turnwire: the schema cannot be read: ")


@pytest.mark.requirement("CLI-12")
async def test_run_that_ends_otherwise_has_exit_status_1_and_says_what_to_do(world: World, tmp_path: Path) -> None:
    world.provider.script(*((Refuse(401, "invalid_api_key"),),) * 2)
    ended = await run_cli("run", "Hello", *world.server, cwd=tmp_path)
    assert ended.code == 1
    assert ended.stdout.splitlines()[-1].startswith("MODEL/PROVIDER_AUTH_FAILED: scripted rejects the credentials: put")
    assert ended.stderr == ""


@pytest.mark.requirement("CLI-13")
async def test_run_without_a_server_starts_a_private_one_and_keeps_the_run(world: World, tmp_path: Path) -> None:
    world.provider.script(answer("Alone."))
    (tmp_path / "turnwire.toml").write_text(config_text(world.provider.url), encoding="utf-8")
    environment = child_environment(SCRIPTED_KEY="k", GATES=world.provider.url, LEDGER="ledger")
    ended = await run_cli("run", "Hello", cwd=tmp_path, environment=environment)
    assert (ended.code, ended.stderr) == (0, "")
    assert "Alone." in ended.stdout
    assert (tmp_path / "runs.db").exists()


@pytest.mark.requirement("CLI-14")
async def test_run_beside_a_server_on_the_same_database_says_to_use_that_server(world: World) -> None:
    directory = world.service.directory
    ended = await run_cli("run", "Hello", cwd=directory, environment=child_environment(GATES="", LEDGER=""))
    assert ended.code == 2
    assert len(ended.stderr.splitlines()) == 1
    assert "in use by another server" in ended.stderr
    assert ended.stderr.strip().endswith("or run the turn on that one with --server")


@pytest.mark.requirement("CLI-15")
@pytest.mark.parametrize("command", [("run", "Hello"), ("tools",), ("policy",)])
async def test_a_server_that_does_not_answer_is_one_clear_line(tmp_path: Path, command: tuple[str, ...]) -> None:
    ended = await run_cli(*command, "--server", "127.0.0.1:9", cwd=tmp_path)
    assert ended.code == 2
    assert ended.stderr == "turnwire: no server answers at 127.0.0.1:9; start one with `turnwire serve`\n"
    assert ended.stdout == ""


@pytest.mark.requirement("CLI-16")
@pytest.mark.parametrize("command", [("run", "Hello"), ("tools",), ("policy",)])
async def test_an_unknown_agent_is_one_clear_line(world: World, tmp_path: Path, command: tuple[str, ...]) -> None:
    ended = await run_cli(*command, "--agent", "nobody", *world.server, cwd=tmp_path)
    assert ended.code == 2
    assert ended.stderr == "turnwire: NOT_FOUND: No agent has the id 'nobody'. Configured agents: default.\n"


@pytest.mark.requirement("CLI-17")
async def test_tools_lists_names_sources_and_first_lines(world: World, tmp_path: Path) -> None:
    ended = await run_cli("tools", *world.server, cwd=tmp_path)
    rows = [" ".join(line.split()) for line in ended.stdout.splitlines()]
    assert (ended.code, ended.stderr) == (0, "")
    assert rows[0] == "tool source what it does"
    assert rows[1:] == [
        "add local Add two numbers.",
        "pass_gate local Wait until the test opens a gate. Writes down that it was executed before it does.",
        "record local Write down that it was executed.",
        "slow local Say it again, 300 ms later.",
    ]


@pytest.mark.requirement("CLI-18")
async def test_policy_shows_each_value_with_the_layer_that_supplied_it(world: World, tmp_path: Path) -> None:
    ended = await run_cli("policy", *world.server, cwd=tmp_path)
    rows = {line.split()[0]: line.split()[1:] for line in ended.stdout.splitlines()}
    assert ended.code == 0
    assert rows["loop.max_steps"][:3] == ["7", "agent", "default@1"]
    assert rows["retry.max_attempts"][1] == "runtime_default"
    assert rows["approval.rules"] == ["(none)", "runtime_default"]
    assert rows.keys() == {"path", *LEAF}


@pytest.mark.requirement("PROFILE-42")
async def test_profiles_lists_rows_and_prints_one_that_a_configuration_takes(tmp_path: Path) -> None:
    (tmp_path / "turnwire.toml").write_text("[providers.groq]\ninputs = []\n", encoding="utf-8")
    environment = child_environment(MISTRAL_API_KEY="sk-1")
    listed = await run_cli("profiles", cwd=tmp_path, environment=environment)
    rows = {line.split()[0]: line for line in listed.stdout.splitlines()}
    assert (listed.code, listed.stderr) == (0, "")
    assert rows["mistral"].split()[1:] == ["openai.chat", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", "yes"]
    assert rows["groq"].split()[1] == "*"
    assert "environment variable GROQ_API_KEY" in rows["groq"]
    assert "sk-1" not in listed.stdout
    printed = await run_cli("profiles", "groq", cwd=tmp_path, environment=environment)
    assert "inputs = []" in printed.stdout.splitlines()
    (tmp_path / "turnwire.toml").write_text(f"{printed.stdout}[providers.groq]\n", encoding="utf-8")
    again = await run_cli("profiles", "groq", cwd=tmp_path, environment=environment)
    assert (again.code, again.stdout) == (0, printed.stdout)
    unknown = await run_cli("profiles", "nobody", cwd=tmp_path, environment=environment)
    assert (unknown.code, unknown.stdout) == (2, "")
    assert unknown.stderr == "turnwire: there is no profile 'nobody'; turnwire profiles lists them\n"


@pytest.mark.requirement("CLI-19")
async def test_tools_and_policy_of_a_configuration_leave_no_database_behind(tmp_path: Path) -> None:
    environment = child_environment(OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    for command in ("tools", "policy"):
        ended = await run_cli(command, cwd=tmp_path, environment=environment)
        assert (ended.code, ended.stderr) == (0, "")
    assert [*os.scandir(tmp_path)] == []


@pytest.mark.requirement("CLI-20")
async def test_version_is_one_line_and_help_names_every_command(tmp_path: Path) -> None:
    assert (await run_cli("version", cwd=tmp_path)).stdout == f"{__version__}\n"
    shown = await run_cli("--help", cwd=tmp_path)
    for command in ("serve", "run", "tools", "policy", "profiles", "version"):
        assert f" {command} " in shown.stdout
    unknown = await run_cli("run", "Hello", "--nosuch", cwd=tmp_path)
    assert unknown.code == 2
    assert "Traceback" not in unknown.stderr


@pytest.mark.requirement("CLI-16")
@pytest.mark.parametrize("command", [("run", "Hello"), ("tools",), ("policy",)])
async def test_an_unknown_agent_of_a_private_server_is_the_same_line(tmp_path: Path, command: tuple[str, ...]) -> None:
    environment = child_environment(OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    ended = await run_cli(*command, "--agent", "nobody", cwd=tmp_path, environment=environment)
    assert ended.code == 2
    assert ended.stderr == "turnwire: NOT_FOUND: No agent has the id 'nobody'. Configured agents: default.\n"


@pytest.mark.requirement("CLI-22")
async def test_an_empty_prompt_is_refused_before_anything_starts(tmp_path: Path) -> None:
    for arguments in (("run", ""), ("run", " \n"), ("run", "-")):
        ended = await run_cli(*arguments, cwd=tmp_path)
        assert (ended.code, ended.stdout, ended.stderr) == (2, "", "turnwire: the prompt is empty\n")


@pytest.mark.requirement("CLI-21")
async def test_ctrl_c_cancels_the_run_also_in_a_session(world: World, tmp_path: Path) -> None:
    world.provider.script((Say("begun "), Hang()), answer("Next."))
    process = await spawn_cli("run", "Wait.", "--session", "s-ctrl-c", *world.server, cwd=tmp_path)
    assert process.stdout is not None
    async with asyncio.timeout(30):
        seen = b""
        while b"begun" not in seen:
            seen += await process.stdout.read(1024)
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    assert process.returncode == 130
    assert b"turnwire: cancelled run run_" in err
    again = await run_cli("run", "Again.", "--session", "s-ctrl-c", *world.server, cwd=tmp_path)
    assert (again.code, "Next." in again.stdout) == (0, True)
