"""The names of permissions, which rules are about and tools ask for, and how a text is written as a pattern."""

from __future__ import annotations

TOOL = "tool"
"""Permission to call a tool, by its routed name."""
DOOM_LOOP = "doom_loop"
"""Permission to make a call again that goes round in circles, by the routed name of its tool."""

SHELL = "shell"
"""Permission to run one simple command, by its words."""
UNCLEAR = ".unclear"
"""Ends the name of a permission where the tool cannot tell what the call would do, such as a command line that it
cannot take apart. It is asked about unless a rule allows it by exactly this name."""
OPERATOR_FILES = ("read_file", "write_file", "apply_patch", "list_dir", "grep_files", "tail_file")
OPERATOR_INSPECTOR = ("inspector_attach", "evaluate", "set_breakpoint", "set_logpoint", "profile_cpu")

PERMISSIONS = (TOOL, DOOM_LOOP, SHELL, SHELL + UNCLEAR, *OPERATOR_FILES, "http_fetch", *OPERATOR_INSPECTOR)
"""The permissions that anything of ours asks for. A deployment's own tools name theirs with a dot: ``acme.deploy``."""


def is_permission(name: str) -> bool:
    """Whether a tool may ask for a permission of this name, so that rules about it are taken."""
    return name in PERMISSIONS or "." in name.strip(".")


def literal(text: str) -> str:
    """The pattern that matches exactly this text."""
    return text.replace("\\", "\\\\").replace("*", "\\*")
