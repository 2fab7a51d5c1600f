"""Where Python hooks come from: the configuration names objects, installed distributions offer entry points.

A reference that is wrong ends the start; a broken distribution is left out. What hooks are told is ``engine.hooks``.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable
from typing import Final

from turnwired.domain.errors import ConfigError
from turnwired.engine.hooks import Hook
from turnwired.plugins import named, offered, why_not

logger = logging.getLogger(__name__)

ENTRY_POINT_GROUP: Final = "turnwired.hooks"


def hook_of(name: str, found: object) -> Hook:
    """The hook that an object, a class without parameters or a module is. Raises ConfigError for one that hears
    nothing.
    """
    if inspect.isclass(found):
        found = found()
    on_event, on_settle = getattr(found, "on_event", None), getattr(found, "on_settle", None)
    if not (callable(on_event) or callable(on_settle)):
        raise ConfigError(f"hook {name!r} has neither on_event nor on_settle")
    return Hook(name, on_event if callable(on_event) else None, on_settle if callable(on_settle) else None)


def load_hooks(references: Iterable[str]) -> list[Hook]:
    """The hooks that ``module`` or ``module:attribute`` references name. Raises ConfigError."""
    hooks: list[Hook] = []
    for reference in references:
        try:
            hooks.append(hook_of(reference, named(reference)))
        except ConfigError:
            raise
        except Exception as error:  # boundary: importing runs whatever the module holds
            raise ConfigError(f"hook {reference!r} cannot be loaded: {why_not(error)}") from error
    return hooks


def entry_point_hooks() -> list[Hook]:
    """The hooks of installed distributions, by name. A broken one is left out and logged."""
    hooks: list[Hook] = []
    for entry_point in offered(ENTRY_POINT_GROUP):
        try:
            hooks.append(hook_of(entry_point.name, entry_point.load()))
        except Exception as error:  # noqa: BLE001  boundary: a broken distribution fails alone
            logger.warning("hook entry point %r is left out: %s", entry_point.name, type(error).__name__)
    return hooks
