"""What the pages of the documents show of a server, beside the code that they run in process."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "PAGE-1": "A caller executes tools of its own, adds words and answers questions over gRPC, as its page shows.",
    "PAGE-2": "A question is listed and answered from another terminal, as its page shows.",
    "PAGE-3": "An operator puts agents, reads conversations and what each turn cost, as its page shows.",
    "PAGE-4": "Each link of each page leads to a file and a heading.",
    "PAGE-5": "Each page of the documents can be reached from the README.",
    "PAGE-6": "Design notes are numbered without a gap, and titled by their number.",
}
