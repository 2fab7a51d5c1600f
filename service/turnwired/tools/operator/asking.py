"""What each operator tool asks permission for: a permission of its own name, about paths, hosts or processes. Pure.

Arguments that cannot be meant are refused here already, before anybody is asked about them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from turnwired.domain.approval import PermissionRequest
from turnwired.domain.permission import literal
from turnwired.tools.operator.config import FILE_TOOLS, FetchConfig, FilesConfig, OperatorConfig
from turnwired.tools.operator.failures import failed
from turnwired.tools.operator.patching import PatchError, read_patch
from turnwired.tools.operator.paths import place_of
from turnwired.tools.operator.targets import TOOL, target_of

_TITLES: Final = {
    "read_file": "Read a file?",
    "write_file": "Write a file?",
    "list_dir": "List a directory?",
    "grep_files": "Search files?",
    "tail_file": "Read the end of a file?",
    "http_fetch": "Fetch from the network?",
    "inspector_attach": "Attach to the inspector of a process?",
    "evaluate": "Run code in a process?",
    "set_breakpoint": "Hold a process at a breakpoint?",
    "set_logpoint": "Run code in a process wherever a line is reached?",
    "profile_cpu": "Profile a process?",
}


def request_of(config: OperatorConfig, name: str, arguments: Mapping[str, object]) -> PermissionRequest:
    """What a call asks for. Raises ToolError for arguments that name nothing that the configuration has."""
    if name == "apply_patch":
        assert config.files is not None, "a tool is there when its section is"
        patterns = _patched(config.files, arguments)
        files = "a file" if len(patterns) == 1 else f"{len(patterns)} files"
        title = f"Change {files}?"
    elif name in FILE_TOOLS:
        assert config.files is not None, "a tool is there when its section is"
        patterns, title = _places(config.files, name, _text(name, arguments, "path", "")), _TITLES[name]
    elif name == TOOL:
        assert config.fetch is not None, "a tool is there when its section is"
        patterns, title = _host(config.fetch, _text(name, arguments, "url")), _TITLES[name]
    else:
        patterns, title = (_text(name, arguments, "target").lower(),), _TITLES[name]
    return PermissionRequest(name, patterns, tuple(map(literal, patterns)), title)


def _places(config: FilesConfig, name: str, path: str) -> tuple[str, ...]:
    place = place_of(name, path, config.roots)
    return tuple(root.root_name for root in config.roots) if place is None else (place.text,)


def _patched(config: FilesConfig, arguments: Mapping[str, object]) -> tuple[str, ...]:
    name = "apply_patch"
    text = _text(name, arguments, "patch")
    try:
        changes = read_patch(text)
    except PatchError as error:
        raise failed(name, f"{error}; nothing was changed", "bad_patch") from None
    paths = [path for change in changes for path in (change.source, change.target) if path is not None]
    places: Sequence[str] = [each for path in paths for each in _places(config, name, path)]
    return tuple(dict.fromkeys(places))


def _host(config: FetchConfig, url: str) -> tuple[str, ...]:
    return (target_of(url, config).pattern,)


def _text(name: str, arguments: Mapping[str, object], key: str, default: str | None = None) -> str:
    value = arguments.get(key, default)
    if not isinstance(value, str):
        raise failed(name, f"{key} is a text", "not_text")
    return value
