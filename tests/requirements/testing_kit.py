"""Running turns in a program's own process, and the public test kit."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "KIT-1": "Runtime runs a turn in the process of a program and returns its settled result, without gRPC or socket.",
    "KIT-2": "on_event gets every event of the run's log in order; on_settle gets the result once.",
    "KIT-3": "Cancelling the task that runs a turn cancels the run, which settles before the cancellation goes on.",
    "KIT-4": "What on_event raises is raised to the caller, and ends the run.",
    "KIT-5": "A turn in process is held to the rules of a turn over the wire, with the same paths and reasons.",
    "KIT-6": "Several turns run at once in one Runtime; leaving it settles every one of them.",
    "KIT-7": "A Runtime is made from a file, a Config, a mapping in the shape of a file, or nothing.",
    "KIT-8": "Importing turnwired imports neither an adapter nor a library.",
    "KIT-9": "A reader in process outlives a failure of the store, and is told what never happened.",
    "KIT-31": "Tools and hooks are found beside the file of the configuration, and what is not there is named.",
    "KIT-10": "The example of a turn in process runs as its page shows it.",
    "KIT-11": "An event collector shows a run as text, alike in every run, and differences as a diff.",
    "KIT-12": "A fake MCP server speaks the protocol without a process: discovery, calls, cancellation, its words.",
    "KIT-13": "A fault of a fake MCP server (delay, drop, crash, malformed, refusal, stale session) is one call's own.",
    "KIT-14": "A fake clock moves every timer of the engine, in order, and stands still otherwise.",
    "KIT-15": "A test that waits for time that nobody moves fails instead of hanging.",
    "KIT-16": "The pieces of the kit work together: a Runtime over a scripted model and a fake MCP server.",
    "KIT-32": "A scripted model keeps to the time limits of its call, as every provider does by its port.",
    "KIT-33": "Files come with a turn in process, and while it goes on, by the rules of the wire.",
    "KIT-20": "Each of our wires passes the conformance suite of providers against a server on the loopback.",
    "KIT-21": "The conformance suite of providers notices adapters that break a rule, each with a sentence.",
    "KIT-22": "Each of our tool sources passes the conformance suite of toolsets.",
    "KIT-23": "The conformance suite of toolsets notices sources that break a rule.",
    "KIT-30": "The code of the pages runs and prints what they say.",
}
