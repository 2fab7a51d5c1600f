"""The engine: tasks, log, followers, recovery."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "ENGINE-1": "A turn streams its events in order and settles; the end of an iteration does not end the run.",
    "ENGINE-2": "Cancel reaches the provider's stream and the tool, and what was begun settles as interrupted.",
    "ENGINE-3": "Nothing is acted on before it is durable: no model call and no tool starts ahead of its events.",
    "ENGINE-4": "Events other than deltas are sent only when they are durable; deltas are sent at once.",
    "ENGINE-5": "A store that fails for a while delays a run; a store that stays away ends it visibly, never silently.",
    "ENGINE-6": "A fenced execution records nothing more, and its readers are told to attach again.",
    "ENGINE-7": "A reader that falls behind reads the store and gets the same log.",
    "ENGINE-8": "Runs found unfinished at boot settle ERRORED with SERVER_RESTARTED, pending calls by what is known.",
    "ENGINE-9": "A cursor ahead of where a newer epoch began is told to rewind to it, and then gets the new history.",
    "ENGINE-10": "A fault of the service settles the run as ERRORED with INTERNAL and a sentence, never a traceback.",
    "ENGINE-11": "What fails in preparation settles the run with phase PREPARATION.",
    "ENGINE-12": "The run's time limit ends it as BUDGET_EXCEEDED naming timeout.run.",
    "ENGINE-13": "History of a session reaches the model encoded once, in order, before the new input.",
    "ENGINE-14": "Idle streams get heartbeats: frames without events.",
    "ENGINE-16": "A caller that leaves while its turn is being accepted leaves no stored run without an owner.",
    "ENGINE-17": "A cancel or a deadline that comes while the run is prepared ends it before any model call.",
    "ENGINE-18": "A stored log that cannot be read keeps neither the server nor another run from going on.",
    "ENGINE-19": "A tool choice that the run cannot keep is never ignored: it ends the run before any model call.",
    "ENGINE-30": "Whatever models, tools, stores, callers and crashes do, the invariants of the log and history hold.",
    "ENGINE-20": "A run that could not be stored is settled when the store is back, in a new epoch.",
    "ENGINE-21": "A trace that would not fit a message is cut until it does, and the cut results say so.",
    "ENGINE-22": "Tools and sources that a run goes without are notices in its log.",
    "ENGINE-31": "An answer of a model that does not end is ended; its beginning is kept.",
    "ENGINE-32": "Frames keep to their size, live and stored, however large the rows of the log became.",
    "ENGINE-33": "Nobody is told an outcome that is not durable, and readers ahead of a lost log are told to wait.",
    "ENGINE-34": "A run that the store may have created although it did not say so is ended, and its session is free.",
    "ENGINE-15": "More runs than the server takes are refused with a delay, and none of them is stored.",
}
