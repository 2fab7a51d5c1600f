"""Behaviours of telemetry, each with an id that its tests name."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "TEL-1": "A run is a tree: caller, RPC, invoke_agent, iteration, then chat and execute_tool, then the MCP request.",
    "TEL-2": "Names, kinds, units and buckets are those of the conventions; an independent checker finds no violation.",
    "TEL-3": "A span has error.type if and only if its status is ERROR; no status is OK and none has a message.",
    "TEL-4": "What a caller cancels ends without an error, with its cause, partial usage and time to first output.",
    "TEL-5": "No prompt, answer, argument, result, failure message or credential is in any span or metric.",
    "TEL-6": "All attempts of a model call share one span, which counts what the failed ones used.",
    "TEL-7": "Token totals of a run equal the sum of its model calls.",
    "TEL-8": "No span is lost because something did not finish: a run that ends closes what is open in it.",
    "TEL-9": "Stopping takes two seconds at the most, whatever the collector does.",
    "TEL-10": "A collector that is down or slow causes no log line and no growing memory; what is dropped is counted.",
    "TEL-11": "Without a collector nothing is sent or logged, and OpenTelemetry is not even imported.",
    "TEL-12": "Nothing is registered globally, and the MCP SDK passes our span on as the parent.",
    "TEL-13": "Every RPC is reported once with the status its caller sees, however it ends.",
    "TEL-14": "A crash of a handler reaches the caller as INTERNAL, without a word of the exception.",
    "TEL-15": "Watching an RPC costs nothing per message.",
    "TEL-16": "A caller's trace is continued when it is recorded, and not recorded when it is not.",
    "TEL-17": "Ids are never on metrics, and attribute sets are bounded.",
    "TEL-18": "A setting that is not supported is refused in one line that says what to change.",
    "TEL-19": "Telemetry of an iteration with a tool costs less than a millisecond and a half, and of a delta nothing.",
}
