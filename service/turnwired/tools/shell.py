"""What a command line asks permission for: each of its simple commands, or the whole line where that is not clear.

    @tool(asks=asks_to_run("command"))
    async def run_shell(command: str) -> str:
        ...

A line is taken apart at ``;``, ``&``, ``|`` and ends of lines, as POSIX shells do (XCU 2.3, 2.9). Whatever could hide a
command from the rules is *unclear*: expansions, redirections, groups, quoted command words, commands that run others.
It runs nothing, and it knows neither rules nor who is asked. It is no sandbox: a command that is allowed does what it
does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from turnwired.domain.approval import PermissionRequest
from turnwired.domain.permission import SHELL, UNCLEAR, literal
from turnwired.tools.signature import Asks

MOST_COMMANDS: Final = 20
"""A line of more is not shown command by command."""

_ANYWHERE: Final = frozenset("$`\0\r")
_UNQUOTED: Final = frozenset("<>(){}#!")
_SEPARATORS: Final = frozenset(";&|\n")
_IN_COMMAND_WORD: Final = frozenset("=*?[]~\\'\"")
_RESERVED: Final = frozenset(
    (
        *("if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for", "in"),
        *("select", "function"),
    )
)
_RUN_OTHERS: Final = frozenset(
    (
        *(
            ".",
            "alias",
            "builtin",
            "bash",
            "busybox",
            "command",
            "coproc",
            "csh",
            "dash",
            "doas",
            "env",
            "eval",
            "exec",
        ),
        *(
            "exec",
            "fish",
            "find",
            "flock",
            "ionice",
            "ksh",
            "nice",
            "nohup",
            "parallel",
            "setsid",
            "sh",
            "source",
            "ssh",
        ),
        *("stdbuf", "strace", "su", "sudo", "tcsh", "time", "timeout", "trap", "unshare", "watch", "xargs", "zsh"),
    )
)


def asks_to_run(argument: str = "command") -> Asks:
    """For ``@tool(asks=...)``: the parameter of this name is a command line, a string.

    The permissions are ``shell``, with one pattern per simple command, and ``shell.unclear`` with the whole line, which
    no rule for ``shell`` allows and an answer of "always" does not either.
    """

    def asks(arguments: Mapping[str, object]) -> PermissionRequest:
        line = arguments[argument]
        if not isinstance(line, str):
            raise TypeError(f"{argument} is no text")
        commands = simple_commands(line)
        if commands is None:
            return PermissionRequest(SHELL + UNCLEAR, (line,), title="Run a command line that is not clear?")
        title = "Run a command?" if len(commands) == 1 else f"Run {len(commands)} commands?"
        return PermissionRequest(SHELL, commands, tuple(map(literal, commands)), title)

    return asks


def simple_commands(line: str) -> tuple[str, ...] | None:
    """The simple commands of a line, each once, with single spaces between unquoted words; None where it is unclear."""
    pieces = _pieces(line)
    if pieces is None:
        return None
    commands = dict.fromkeys(" ".join(words) for words in pieces if words)
    clear = 0 < len(commands) <= MOST_COMMANDS and all(_is_plain(words[0]) for words in pieces if words)
    return tuple(commands) if clear else None


def _pieces(line: str) -> list[list[str]] | None:
    """The words of each command, quotes and all. None: something is expanded, redirected or left open."""
    pieces: list[list[str]] = [[]]
    word, quote, place = "", "", 0
    while place < len(line):
        char = line[place]
        place += 1
        if char in _ANYWHERE:
            return None
        if quote:
            quote = "" if char == quote else quote
            word += char
            if char == "\\" and quote == '"':
                word, place = word + line[place : place + 1], place + 1
        elif char in _SEPARATORS or char in " \t":
            pieces[-1] += [word] if word else []
            word = ""
            if char in _SEPARATORS:
                pieces.append([])
        elif char in _UNQUOTED or (char == "\\" and line[place : place + 1] in {"", "\n"}):
            return None
        else:
            quote = char if char in "'\"" else ""
            word += char + (line[place : place + 1] if char == "\\" else "")
            place += char == "\\"
    pieces[-1] += [word] if word else []
    return None if quote else pieces


def _is_plain(word: str) -> bool:
    """Whether the first word of a command names what is run, and that alone."""
    name = word.rsplit("/", 1)[-1]
    return not (_IN_COMMAND_WORD & set(word)) and name not in _RESERVED and name not in _RUN_OTHERS
