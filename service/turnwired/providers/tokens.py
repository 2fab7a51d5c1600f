"""How many input tokens a request has, where the provider does not count: an estimate that says what it is."""

from __future__ import annotations

from turnwired.domain.usage import BYTES_PER_TOKEN, estimated_tokens
from turnwired.providers.port import ModelRequest, TokenCount


def estimated(request: ModelRequest) -> TokenCount:
    """A rough count from the size of what is sent."""
    size = len(request.system) + len(request.tools) + sum(len(piece) for piece in request.messages)
    return TokenCount(estimated_tokens(size), f"bytes / {BYTES_PER_TOKEN}")
