"""What a caller and an operator see when a provider cannot be used, or a deployment cannot start."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from e2e.provider import Drop, Provider, Refuse, Say, answer, calls, provider
from e2e.service import SECONDS, Ended, Followed, Service, child_environment, config_text, prompt, run_cli, service

from turnwire.v1 import outcome_pb2, turn_service_pb2

pytestmark = pytest.mark.anyio

KEY = "sk-e2e-secret-4711"
WORDS = "plum-tart-recipe"
"""Stands in every prompt here, and must stand in no message and no log."""


@dataclass(frozen=True, slots=True)
class World:
    """A service whose providers fail in different ways, and the one that answers as the test says."""

    service: Service
    provider: Provider

    async def fails(self, model: str) -> outcome_pb2.Outcome:
        """Run a turn that must end ERRORED, and return how. Nothing secret may be in any of its events."""
        request = prompt(WORDS)
        request.turn.model.provider, _, request.turn.model.model = model.partition("/")
        run = await self.service.run(request)
        outcome = run.view.outcome
        assert outcome is not None
        assert outcome.kind == outcome_pb2.OUTCOME_KIND_ERRORED, outcome
        text = str(run.view.events)
        assert KEY not in text
        assert "Traceback" not in text
        assert WORDS not in outcome.failure.message
        return outcome


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """One service for all failing providers."""
    directory = tmp_path_factory.mktemp("failures")
    more = f"""
[providers.down]
profile = "openai-compatible"
base_url = "http://127.0.0.1:{free_port()}/v1"
models = ["m"]
[providers.keyless]
profile = "openai"
base_url = "http://127.0.0.1:{free_port()}/v1"
api_key_env = "NOBODY_SET_THIS"
models = ["m"]
[mcp_servers.broken]
command = "no-such-command-anywhere"
[policy]
retry.max_attempts = 2
retry.initial_delay = "10ms"
retry.max_delay = "10ms"
"""
    async with provider() as p, service(directory, config_text(p.url, more=more), GATES=p.url) as s:
        yield World(s, p)
        ended = await s.stop()
        assert ended.code == 0
        assert "Traceback" not in ended.stderr, ended.stderr
        for secret in (KEY, WORDS):
            assert secret not in ended.stderr + ended.stdout


@pytest.mark.requirement("E2E-10")
async def test_a_provider_that_is_down_is_said_to_accept_no_connections(world: World) -> None:
    failure = (await world.fails("down/m")).failure
    assert (failure.phase, failure.reason) == (
        outcome_pb2.FAILURE_PHASE_MODEL,
        outcome_pb2.REASON_PROVIDER_NETWORK,
    )
    assert failure.retryable
    assert "does not accept connections: check that the server runs and the base URL" in failure.message
    assert failure.origin == "down"


@pytest.mark.requirement("E2E-11")
async def test_a_wrong_key_is_read_anew_once_and_then_said_with_the_variable_that_holds_it(world: World) -> None:
    refusal = Refuse(401, "invalid_api_key", f"Incorrect API key provided: {KEY}.")
    world.provider.script((refusal,), (refusal,))
    failure = (await world.fails("scripted/scripted-model")).failure
    assert failure.phase == outcome_pb2.FAILURE_PHASE_MODEL
    assert failure.reason == outcome_pb2.REASON_PROVIDER_AUTH_FAILED
    assert "put a valid key into the environment variable SCRIPTED_KEY" in failure.message
    assert [headers["Authorization"] for headers in world.provider.headers] == [f"Bearer {KEY}"] * 2


@pytest.mark.requirement("E2E-12")
async def test_a_wrong_model_is_named(world: World) -> None:
    world.provider.script((Refuse(404, "model_not_found", "The model `typo` does not exist"),))
    failure = (await world.fails("scripted/typo")).failure
    assert failure.reason == outcome_pb2.REASON_MODEL_NOT_FOUND
    assert 'no model "typo"' in failure.message
    assert "check the model's name and the base URL" in failure.message


@pytest.mark.requirement("E2E-13")
async def test_a_provider_without_its_key_says_where_to_put_one_and_calls_nobody(world: World) -> None:
    failure = (await world.fails("keyless/m")).failure
    assert failure.reason == outcome_pb2.REASON_PROVIDER_NOT_CONFIGURED
    assert "NOBODY_SET_THIS" in failure.message


@pytest.mark.requirement("E2E-14")
async def test_an_answer_that_is_cut_off_ends_the_run_with_what_was_streamed(world: World) -> None:
    world.provider.script((Say("half an "), Drop()), (Say("half an "), Drop()))
    outcome = await world.fails("scripted/scripted-model")
    assert outcome.failure.reason == outcome_pb2.REASON_PROVIDER_NETWORK
    assert "broke in the middle of the answer" in outcome.failure.message


@pytest.mark.requirement("E2E-15")
async def test_a_server_error_is_tried_again_and_the_run_answers(world: World) -> None:
    world.provider.script((Refuse(503, "", "overloaded"),), calls(("add", {"a": 1, "b": 2})), answer("3"))
    run: Followed = await world.service.run(prompt(WORDS))
    assert run.view.outcome is not None
    assert run.view.outcome.kind == outcome_pb2.OUTCOME_KIND_ANSWERED
    assert run.kinds().count("iteration_retry_scheduled") == 1
    assert len(world.provider.requests) == 3


@pytest.mark.requirement("E2E-16")
async def test_an_mcp_server_that_cannot_be_started_is_told_and_harms_no_run(world: World) -> None:
    world.provider.script(answer("Fine."))
    tools = await world.service.turns.ListTools(turn_service_pb2.ListToolsRequest(), timeout=SECONDS)
    assert [failure.origin for failure in tools.source_failures] == ["broken"]
    assert "no-such-command-anywhere" in tools.source_failures[0].message
    run = await world.service.run(prompt(WORDS))
    assert run.view.text == "Fine."
    assert {tool["function"]["name"] for tool in world.provider.requests[0]["tools"]} >= {"add", "record"}


@pytest.mark.requirement("E2E-17")
async def test_without_any_model_the_run_says_how_to_get_one(tmp_path: Path) -> None:
    environment = child_environment(XDG_CACHE_HOME=str(tmp_path / "cache"))
    ended = await run_cli("run", WORDS, cwd=tmp_path, environment=environment)
    assert ended.code == 1, ended
    assert "ERRORED" in ended.stdout
    said = ended.stdout.splitlines()[-1]
    assert said.startswith("MODEL/PROVIDER_NOT_CONFIGURED: ")
    assert "make model" in said
    assert ended.stderr == ""


def one_clear_line(ended: Ended, *words: str) -> None:
    """Exit status 2 and one line on standard error that has these words."""
    assert ended.code == 2, ended
    lines = ended.stderr.strip().splitlines()
    assert len(lines) == 1, ended.stderr
    assert lines[0].startswith("turnwire: ")
    for word in words:
        assert word in lines[0]
    assert ended.stdout == ""


@pytest.mark.requirement("E2E-20")
async def test_a_port_in_use_ends_the_start_with_one_line(world: World, tmp_path: Path) -> None:
    port = world.service.address.rsplit(":", 1)[1]
    environment = child_environment(OPENAI_BASE_URL=world.provider.url)
    ended = await run_cli("serve", "--listen", f"127.0.0.1:{port}", cwd=tmp_path, environment=environment)
    one_clear_line(ended, f"cannot listen on 127.0.0.1:{port}", "address already in use", "--listen")


@pytest.mark.requirement("E2E-21")
async def test_a_second_server_on_the_same_database_names_the_first(world: World, tmp_path: Path) -> None:
    database = Path(world.service.directory) / "runs.db"
    environment = child_environment(OPENAI_BASE_URL=world.provider.url, TURNWIRE_STORE__PATH=str(database))
    ended = await run_cli("serve", "--listen", "127.0.0.1:0", cwd=tmp_path, environment=environment)
    one_clear_line(ended, str(database), "in use by another server", str(world.service.process.pid))


@pytest.mark.requirement("E2E-22")
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: no such file"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"[server", "is not TOML"),
        (b"[server]\nlisen = 'x'\n", "server.lisen: unknown key; did you mean listen?"),
        (b"[policy]\nloop.max_steps = 0\n", "policy.loop.max_steps: 0 is out of range"),
        (b"[providers.a]\nprofile = 'nosuch'\nmodels = ['m']\n", "there is no provider profile 'nosuch'"),
        (b"[providers.groq]\napi_key = 'sk-e2e-secret-4711'\n", "a secret does not belong in the configuration"),
        (b"[mcp_servers.x]\nargs = []\n", "mcp_servers.x.command"),
        (b"[tools]\npython = ['nosuch_module:f']\n", "nosuch_module"),
        (b"[store]\npath = '/proc/nowhere/runs.db'\n", "cannot be opened"),
    ],
)
async def test_a_configuration_that_cannot_be_used_ends_the_start_with_one_line(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    file = tmp_path / "deployment.toml"
    if content is not None:
        file.write_bytes(content)
    environment = child_environment(OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    arguments = ("serve", "--config", str(file), "--listen", "127.0.0.1:0")
    ended = await run_cli(*arguments, cwd=tmp_path, environment=environment)
    one_clear_line(ended, words)
    assert KEY not in ended.stderr
