"""Code of others by name: what a configuration refers to, and what installed distributions offer. Knows no kind of it.

Both run whatever a module holds, so that callers are at a boundary: any exception may come.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Sequence
from types import ModuleType


def named(reference: str) -> object:
    """What ``module`` or ``module:attribute`` names; the attribute may be a path with dots."""
    module_name, _, attribute = reference.partition(":")
    found: object = importlib.import_module(module_name)
    for name in filter(None, attribute.split(".")):
        found = getattr(found, name)
    return found


def why_not(error: Exception) -> str:
    """Why something could not be loaded: what is not there by name, and else the type of what its code raised.

    Never the words of an exception, which may hold anything.
    """
    match error:
        case ModuleNotFoundError(name=str(name)):
            return f"there is no module {name!r}, neither installed nor beside the configuration"
        case AttributeError(name=str(name), obj=ModuleType() as module):
            return f"the module {module.__name__!r} has no {name!r}"
        case _:
            return type(error).__name__


def offered(group: str) -> Sequence[importlib.metadata.EntryPoint]:
    """The entry points of a group, not loaded, in one order in every process."""
    return sorted(importlib.metadata.entry_points(group=group), key=lambda point: (point.name, point.value))
