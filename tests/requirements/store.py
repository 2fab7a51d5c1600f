"""Behaviours of the store, each with an id that its tests name."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "STORE-1": "A run is created together with its idempotency key, its session, its input and its labels.",
    "STORE-2": "A repeated request id gives the run that it made; with another content it is a conflict naming it.",
    "STORE-3": "A session has one active run; a second is refused with the id of the first until that is settled.",
    "STORE-4": "A row is appended only after the one before it, by the owner of the run; again, it is acknowledged.",
    "STORE-5": "A run settles exactly once, with its summary, its session's messages and the session's release.",
    "STORE-6": "A log reads from any sequence in bounded parts that join to the whole.",
    "STORE-7": "A takeover raises the epoch of every unsettled run, or of one, and fences whoever wrote before.",
    "STORE-8": "Runs are listed newest first, by any combination of filters, in pages that miss and repeat nothing.",
    "STORE-9": "Tenants see neither runs, sessions nor idempotency keys of each other.",
    "STORE-10": "Whatever bytes and text a caller stores come back unchanged; what cannot be stored fails alone.",
    "STORE-11": "All stores answer any sequence of requests alike.",
    "STORE-12": "Changes of many runs share a transaction, and one that fails harms no other.",
    "STORE-13": "Cancelling a waiting change harms neither the store nor other changes.",
    "STORE-14": "A database that is locked, full, broken or closed is an error that says what to do, and is used again "
    "when the cause is gone; no acknowledged row is lost by it.",
    "STORE-15": "What waits for the store is bounded in number and bytes, and every wait is bounded in time.",
    "STORE-16": "A second server on the same file is refused in one line; the lock goes with the process.",
    "STORE-17": "The schema is migrated at start, by several processes at once too; a later release's schema and a "
    "file that is no database are refused in one line.",
    "STORE-18": "A process that is killed loses no acknowledged row, and its unfinished runs are taken over.",
    "STORE-19": "Every statement of the running service finds its rows through a key.",
    "STORE-20": "The store in memory forgets the oldest settled runs beyond its bound.",
}
