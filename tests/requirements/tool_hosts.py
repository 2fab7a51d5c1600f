"""Apps that serve tools: what a host says and gives, how it registers, and the helpers in three languages."""

from __future__ import annotations

REQUIREMENTS = {
    "HOST-1": "An app of the configuration is a source of tools, listed as it describes them.",
    "HOST-2": "Progress is told while a call runs, and one result ends it, whose parts keep their types.",
    "HOST-3": "A tool that failed, and a status of the app, are error results that the model reads.",
    "HOST-4": "A stream without a result, or with a malformed one, is a failure that says what may have been done.",
    "HOST-5": "A call says its idempotency key, run, session, caller, attempt, trace and deadline.",
    "HOST-6": "A call that is cancelled or too slow is cancelled at the app.",
    "HOST-7": "A lost call has an unknown outcome; one that may be repeated is sent once more, with its key.",
    "HOST-8": "A call that cannot be sent was not executed.",
    "HOST-9": "An app that is back is asked anew; tools that have not changed stay the same list.",
    "HOST-10": "A change that the app tells of is learned at once, and otherwise when the list is old.",
    "HOST-11": "An app that says that it takes no calls gets none until it takes them again.",
    "HOST-12": "A list of tools that is endless, contradicts itself or has bad entries harms nothing else.",
    "HOST-13": "Arguments and results that are too long are refused, and say so.",
    "HOST-14": "Closing a host ends its calls, its streams and its connection.",
}
