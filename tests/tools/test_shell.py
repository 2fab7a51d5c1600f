"""Command lines as permissions: what is clear, what is not, and that a real shell runs nothing besides."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnwired.domain.permission import is_permission
from turnwired.tools.shell import MOST_COMMANDS, asks_to_run, simple_commands


@pytest.mark.requirement("APPROVE-64")
@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("ls", ("ls",)),
        ("  git \t status  ", ("git status",)),
        ("git status && rm -rf ./tmp", ("git status", "rm -rf ./tmp")),
        ("a;b|c||d&e\nf", ("a", "b", "c", "d", "e", "f")),
        ("a; a; a;", ("a",)),
        ("grep -n 'a  ; b' f", ("grep -n 'a  ; b' f",)),
        ('grep -n "on.*" f.txt', ('grep -n "on.*" f.txt',)),
        ('echo "a\\" ; rm x"', ('echo "a\\" ; rm x"',)),
        ("echo a\\;b", ("echo a\\;b",)),
        ("/bin/ls *.py", ("/bin/ls *.py",)),
        ('python3 -c "print(2)"', ('python3 -c "print(2)"',)),
    ],
)
def test_a_line_is_its_simple_commands(line: str, commands: tuple[str, ...]) -> None:
    assert simple_commands(line) == commands


@pytest.mark.requirement("APPROVE-64")
@pytest.mark.parametrize(
    "line",
    [
        *("", " ; ", "echo $(rm x)", "echo `rm x`", 'echo "$(rm x)"', "echo $HOME", "a > f", "a < f", "a 2>&1"),
        *(
            "(rm x)",
            "{ rm x; }",
            "X=1 rm x",
            "r'm' x",
            '"rm" x',
            "\\rm x",
            "/bin/r? x",
            "! rm x",
            "if rm x",
            "sudo rm x",
        ),
        *(
            "sudo rm x",
            "/usr/bin/env rm x",
            "xargs rm",
            "sh -c 'rm x'",
            "eval rm x",
            ". ./f",
            "find . -exec rm x",
            "ls # rm x",
        ),
        *("echo 'open", 'echo "open', "ls \\\nrm", "ls \\", "rm\0x", "ls\rrm x"),
        "; ".join(f"a{index}" for index in range(MOST_COMMANDS + 1)),
    ],
)
def test_what_could_hide_a_command_is_unclear(line: str) -> None:
    assert simple_commands(line) is None
    request = asks_to_run()({"command": line})
    assert request is not None
    assert (request.permission, request.patterns, request.always_patterns) == ("shell.unclear", (line,), ())


@pytest.mark.requirement("APPROVE-64")
def test_the_patterns_of_always_are_the_commands_as_they_are() -> None:
    request = asks_to_run("cmd")({"cmd": "grep -n 'on.*' f | wc"})
    assert request is not None
    assert request.permission == "shell"
    assert request.always_patterns == (r"grep -n 'on.\*' f", "wc")
    assert request.title == "Run 2 commands?"
    assert all(is_permission(name) for name in ("shell", "shell.unclear", "acme.deploy"))
    assert not any(is_permission(name) for name in ("shel", "run_shell", ".", ""))
    with pytest.raises(TypeError):
        asks_to_run()({"command": 1})


PIECES = (
    *("rm", "ls", " ", " ", " x", "*", "?", "=", "\n", "\t", "'", '"', "\\", ";", "&", "&&", "|", "||", "!", "#"),
    *(
        "$(",
        ")",
        "`",
        "{",
        "}",
        "(",
        "~",
        "if ",
        "then ",
        "fi",
        "do ",
        "done",
        "while ",
        "eval ",
        "exec ",
        "env ",
        "[",
        "]",
    ),
)


@pytest.fixture(scope="module")
def recorders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with programs that say that they were run."""
    folder = tmp_path_factory.mktemp("bin")
    for name in ("rm", "ls", "env"):
        program = folder / name
        program.write_text(
            f'#!/bin/sh\nexec >>"$RECORD"\necho {name}\nexec "$@" 2>/dev/null\n'
            if name == "env"
            else f'#!/bin/sh\necho {name} >>"$RECORD"\n'
        )
        program.chmod(0o755)
    return folder


@pytest.mark.requirement("APPROVE-65")
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(st.sampled_from(PIECES), min_size=1, max_size=12))
def test_a_shell_runs_no_program_that_the_commands_do_not_name(
    recorders: Path, tmp_path: Path, pieces: list[str]
) -> None:
    line = "".join(pieces)
    commands = simple_commands(line)
    if commands is None:
        return
    record = tmp_path / "record"
    record.write_text("")
    environment = {"PATH": str(recorders), "RECORD": str(record)}
    run = ["/bin/sh", "-c", line]
    nothing = subprocess.DEVNULL
    subprocess.run(
        run, env=environment, cwd=recorders, timeout=10, check=False, stdin=nothing, stdout=nothing, stderr=nothing
    )
    named = {command.split(" ", 1)[0] for command in commands}
    assert set(record.read_text().split()) <= named


@pytest.mark.requirement("APPROVE-65")
def test_the_programs_of_that_test_do_record(recorders: Path, tmp_path: Path) -> None:
    record = tmp_path / "record"
    environment = {"PATH": str(recorders), "RECORD": str(record)}
    subprocess.run(["/bin/sh", "-c", "ls; env rm x"], env=environment, timeout=10, check=True)
    assert record.read_text().split() == ["ls", "env", "rm"]
