"""How many input tokens a request has, where the provider does not count: an estimate that says what it is."""

from __future__ import annotations

from turnwired.providers.port import ModelRequest, TokenCount

BYTES_PER_TOKEN = 4


def estimated(request: ModelRequest) -> TokenCount:
    """A rough count from the size of what is sent."""
    size = len(request.system) + len(request.tools) + sum(len(piece) for piece in request.messages)
    return TokenCount(-(-size // BYTES_PER_TOKEN), "bytes / 4")
