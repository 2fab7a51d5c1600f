"""A scenario of the conformance set: what its file says, the provider and server that it needs, and what is compared.

A file in ``scenarios`` has ``title``; ``[[answers]]`` of the model, each with ``steps``; ``config`` for the server;
``[link]``; ``[case]``, what a runner is given; ``[expect]``, what it must answer, and ``[after]``, what the server must
know then. ``{language}`` in it is the name of the language, so that one server serves all in turn.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from e2e.provider import Call, Finish, Hang, Provider, Say, Step, Wait

SCENARIOS = Path(__file__).parent / "scenarios"
NAMES = sorted(path.stem for path in SCENARIOS.glob("*.toml"))
Data = dict[str, Any]


def read(name: str, language: str = "") -> Data:
    """A scenario as one language is given it."""
    text = (SCENARIOS / f"{name}.toml").read_text(encoding="utf-8").replace("{language}", language.lower())
    return tomllib.loads(text)


def steps_of(answers: Sequence[Data], p: Provider) -> list[Sequence[Step]]:
    """What the scripted provider plays."""
    return [[_step(step, p) for step in given["steps"]] for given in answers]


def _step(given: Data, p: Provider) -> Step:
    match given:
        case {"say": str(text), **more}:
            return Say(text * int(more.get("times", 1)))
        case {"call": str(name), **more}:
            return Call(name, more.get("arguments", {}), more.get("id", "call_1"), more.get("index", 0))
        case {"finish": str(reason), **more}:
            return Finish(reason, more.get("input_tokens", 20), more.get("output_tokens", 5))
        case {"wait": str(gate)}:
            return Wait(p.gate(gate))
        case {"hang": True}:
            return Hang()
        case _:
            raise AssertionError(f"no step: {given}")


def case_of(scenario: Data, name: str, target: str) -> Data:
    """What the runner is given: a turn with one word of the user, unless the scenario has more to say."""
    case: Data = {"id": name, "target": target, **scenario["case"]}
    if "watch" not in case:
        turn = case.setdefault("run", {}).setdefault("turn", {})
        text = case.pop("prompt", "Hello") * int(case.pop("prompt_times", 1))
        turn.setdefault("input", [{"role": "ROLE_USER", "parts": [{"text": text}]}])
        for tool in turn.get("tools", {}).get("clientTools", []):
            tool.setdefault("inputSchemaJson", '{"type":"object"}')
    for does in case.get("tools", {}).values():
        if "times" in does:
            does["return"] *= does.pop("times")
    return case


def differences(expected: Mapping[str, Any], answer: Mapping[str, Any]) -> list[str]:
    """Where an answer is not what is expected. A table with ``length``, ``matches``, ``has`` or ``lacks`` says how."""
    found: list[str] = []
    for key, wanted in expected.items():
        given = answer.get(key)
        if isinstance(wanted, dict) and wanted.keys() <= {"length", "matches", "has", "lacks"}:
            if not _fits(wanted, given):
                found.append(f"{key}: {wanted} is not so of {json.dumps(given, ensure_ascii=False)[:400]}")
        elif isinstance(wanted, dict) and isinstance(given, dict):
            found += [f"{key}.{each}" for each in differences(wanted, given)]
        elif key == "error" and wanted == "none":
            found += [] if given is None else [f"error: none is expected, not {given}"]
        elif given != wanted:
            found.append(f"{key}: {json.dumps(given, ensure_ascii=False)[:400]} is not {wanted!r}")
    return found


def _fits(wanted: Data, given: Any) -> bool:
    return (
        ("length" not in wanted or len(given or ()) == wanted["length"])
        and ("matches" not in wanted or re.fullmatch(wanted["matches"], str(given)) is not None)
        and all(each in (given or ()) for each in wanted.get("has", ()))
        and not any(each in (given or ()) for each in wanted.get("lacks", ()))
    )


class Runner:
    """A language's program that answers cases."""

    def __init__(self, command: Sequence[str], **environment: str) -> None:
        self._command = command
        self._environment = {**os.environ, **environment}
        self._process: asyncio.subprocess.Process | None = None

    async def ask(self, case: Data, seconds: float) -> Data:
        """One case. Raises AssertionError with what the program said instead of an answer."""
        process = self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
            limit=64 << 20,
        )
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        words = asyncio.create_task(process.stderr.read())
        try:
            async with asyncio.timeout(seconds):
                process.stdin.write(json.dumps(case).encode() + b"\n")
                process.stdin.close()
                line = await process.stdout.readline()
                await process.wait()
        except TimeoutError:
            raise AssertionError(f"no answer within {seconds} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            said = (await words).decode(errors="replace")
        if not line.strip() or process.returncode:
            raise AssertionError(f"no answer, exit status {process.returncode}: {said[-1500:]}")
        answer: Data = json.loads(line)
        return answer
