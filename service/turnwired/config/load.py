"""Reads the configuration: one TOML file, then TURNWIRE_* variables over it, then what is chosen where both are silent.

Everything that is wrong is a ConfigError of one line that names the file or variable and the key. No message repeats a
value that could be a key.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from types import MappingProxyType
from typing import cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from turnwired.config.model import NO_SECRETS, SECRET_KEYS, Config, key_paths
from turnwired.config.words import LOCATED
from turnwired.domain.errors import ConfigError

PROGRAM = "program"
"""What messages and layers of policy name a configuration that is no file."""
CONFIG_VARIABLE = "TURNWIRE_CONFIG"
DEFAULT_FILE = "turnwire.toml"
OPENAI_DEFAULT_MODEL = "gpt-5.4-mini"
LOCAL_DEFAULT_MODEL = "smollm2-135m-instruct"

_PREFIX = "TURNWIRE_"
_NESTED = "__"
_MAX_BYTES = 1024 * 1024
_NOT_KEYS = frozenset({"source"})

_Table = dict[str, object]
_Path = tuple[str, ...]


def load_config(
    path: Path | None,
    environ: Mapping[str, str],
    directory: Path | None = None,
    offered: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Config:
    """The configuration in force.

    ``path`` is the file given on the command line; else TURNWIRE_CONFIG names it; else ``turnwire.toml`` in
    ``directory`` (the working directory) is read if it exists. ``offered``: models of the profiles that come with this
    release, for providers that name none. Raises ConfigError.
    """
    file = _find(path, environ, directory or Path())
    if file is None:
        return _validated({}, ("configuration", "built-in"), environ, offered)
    return _validated(_read(file), (str(file), str(file)), environ, offered)


def read_config(
    data: Mapping[str, object],
    environ: Mapping[str, str],
    offered: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Config:
    """The configuration that a program wrote down itself, in the shape of the file. Raises ConfigError.

    Variables override it and what it leaves out is chosen, as with a file; the data is not altered.
    """
    return _validated(deepcopy(dict(data)), (PROGRAM, PROGRAM), environ, offered)


def _validated(
    data: _Table, names: tuple[str, str], environ: Mapping[str, str], offered: Mapping[str, Sequence[str]]
) -> Config:
    """``names``: what messages call the data, and its source."""
    name, source = names
    if _NOT_KEYS & data.keys():
        raise ConfigError(f"{name}: {min(_NOT_KEYS & data.keys())}: unknown key")
    variables = _apply_environment(data, environ)
    variables |= _fill_defaults(data, environ)
    _fill_models(data, offered, name)
    try:
        return Config.model_validate({**data, "source": source})
    except ValidationError as error:
        raise ConfigError(_line(error.errors(include_url=False), name, variables)) from None


def _find(path: Path | None, environ: Mapping[str, str], directory: Path) -> Path | None:
    if path is not None:
        return path
    if environ.get(CONFIG_VARIABLE):
        return Path(environ[CONFIG_VARIABLE])
    default = directory / DEFAULT_FILE
    return (default if directory != Path() else Path(DEFAULT_FILE)) if default.exists() else None


def _read(file: Path) -> _Table:
    try:
        with file.open("rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {(error.strerror or 'unknown error').lower()}") from None
    if len(content) > _MAX_BYTES:
        raise ConfigError(f"{file}: is larger than 1 MiB; is it the right file?")
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: is not UTF-8 text (byte {error.start})") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{file}: is not TOML: {str(error).splitlines()[0]}") from None


def _apply_environment(data: _Table, environ: Mapping[str, str]) -> dict[_Path, str]:
    """Put TURNWIRE_<SECTION>__<KEY> variables into the data. Returns which variable set which path.

    Variables without ``__`` are none of ours to read: TURNWIRE_CONFIG and those of clients and tests.
    """
    variables: dict[_Path, str] = {}
    for variable in sorted(environ):
        if not variable.startswith(_PREFIX) or _NESTED not in variable:
            continue
        words = variable.removeprefix(_PREFIX).split(_NESTED)
        if not all(words):
            raise ConfigError(f"{variable}: names no setting; write TURNWIRE_<SECTION>__<KEY>")
        table: _Table = data
        path: list[str] = []
        for depth, word in enumerate(words):
            is_name_of_child_variable = words[0].lower() == "mcp_servers" and depth > 2
            path.append(_key(table, word, keep_case=is_name_of_child_variable))
            if depth < len(words) - 1:
                child = table.setdefault(path[-1], {})
                if not isinstance(child, dict):
                    raise ConfigError(f"{variable}: {'.'.join(path)} is a value and has no keys below it")
                table = cast(_Table, child)
        table[path[-1]] = _value(environ[variable], tuple(path))
        variables[tuple(path)] = variable
    return variables


def _key(table: Mapping[str, object], word: str, *, keep_case: bool) -> str:
    """The key that a word of a variable means: one that is there, in any case and with '-' for '_', else a new one."""
    if keep_case:
        return word
    plain = word.lower()
    return next((key for key in table if key.lower().replace("-", "_") == plain), plain)


def _value(text: str, path: _Path) -> object:
    """A variable's value: lists, tables and policy values as in TOML, all else as text that its field reads."""
    is_policy = path[0] in ("policy", "ceiling") or (path[0] == "agents" and "policy" in path[2:])
    # Fields of a profile are read as they are written, where a section reads words such as true for itself.
    is_word = path[0] in ("profiles", "providers") and text.strip() in ("true", "false")
    if not text.lstrip().startswith(("[", "{")) and not is_policy and not is_word:
        return text
    try:
        read = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text  # an address such as [::1]:7443, a word such as unbounded: the field says whether it takes it
    return read["value"] if len(read) == 1 else text


def _fill_defaults(data: _Table, environ: Mapping[str, str]) -> dict[_Path, str]:
    """A provider chosen from the environment and an agent ``default``, where none is configured.

    Returns which variable set which path.
    """
    if not data.get("agents"):
        data["agents"] = {"default": {"description": "Answers with the tools of this deployment."}}
    if data.get("providers"):
        return {}
    if not environ.get("OPENAI_API_KEY") and not environ.get("OPENAI_BASE_URL"):
        data["providers"] = {"local": {"models": [LOCAL_DEFAULT_MODEL]}}
        return {}
    data["providers"] = {
        "openai": {
            # A server of one's own that needs no key: only what the oldest of them understand is sent.
            "profile": "openai" if environ.get("OPENAI_API_KEY") else "openai-compatible",
            "base_url": environ.get("OPENAI_BASE_URL") or None,
            "api_key_env": "OPENAI_API_KEY",
            "models": [environ.get("OPENAI_MODEL") or OPENAI_DEFAULT_MODEL],
        }
    }
    return {("providers", "openai", "base_url"): "OPENAI_BASE_URL"}


def _fill_models(data: _Table, offered: Mapping[str, Sequence[str]], source: str) -> None:
    """The models of its profile for each provider that names none. What has the wrong shape is left for validation."""
    profiles = data.get("profiles")
    providers = data.get("providers")
    for name, provider in cast(_Table, providers).items() if isinstance(providers, dict) else ():
        if isinstance(provider, dict) and "models" not in provider:
            table = cast(_Table, provider)
            rows = cast(_Table, profiles) if isinstance(profiles, dict) else {}
            profile = table.get("profile", name)
            if offered and isinstance(profile, str) and profile not in offered and profile not in rows:
                # Else the agent's lack of a model would be reported, and no model would help.
                known = ", ".join(sorted({*offered, *rows}))
                problem = f"there is no provider profile {profile[:64]!r}; set profile to one of {known}"
                raise ConfigError(f"{source}: providers.{name}: {problem}")
            models = _models_of(profile, rows, offered)
            if models:
                table["models"] = list(models)


def _models_of(profile: object, rows: _Table, offered: Mapping[str, Sequence[str]]) -> Sequence[str]:
    for _ in range(len(rows) + 1):  # profiles that build on each other in a circle are refused elsewhere
        row = rows.get(profile) if isinstance(profile, str) else None
        if not isinstance(row, dict):
            break
        models = cast(_Table, row).get("models")
        if isinstance(models, list):
            return [model for model in cast(list[object], models) if isinstance(model, str)]
        parent = cast(_Table, row).get("extends", profile)
        if parent == profile:
            break
        profile = parent
    return offered.get(profile, ()) if isinstance(profile, str) else ()


def _line(errors: Sequence[ErrorDetails], name: str, variables: Mapping[_Path, str]) -> str:
    """The first error as one line, with the number of others."""
    first = errors[0]
    path = tuple(str(word) for word in first["loc"] if word != "[key]")
    context = first.get("ctx", {})
    description = _sentence(first, path)
    if first["type"] == LOCATED:
        path += tuple(str(context["path"]).split("."))
        description = str(context["description"])
    source = next((variable for at, variable in variables.items() if path[: len(at)] == at), None)
    where = source if source is not None else f"{name}: {'.'.join(path)}"
    others = len(errors) - 1
    more = f" (and {others} more {'error' if others == 1 else 'errors'})" if others else ""
    return " ".join(f"{where}: {description}{more}".split())


def _sentence(error: ErrorDetails, path: _Path) -> str:
    match error["type"]:
        case "extra_forbidden" if path[-1].lower().replace("-", "_") in SECRET_KEYS:
            return NO_SECRETS.replace("api_key_", "token_") if path[0] in ("hooks", "callers") else NO_SECRETS
        case "extra_forbidden":
            return f"unknown key{_suggestion(path)}"
        case "missing":
            return "is required"
        case "value_error":
            return error["msg"].removeprefix("Value error, ")
        case "tuple_type":
            return 'takes a list such as ["a", "b"]'
        case "model_type" | "dict_type" | "mapping_type" | "model_attributes_type":
            return "takes a table"
        case _:
            return error["msg"].replace("Input should be", "must be")


def _suggestion(path: _Path) -> str:
    """The key that was probably meant, among those that the same table takes."""
    siblings = {
        keys[len(path) - 1]
        for keys in key_paths()
        if len(keys) >= len(path) and all(key in ("*", word) for key, word in zip(keys, path[:-1], strict=False))
    }
    close = difflib.get_close_matches(path[-1], siblings - {"*"}, n=1)
    return f"; did you mean {close[0]}?" if close else ""
