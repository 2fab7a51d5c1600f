"""How long a connection may take, and what an operator is told of it. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from turnwired.domain.failure import Failure


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: to connect and list, to be closed, between two signs of life."""

    connect: float
    close: float
    keepalive: float = 60.0


@dataclass(slots=True)
class History:
    """What an operator is told of a server; outlives a connection that is made anew by order."""

    connected_at: datetime | None = None
    connected: int = 0
    last_failure: Failure | None = None
