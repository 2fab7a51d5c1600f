"""What the pages of the documents show of a server, beside the code that they run in process."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "PAGE-1": "A caller executes tools of its own, adds words and answers questions over gRPC, as its page shows.",
    "PAGE-2": "A question is listed and answered from another terminal, as its page shows.",
    "PAGE-3": "An operator puts agents, reads conversations and what each turn cost, as its page shows.",
}
