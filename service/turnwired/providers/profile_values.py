"""Values of profile fields from plain data (TOML) and back, by the type of the field. Knows no field by name.

Reading names the path of what is wrong and repeats no value: it may be a key in the wrong place.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from typing import Any, cast, get_args, get_origin, get_type_hints

from turnwired.domain.errors import ConfigError

_INDENT = "  "


_hints: dict[type[Any], Mapping[str, Any]] = {}


def hints_of(kind: type[Any]) -> Mapping[str, Any]:
    """The types of a dataclass's fields, read once: it takes a millisecond."""
    if kind not in _hints:
        _hints[kind] = get_type_hints(kind)
    return _hints[kind]


def read_value(where: str, hint: Any, value: object) -> object:
    """``value`` as the type ``hint`` wants it. Raises ConfigError that begins with ``where``."""
    origin = get_origin(hint)
    if origin in (tuple, frozenset) and isinstance(value, list):
        inner = get_args(hint)[0]
        items = cast(list[object], value)
        read = [read_value(f"{where}[{index}]", inner, item) for index, item in enumerate(items)]
        return tuple(read) if origin is tuple else frozenset(read)
    if origin is Mapping and isinstance(value, Mapping):
        entries = cast(Mapping[str, object], value)
        return {name: read_value(f"{where}.{name}", str, item) for name, item in entries.items()}
    if origin is None and isinstance(hint, type):
        return _plain(where, hint, value)
    raise ConfigError(f"{where}: {takes(hint)}")


def _plain(where: str, hint: type[Any], value: object) -> object:
    if issubclass(hint, StrEnum) and isinstance(value, str):
        member = next((item for item in hint if item.value.lower() == value.lower()), None)
        if member is not None:
            return member
    elif is_dataclass(hint) and isinstance(value, Mapping):
        return _row(where, hint, cast(Mapping[str, object], value))
    elif isinstance(value, str | bool | int) and type(value) is hint and (hint is not int or int(value) > 0):
        return value
    raise ConfigError(f"{where}: {takes(hint)}")


def _row(where: str, kind: type[Any], value: Mapping[str, object]) -> object:
    hints = hints_of(kind)
    for name in value:
        if name not in hints:
            raise ConfigError(f"{where}.{name}: unknown key; takes {', '.join(hints)}")
    required = {item.name for item in fields(kind) if item.default is MISSING and item.default_factory is MISSING}
    if missing := sorted(required - value.keys()):
        raise ConfigError(f"{where}.{missing[0]}: is required")
    read = {name: read_value(f"{where}.{name}", hints[name], item) for name, item in value.items()}
    try:
        return kind(**read)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None


def takes(hint: Any) -> str:
    """What a field of a type takes, as the end of a sentence: ``takes true or false``."""
    return f"takes {_words(hint)}"


def _words(hint: Any) -> str:
    origin = get_origin(hint)
    if origin in (tuple, frozenset):
        inner = get_args(hint)[0]
        if is_dataclass(inner):
            return f"a list of tables with {', '.join(hints_of(cast(type[Any], inner)))}"
        if isinstance(inner, type) and issubclass(inner, StrEnum):
            return f"a list of {_members(inner)}"
        return "a list of texts" if inner is str else "a list of numbers above 0"
    if origin is Mapping:
        return "a table of texts"
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return f"one of {_members(hint)}"
    if hint is bool:
        return "true or false"
    return "a number above 0" if hint is int else "a text"


def _members(enum: type[StrEnum]) -> str:
    return ", ".join(member.value.lower() for member in enum if member.name != "UNSPECIFIED")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` did you mean x?`` for a slip of the pen, else nothing."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def as_toml(value: object) -> str:
    """A field's value as TOML that ``read_value`` reads back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, StrEnum):
        return _text(value.value.lower())
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, frozenset):
        return _list(sorted(cast(frozenset[str], value)))
    if isinstance(value, tuple):
        return _list(cast(tuple[object, ...], value))
    if isinstance(value, Mapping):
        return _table(cast(Mapping[str, object], value))
    assert is_dataclass(value), f"no TOML for {type(value).__name__}"
    shown = {item.name: getattr(value, item.name) for item in fields(value)}
    defaults = {item.name: item.default for item in fields(value)}
    return _table({name: item for name, item in shown.items() if item != defaults[name]})


def _list(items: Iterable[object]) -> str:
    written = [as_toml(item) for item in items]
    if any(text.startswith("{") for text in written):
        return "[\n" + "".join(f"{_INDENT}{text},\n" for text in written) + "]"
    return f"[{', '.join(written)}]"


def _table(entries: Mapping[str, object]) -> str:
    written = [f"{name if _is_bare(name) else _text(name)} = {as_toml(item)}" for name, item in entries.items()]
    return f"{{ {', '.join(written)} }}" if written else "{}"


def _is_bare(name: str) -> bool:
    return name.isascii() and name.replace("_", "").replace("-", "").isalnum()


def _text(text: str) -> str:
    """A basic string: JSON's escapes are TOML's, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
