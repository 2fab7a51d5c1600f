"""The model's child process: started once, awaited within bounds, ended whatever happens."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Reason
from turnwired.providers.local.process import ModelServer

SERVICE = Path(__file__).resolve().parents[2] / "service"
WELL_BEHAVED = """
key = sys.stdin.readline()
print("noise", flush=True)
print("listening on http://127.0.0.1:1", flush=True)
sys.stdin.read()
"""
# Stands in for llama.cpp below the real server program.
RUNTIME = """
from types import SimpleNamespace

class CommonParams:
    def __init__(self):
        self.model, self.cpuparams, self.cpuparams_batch = SimpleNamespace(), SimpleNamespace(), SimpleNamespace()

class Server:
    def __init__(self, params):
        self.listening_address = f"http://{params.hostnames[0]}:{int(params.api_keys == ['secret'])}"
"""

Make = Callable[..., ModelServer]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """Make servers whose program is given as text; each start adds its process id to the file `started`."""
    servers: list[ModelServer] = []

    def one(program: str, *, start_seconds: float = 20.0, stop_seconds: float = 5.0) -> ModelServer:
        head = f"import os, signal, sys\nopen({str(tmp_path / 'started')!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
        path = tmp_path / "program.py"
        path.write_text(head + textwrap.dedent(program), encoding="utf-8")
        server = ModelServer(
            [sys.executable, str(path)], origin="local", start_seconds=start_seconds, stop_seconds=stop_seconds
        )
        servers.append(server)
        return server

    yield one
    for server in servers:
        await server.aclose()


def started(tmp_path: Path) -> list[int]:
    return [int(line) for line in (tmp_path / "started").read_text(encoding="utf-8").split()]


@pytest.mark.requirement("LOCAL-3")
async def test_all_who_wait_get_the_one_process_that_was_started(make: Make, tmp_path: Path) -> None:
    server = make(WELL_BEHAVED)
    endpoints = await asyncio.gather(*(server.endpoint() for _ in range(20)))
    assert {endpoint.url for endpoint in endpoints} == {"http://127.0.0.1:1"}
    assert len({endpoint.key for endpoint in endpoints}) == 1
    assert len(started(tmp_path)) == 1


@pytest.mark.requirement("LOCAL-3")
async def test_one_who_gives_up_does_not_stop_the_start_for_the_others(make: Make, tmp_path: Path) -> None:
    server = make(WELL_BEHAVED)
    impatient = asyncio.create_task(server.endpoint())
    patient = asyncio.create_task(server.endpoint())
    await asyncio.wait([impatient], timeout=0)
    impatient.cancel()
    assert (await patient).url == "http://127.0.0.1:1"
    assert impatient.cancelled()
    assert len(started(tmp_path)) == 1


@pytest.mark.requirement("LOCAL-3")
async def test_a_process_that_is_never_ready_is_an_error_in_time_and_is_ended(make: Make, tmp_path: Path) -> None:
    server = make("sys.stdin.read()", start_seconds=2.0)
    with pytest.raises(ProviderError, match="not ready within 2 s") as raised:
        await server.endpoint()
    assert raised.value.failure.reason is Reason.PROVIDER_UNAVAILABLE
    assert not any(psutil.pid_exists(pid) for pid in started(tmp_path))


@pytest.mark.requirement("LOCAL-2")
async def test_a_process_that_fails_is_reported_with_its_last_words(make: Make) -> None:
    server = make("sys.stderr.write('loading\\nno such tensor: output.weight\\n'); sys.exit(3)")
    with pytest.raises(ProviderError, match=r"ended with status 3: no such tensor: output\.weight"):
        await server.endpoint()


@pytest.mark.requirement("LOCAL-2")
async def test_a_program_that_does_not_exist_is_one_sentence() -> None:
    server = ModelServer(["/nonexistent/program"], origin="local")
    with pytest.raises(ProviderError, match=r"could not be started \(No such file or directory\)"):
        await server.endpoint()
    await server.aclose()


@pytest.mark.requirement("LOCAL-5")
async def test_after_a_failed_start_the_next_call_tries_again(make: Make, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    server = make(f"if not os.path.exists({str(flag)!r}): sys.exit(1)\n{WELL_BEHAVED}")
    with pytest.raises(ProviderError):
        await server.endpoint()
    flag.touch()
    assert (await server.endpoint()).url == "http://127.0.0.1:1"


@pytest.mark.requirement("LOCAL-5")
async def test_a_process_that_died_is_replaced_and_has_another_key(make: Make, tmp_path: Path) -> None:
    server = make(WELL_BEHAVED)
    first = await server.endpoint()
    os.kill(started(tmp_path)[0], signal.SIGKILL)
    assert server._starting is not None
    async with asyncio.timeout(20):
        await server._starting.result()._process.wait()
    second = await server.endpoint()
    assert second.key != first.key
    assert len(started(tmp_path)) == 2


@pytest.mark.requirement("LOCAL-4")
async def test_a_process_that_ignores_everything_is_killed_within_bounds(make: Make, tmp_path: Path) -> None:
    program = """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("listening on http://127.0.0.1:1", flush=True)
    while True:
        signal.pause()
    """
    server = make(program, stop_seconds=0.2)
    await server.endpoint()
    async with asyncio.timeout(20):
        await server.aclose()
    assert not any(psutil.pid_exists(pid) for pid in started(tmp_path))
    with pytest.raises(ProviderError, match="was stopped"):
        await server.endpoint()


@pytest.mark.requirement("LOCAL-4")
async def test_closing_during_the_start_ends_the_process_too(make: Make, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    server = make(f"open({str(begun)!r}, 'w').close()\nsys.stdin.read()")
    waiting = asyncio.create_task(server.endpoint())
    async with asyncio.timeout(20):
        await asyncio.to_thread(begun.read_text)
        await server.aclose()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not any(psutil.pid_exists(pid) for pid in started(tmp_path))


@pytest.mark.requirement("LOCAL-4")
async def test_a_flood_on_both_pipes_does_not_block_the_process(make: Make) -> None:
    flood = "for _ in range(200): print('x' * 5000, flush=True); sys.stderr.write('y' * 5000 + '\\n')\n"
    server = make(WELL_BEHAVED.replace("sys.stdin.read()", flood + "print('z', flush=True)\nsys.stdin.read()"))
    await server.endpoint()
    async with asyncio.timeout(20):
        await server.aclose()


@pytest.mark.requirement("LOCAL-4")
def test_the_real_server_program_ends_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "xllamacpp.py").write_text(RUNTIME, encoding="utf-8")
    arguments = ["-m", "turnwired.providers.local.server", "--weights", "x", "--name", "n", "--threads", "1"]
    parent_program = textwrap.dedent(
        f"""
        import subprocess, sys
        command = [sys.executable, *{arguments!r}, "--context-tokens", "8", "--memory-mib", "2048"]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        child.stdin.write("secret\\n")
        child.stdin.flush()
        print(child.pid, child.stdout.readline(), flush=True)
        sys.stdin.read()
        """
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(SERVICE)])}
    with subprocess.Popen(
        [sys.executable, "-c", parent_program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as parent:
        assert parent.stdout is not None
        pid, address = parent.stdout.readline().split(" ", 1)
        child = psutil.Process(int(pid))
        parent.kill()
    assert address.strip() == "listening on http://127.0.0.1:1"
    child.wait(timeout=20)


@pytest.mark.requirement("LOCAL-2")
def test_the_server_program_started_by_hand_says_who_starts_it() -> None:
    command = [sys.executable, "-m", "turnwired.providers.local.server"]
    command += ["--weights", "x", "--name", "n", "--threads", "1", "--context-tokens", "8", "--memory-mib", "2048"]
    result = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        env={**os.environ, "PYTHONPATH": str(SERVICE)},
    )
    assert result.returncode == 1
    assert "started by turnwire" in result.stderr
