"""Words of the configuration that several sections use: ids that the user chooses, names of variables, and errors that
say where below a section they are.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

LOCATED = "located"
"""Type of errors whose context holds the rest of the path and the description, for rules that span fields."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def located(path: str, description: str) -> PydanticCustomError:
    """An error at a path below the value that is being validated."""
    return PydanticCustomError(LOCATED, "{path}: {description}", {"path": path, "description": description})


def _check_id(value: str) -> str:
    if not _ID.fullmatch(value):
        raise ValueError("an id is 1 to 64 letters, digits, '_', '.' or '-', beginning with a letter or digit")
    return value


Id = Annotated[str, AfterValidator(_check_id)]


def _check_variable(value: str) -> str:
    if not _VARIABLE.fullmatch(value):
        raise ValueError("takes the name of an environment variable, not the key itself")
    return value


Variable = Annotated[str, AfterValidator(_check_variable)]
