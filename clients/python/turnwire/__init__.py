"""Python client of Turnwire.

The messages and stubs of the contract are in ``turnwire.v1``. By hand there is only what every caller would write
again: following a run across cut connections (``follow``, ``afollow``), folding its events (``RunView``), answering
what it waits for (``AsyncClient.run``, ``Client.run``) and reading errors (``TurnwireError``).
"""

from turnwire.client import ALWAYS, ONCE, AsyncClient, Client, Decision, reject
from turnwire.errors import TurnwireError, error_of
from turnwire.following import Resume, StreamLost, Update, afollow, follow
from turnwire.view import RunView

__all__ = [
    "ALWAYS",
    "ONCE",
    "AsyncClient",
    "Client",
    "Decision",
    "Resume",
    "RunView",
    "StreamLost",
    "TurnwireError",
    "Update",
    "afollow",
    "error_of",
    "follow",
    "reject",
]
