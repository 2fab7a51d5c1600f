"""Hooks that an app implements over gRPC (HookService)."""

REQUIREMENTS = {
    "GHOOK-1": "An app is told every event of a run but deltas, in order, then its end with message, usage and cost.",
    "GHOOK-2": "An app chooses the kinds of events that it is told, or ends only; every event is of one kind.",
    "GHOOK-3": "What was not answered with OK is told again with the same ids, and says that it may be known.",
    "GHOOK-4": "An app that says how far it has kept events is told the rest, and never what it has.",
    "GHOOK-5": "An app that is not there loses nothing: it is told when it is, also over restarts of the server.",
    "GHOOK-6": "An app that hangs or fails holds up no run and no other hook, and fills no memory.",
    "GHOOK-7": "A run whose events an app does not take is put aside and told again later; others go on meanwhile.",
    "GHOOK-8": "The end of a run is told in the end, even if its events are never taken.",
    "GHOOK-9": "Runs that are silent for long take up no room of a hook.",
    "GHOOK-10": "A bearer token from a variable or a file, read anew, is in the calls and in no log.",
    "GHOOK-11": "Plaintext goes to this machine only, unless the configuration says so; a certificate is verified.",
    "GHOOK-12": "A configuration that cannot work is refused with its key.",
    "GHOOK-13": "Over kills of the server and of the app, an app that keeps the ids hears of every end exactly once.",
    "GHOOK-14": "The example app of the document runs, and prints what the document says.",
}
