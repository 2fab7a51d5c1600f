"""Words of the configuration that several sections use: ids that the user chooses, and names of variables."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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
