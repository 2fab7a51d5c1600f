"""Python client of Turnwire.

The messages and stubs of the contract are in ``turnwire.v1``. By hand there is only what every caller would write
again: following a run across cut connections (``follow``, ``afollow``) and folding its events (``RunView``).
"""

from turnwire.following import Resume, StreamLost, Update, afollow, follow
from turnwire.view import RunView

__all__ = ["Resume", "RunView", "StreamLost", "Update", "afollow", "follow"]
