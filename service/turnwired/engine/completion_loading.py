"""Where completion hooks come from: the configuration names functions, installed distributions offer entry points.

Runs code of others once, while the service starts. What the configuration names must be there; a distribution that is
broken fails alone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, cast

from turnwired.domain.completion import CompletionHook
from turnwired.domain.errors import ConfigError
from turnwired.plugins import named, offered, why_not

logger = logging.getLogger(__name__)

COMPLETION_GROUP: Final = "turnwired.completion"


def completion_hooks(configured: Mapping[str, str]) -> dict[str, CompletionHook]:
    """Hooks by name. ``configured``: ``module:attribute`` by name; they win over entry points of the same name.

    Raises ConfigError for a configured hook that cannot be loaded. Its message holds no words of the error.
    """
    hooks = _offered()
    for name, reference in configured.items():
        try:
            hooks[name] = _hook(named(reference))
        except Exception as error:  # boundary: importing runs whatever the module holds
            raise ConfigError(f"completion.hooks.{name}: {reference!r} cannot be loaded: {why_not(error)}") from error
    return hooks


def _offered() -> dict[str, CompletionHook]:
    hooks: dict[str, CompletionHook] = {}
    for point in offered(COMPLETION_GROUP):
        try:
            hooks[point.name] = _hook(point.load())
        except Exception as error:  # noqa: BLE001  boundary: a broken distribution fails alone
            what = f"{point.name!r} ({point.value})"
            logger.warning("completion hook %s is left out: %s", what, type(error).__name__)
    return hooks


def _hook(found: object) -> CompletionHook:
    if not callable(found):
        raise TypeError("a completion hook is a function")
    return cast(CompletionHook, found)
