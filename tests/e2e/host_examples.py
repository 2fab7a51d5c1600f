"""The example hosts of other languages, built outside the tree and started as a user starts them."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from scripts.toolchains import GO, TYPESCRIPT, Missing, cache, node_modules, program, run

SECONDS = 30.0


def _go(folder: Path) -> Sequence[str]:
    binary = folder / "toolhost"
    run(program("go"), "build", "-o", binary, "./examples/toolhost", cwd=GO)
    return [str(binary)]


def _typescript(folder: Path) -> Sequence[str]:
    """Compiled once for what it is made of: the compiler takes ten seconds and more."""
    left_out = shutil.ignore_patterns("node_modules", "dist")
    package = folder / "client"
    shutil.copytree(TYPESCRIPT, package, ignore=left_out)
    done = cache("toolhost", *(path.read_bytes() for path in sorted(package.rglob("*")) if path.is_file()))
    if not done.exists():
        (package / "node_modules").symlink_to(node_modules())
        run(package / "node_modules" / ".bin" / "tsc", "--project", package)
        with suppress(OSError):  # another process was faster, or the cache is on another disk
            package.rename(done)
    made = done if done.exists() else package
    return [program("node"), str(made / "dist" / "examples" / "toolhost" / "toolhost.js")]


BUILDERS: dict[str, Callable[[Path], Sequence[str]]] = {"go": _go, "typescript": _typescript}


async def built(language: str, folder: Path) -> Sequence[str]:
    """The command that starts the example. Skips the test where the toolchain or its packages are not to be had."""
    try:
        return await asyncio.to_thread(BUILDERS[language], folder)
    except Missing as error:
        if "error TS" in str(error) or ".go:" in str(error):
            raise
        pytest.skip(f"the example in {language} cannot be built here: {error}")


@dataclass
class Example:
    """A host that runs. ``said``: lines of its standard error."""

    process: asyncio.subprocess.Process
    address: str
    killed: bool = False
    said: list[str] = field(default_factory=list)
    more: asyncio.Condition = field(default_factory=asyncio.Condition)

    def kill(self) -> None:
        """End it without a word."""
        self.killed = True
        self.process.kill()

    async def until(self, words: str) -> None:
        """Wait until a line has these words."""
        async with asyncio.timeout(SECONDS), self.more:
            await self.more.wait_for(lambda: any(words in line for line in self.said))

    async def read(self) -> None:
        """Keep what it says."""
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            async with self.more:
                self.said.append(line.decode())
                self.more.notify_all()


@asynccontextmanager
async def started(command: Sequence[str], *arguments: str) -> AsyncIterator[Example]:
    """The host, listening; told to end afterwards, which it has to do by itself."""
    process = await asyncio.create_subprocess_exec(
        *command,
        *arguments,
        env={name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(SECONDS):
            line = (await process.stdout.readline()).decode()
        assert line.startswith("listening on "), line
        example = Example(process, line.removeprefix("listening on ").strip())
        reading = asyncio.create_task(example.read())
        yield example
        if not example.killed:
            process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(SECONDS):
            assert await process.wait() == (-signal.SIGKILL if example.killed else 0)
            await reading
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
