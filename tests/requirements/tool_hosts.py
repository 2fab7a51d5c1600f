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
    "HOST-15": "An app registers at runtime, and its tools are its tenant's, under its id, until it is unregistered.",
    "HOST-16": "Nothing registers unless the deployment allows it, and then here or at addresses that it names.",
    "HOST-17": "A registration ends with its lease unless it is renewed; an app that has moved is registered anew.",
    "HOST-18": "An id belongs to who has registered it, and never to two sources.",
    "HOST-19": "So many hosts may be registered, and no more.",
    "HOST-20": "The RPCs of registration say what is wrong with a request by its path, and list hosts in pages.",
    "HOST-21": "Where callers are known, registering needs the role tool_host or operator.",
    "HOST-22": "With a service of its own process: what an app registers is used, and survives a restart of either.",
    "HOST-23": "A registered app that does not answer holds up no run.",
    "HOST-30": "The Python helper makes schemas of signatures, and takes one where it cannot.",
    "HOST-31": "The Python helper serves functions: results, failures, progress, cancellation; they may come and go.",
    "HOST-32": "The page about tool hosts runs, and prints what it says.",
    "HOST-33": "The example hosts in Go and TypeScript are built from their generated code, and are used by a service.",
    "HOST-34": "Regenerating the code of the Go and TypeScript clients leaves no difference.",
}
