"""What can be known of a cloud sign-in without a network: options, libraries, variables, files, the machine's maker.

Knows no cloud by itself; each of them says what counts as evidence for it.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from turnwired.domain.errors import ConfigError
from turnwired.providers.profiles import Profile

MACHINE = Path("/sys/class/dmi/id")
"""Where Linux tells who made the machine. Clouds write their name into it, also for virtual machines."""
MAX_BYTES = 256


def options_of(profile: Profile, **allowed: tuple[str, ...]) -> Mapping[str, str]:
    """The profile's options for its sign-in.

    ``allowed``: name -> the values it takes; none: any text. Raises ConfigError for others.
    """
    where = f"providers.{profile.name}.sign_in_options"
    for name, value in profile.sign_in_options.items():
        if name not in allowed:
            raise ConfigError(f"{where}.{name[:64]}: the sign-in of {profile.sign_in} takes {', '.join(allowed)}")
        if allowed[name] and value not in allowed[name]:
            raise ConfigError(f"{where}.{name}: takes one of {', '.join(allowed[name])}")
    return profile.sign_in_options


@functools.cache
def installed(module: str) -> bool:
    """Whether a library can be imported. Imports at most the packages around it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def any_set(environ: Mapping[str, str], *groups: tuple[str, ...]) -> bool:
    """Whether all variables of one of the groups are set."""
    return any(all(environ.get(name, "").strip() for name in group) for group in groups)


def any_file(*paths: Path) -> bool:
    """Whether one of the files is there."""
    for path in paths:
        try:
            if path.is_file():
                return True
        except OSError:
            continue
    return False


def home(environ: Mapping[str, str]) -> Path:
    """The user's directory, or one that is not there."""
    found = environ.get("HOME") or environ.get("USERPROFILE")
    return Path(found) if found else Path("/nonexistent")


@functools.cache
def made_by(*words: str, directory: Path | None = None) -> bool:
    """Whether the machine says that one of these made it."""
    told: list[str] = []
    for name in ("sys_vendor", "product_name", "chassis_asset_tag", "board_vendor"):
        try:
            with ((directory or MACHINE) / name).open("rb") as file:
                told.append(file.read(MAX_BYTES).decode("utf-8", "replace").strip())
        except OSError:
            continue
    return any(text.startswith(word) for text in told for word in words)


def quiet(loggers: Iterable[str]) -> None:
    """Silence libraries: some log signed headers and, as warnings, what token servers say. Failures tell enough.

    A level that was set for such a logger by name is raised as well: no secret is logged, also while debugging.
    """
    for name in loggers:
        logger = logging.getLogger(name)
        if logger.level < logging.CRITICAL:
            logger.setLevel(logging.CRITICAL)
