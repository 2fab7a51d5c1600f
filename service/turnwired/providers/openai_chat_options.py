"""Where the options of a request stand in the body of chat completions, and which of them a server has no place for.

A profile names a place by ``option_fields``: a path such as ``chat_template_kwargs.top_k``, or empty for none. The mode
of ``thinking`` may be followed by the words for ENABLED, DISABLED and ADAPTIVE, such as
``thinking.type=enabled|disabled|auto``; without words it is true or false. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from turnwired.domain.errors import ConfigError, FieldViolation
from turnwired.domain.model import GenerationOptions, ThinkingMode
from turnwired.providers.profiles import Profile

Path = tuple[str, ...]

THINKING = "thinking"
BUDGET = "thinking.budget_tokens"
_WIRE_NAMES = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "seed": "seed",
    "stop_sequences": "stop",
    THINKING: "",
    BUDGET: "",
}
_PLAIN = ("temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty", "seed")
_WORD_ORDER = (ThinkingMode.ENABLED, ThinkingMode.DISABLED, ThinkingMode.ADAPTIVE)


@dataclass(frozen=True, slots=True)
class OptionPlaces:
    """The place of each option that can be told, and the words for thinking."""

    provider: str
    paths: Mapping[str, Path]
    thinking: Mapping[ThinkingMode, Any]


def option_places(profile: Profile) -> OptionPlaces:
    """The places of a profile. Raises ConfigError naming the option."""
    where = f"providers.{profile.name}.option_fields"
    names = {**_WIRE_NAMES, **profile.option_fields}
    if unknown := sorted(names.keys() - _WIRE_NAMES.keys()):
        raise ConfigError(f"{where}.{unknown[0]}: there is no such option; known are {', '.join(_WIRE_NAMES)}.")
    path, _, words = names[THINKING].partition("=")
    names[THINKING] = path
    paths = {option: tuple(name.split(".")) for option, name in names.items() if name}
    if bad := sorted(option for option, steps in paths.items() if not all(steps) or "=" in names[option]):
        raise ConfigError(f"{where}.{bad[0]}: takes a name of a field, or names joined by dots.")
    spelled = words.split("|") if words else ["true", "false"]
    if len(spelled) > len(_WORD_ORDER):
        raise ConfigError(f"{where}.{THINKING}: takes words for enabled, disabled and adaptive at most.")
    thinking = {mode: _word(word) for mode, word in zip(_WORD_ORDER, spelled, strict=False) if word}
    return OptionPlaces(profile.name, paths, thinking)


def untold(options: GenerationOptions, places: OptionPlaces) -> list[FieldViolation]:
    """The options for which there is no place, as paths below the turn."""
    found: list[FieldViolation] = []

    def refuse(name: str) -> None:
        what = f"Provider {places.provider} has no field for {name}"
        found.append(FieldViolation(f"turn.model.options.{name}", f"{what}: leave it out, or choose another provider."))

    for name in _PLAIN:
        if getattr(options, name) is not None and name not in places.paths:
            refuse(name)
    if options.stop_sequences and "stop_sequences" not in places.paths:
        refuse("stop_sequences")
    thinking = options.thinking
    if thinking.mode is not ThinkingMode.UNSPECIFIED and (
        THINKING not in places.paths or thinking.mode not in places.thinking
    ):
        refuse("thinking.mode")
    if thinking.budget_tokens is not None and BUDGET not in places.paths:
        refuse("thinking.budget_tokens")
    return found


def put_options(body: dict[str, Any], options: GenerationOptions, places: OptionPlaces) -> None:
    """Write the options into the body. Only for options without violations."""
    for name in _PLAIN:
        value = getattr(options, name)
        if value is not None:
            put(body, places.paths[name], value)
    if options.stop_sequences:
        put(body, places.paths["stop_sequences"], list(options.stop_sequences))
    if options.thinking.mode is not ThinkingMode.UNSPECIFIED:
        put(body, places.paths[THINKING], places.thinking[options.thinking.mode])
    if options.thinking.budget_tokens is not None:
        put(body, places.paths[BUDGET], options.thinking.budget_tokens)


def put(body: dict[str, Any], path: Path, value: object) -> None:
    """Set a value below objects that are made where they are missing."""
    for step in path[:-1]:
        below = body.setdefault(step, {})
        if not isinstance(below, dict):
            below = body[step] = {}
        body = below
    body[path[-1]] = value


def _word(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
