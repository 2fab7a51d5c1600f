"""What the contract promises beside what buf checks."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "CONTRACT-1": "A frame of RunTurn and a frame of WatchRun are the same bytes.",
    "CONTRACT-2": "Every cap is a value or a mode and says which modes it allows; the loop bounds are never unbounded.",
    "CONTRACT-3": "The contract imports nothing but itself and protobuf's own types.",
    "CONTRACT-4": "Events that come often have short field numbers.",
    "CONTRACT-5": "What the server tells of its providers has no room for keys.",
    "CONTRACT-6": "The generated Python code is what the contract gives.",
    "CONTRACT-7": "Golden bytes of every event, with every field and every kind of part, still say what they said.",
    "CONTRACT-8": "A log that an older server wrote is read.",
    "CONTRACT-9": "What was added to the contract since the release is in its changelog, and nothing else is.",
    "CONTRACT-10": "The page of the contract is made from its files and names all that is in them.",
    "CONTRACT-11": "A client of the released contract runs turns on a newer server, past events that it does not know.",
}
